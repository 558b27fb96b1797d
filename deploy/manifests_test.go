package deploy_test

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// manifests are objects in the order in which they are installed.
type manifests []unstructured.Unstructured

func TestNoRoleHasMoreThanItsList(t *testing.T) { checkRights(t, installed(t)) }

// checkRights makes sure that no role has more than it needs.
func checkRights(t *testing.T, objects manifests) {
	t.Helper()
	forbidden := []string{
		"*", "secrets", "configmaps", "pods/exec", "pods/attach", "pods/portforward", "pods/ephemeralcontainers", "nodes/proxy",
		"serviceaccounts/token", "escalate", "bind", "impersonate",
	}
	roles := 0
	for _, obj := range objects {
		for _, rule := range rules(t, obj) {
			roles++
			words := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs)
			for _, word := range words {
				if slices.Contains(forbidden, word) || strings.Contains(word, "*") {
					t.Errorf("%s %s allows %q", obj.GetKind(), obj.GetName(), word)
				}
			}
			for _, verb := range rule.Verbs {
				if slices.Contains(rule.Resources, "remedypolicies") && !slices.Contains([]string{"get", "list", "watch"}, verb) {
					t.Errorf("%s %s allows to %s policies: whoever can write them can run commands as root", obj.GetKind(), obj.GetName(), verb)
				}
			}
		}
		if strings.HasSuffix(obj.GetKind(), "RoleBinding") {
			binding := as[rbacv1.ClusterRoleBinding](t, obj) // a RoleBinding has the same fields
			if !strings.HasPrefix(binding.RoleRef.Name, "nodemend-") || len(binding.Subjects) != 1 || binding.Subjects[0].Kind != rbacv1.ServiceAccountKind {
				t.Errorf("%s %s gives %s to %v: want a role of ours for one account", obj.GetKind(), obj.GetName(), binding.RoleRef.Name, binding.Subjects)
			}
		}
	}
	if roles == 0 {
		t.Error("there is no role")
	}
}

func rules(t *testing.T, obj unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	switch obj.GetKind() {
	case "ClusterRole":
		role := as[rbacv1.ClusterRole](t, obj)
		external := role.Name == "nodemend-external-remediators" && len(role.AggregationRule.ClusterRoleSelectors) == 1 &&
			maps.Equal(role.AggregationRule.ClusterRoleSelectors[0].MatchLabels, map[string]string{"rbac.ext-remediation/aggregate-to-ext-remediation": "true"})
		drivers := role.Name == "nodemend-drivers" // which those who drive us collect
		if role.AggregationRule != nil && !external || len(role.Labels) > 0 && !drivers {
			t.Errorf("ClusterRole %s is aggregated, or may be", role.Name)
		}
		return role.Rules
	case "Role":
		return as[rbacv1.Role](t, obj).Rules
	default:
		return nil
	}
}

func TestTheKustomizationSetsTheImage(t *testing.T) {
	data, err := os.ReadFile("kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct {
		Resources []string
		Images    []struct{ Name string }
	}
	if err := yaml.Unmarshal(data, &kustomization); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(kustomization.Resources, []string{"install.yaml"}) {
		t.Errorf("kustomization.yaml has %q", kustomization.Resources)
	}
	for role, pod := range pods(t, installed(t)) {
		if image := pod.Containers[0].Image; !strings.HasPrefix(image, kustomization.Images[0].Name+":") {
			t.Errorf("the image of the %s is %q, which kustomization.yaml does not replace", role, image)
		}
	}
}

func TestTheAgentsOutliveTheDisease(t *testing.T) {
	all := pods(t, installed(t))
	for _, role := range []string{"detector", "runner"} {
		checkAgent(t, role, all[role])
	}
	for role := range all {
		if role != "controller" && all[role].Containers[0].LivenessProbe != nil {
			t.Errorf("the %s has a livenessProbe: whoever is on the node can take its port and have it killed, the runner in the middle of an action", role)
		}
	}
}

// checkAgent makes sure that a pod runs on every node, whatever is wrong with it.
func checkAgent(t *testing.T, role string, pod corev1.PodSpec) {
	t.Helper()
	c := pod.Containers[0]
	if pod.ServiceAccountName != "nodemend-"+role {
		t.Errorf("the %s has the account %s: each role has its own", role, pod.ServiceAccountName)
	}
	if !pod.HostNetwork || !pod.HostPID || pod.DNSPolicy != corev1.DNSDefault || pod.PriorityClassName != "system-node-critical" {
		t.Errorf("the %s depends on the cluster's network or DNS, is not among the host's processes, or is evicted first", role)
	}
	if !slices.Equal(pod.Tolerations, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}) {
		t.Errorf("the %s does not tolerate everything", role)
	}
	if len(pod.NodeSelector) != 1 || pod.NodeSelector[corev1.LabelOSStable] != "linux" {
		t.Errorf("the %s is for the nodes %v, want all with Linux", role, pod.NodeSelector)
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil && (probe.Exec != nil || probe.HTTPGet == nil || probe.HTTPGet.Host != "127.0.0.1") {
			t.Errorf("the %s has a probe that needs the container runtime, or an address of the host that is not the loopback", role)
		}
	}
}

func TestTheControllerNeedsNoPrivilegeAndLetsItsNodeDrain(t *testing.T) {
	const controlPlane = "node-role.kubernetes.io/control-plane"
	pod := pods(t, installed(t))["controller"]
	security := pod.Containers[0].SecurityContext
	if pod.HostNetwork || pod.HostPID || security.Privileged != nil || *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem || !*pod.SecurityContext.RunAsNonRoot {
		t.Error("the controller has privileges")
	}
	if pod.Affinity.PodAntiAffinity == nil || pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		t.Error("the replicas should prefer different nodes, and run on one if there is no other")
	}
	node := pod.Affinity.NodeAffinity
	if node == nil || node.RequiredDuringSchedulingIgnoredDuringExecution != nil || len(node.PreferredDuringSchedulingIgnoredDuringExecution) != 1 ||
		node.PreferredDuringSchedulingIgnoredDuringExecution[0].Preference.MatchExpressions[0].Key != controlPlane {
		t.Error("the controller should prefer nodes of the control plane, and run on others if there are none")
	}
	if !slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == controlPlane && t.Operator == corev1.TolerationOpExists && t.Effect == corev1.TaintEffectNoSchedule
	}) {
		t.Error("the controller does not tolerate the taint of the nodes that it prefers")
	}
	budget := as[policyv1.PodDisruptionBudget](t, installed(t).ofKind("PodDisruptionBudget")[0])
	if budget.Spec.MinAvailable != nil || budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Error("the PodDisruptionBudget may keep a node with a controller from being drained")
	}
}

// The API server lets a token of the default lifetime, 3607 s, live for a year
// (--service-account-extend-token-expiration), and a root on a writable root file system keep
// what it has found.
func TestTokensEndAndRootsAreReadOnly(t *testing.T) {
	for name, pod := range pods(t, installed(t)) {
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Errorf("%s gets the default token", name)
		}
		tokens := 0
		for _, volume := range pod.Volumes {
			if volume.Projected == nil {
				continue
			}
			for _, source := range volume.Projected.Sources {
				if token := source.ServiceAccountToken; token != nil {
					tokens++
					if s := token.ExpirationSeconds; s == nil || *s == 3607 || *s > 86400 {
						t.Errorf("%s: its token ends after %v s", name, s)
					}
				}
			}
		}
		if tokens != 1 {
			t.Errorf("%s has %d tokens", name, tokens)
		}
		for _, c := range pod.Containers {
			if c.SecurityContext == nil || c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s: the root of container %s can be written", name, c.Name)
			}
		}
	}
}

func TestInstallingDoesNothingToANode(t *testing.T) {
	for _, obj := range installed(t) {
		if obj.GroupVersionKind().Group == "nodemend.dev" {
			t.Errorf("install.yaml has a %s: kubectl does not know the kind before the CRDs are there, and a policy would act", obj.GetKind())
		}
	}
}

// pods returns the pod of each workload, by its name without the prefix.
func pods(t *testing.T, objects manifests) map[string]corev1.PodSpec {
	t.Helper()
	specs := map[string]corev1.PodSpec{}
	for _, obj := range objects {
		name := strings.TrimPrefix(obj.GetName(), "nodemend-")
		switch obj.GetKind() {
		case "DaemonSet":
			specs[name] = as[appsv1.DaemonSet](t, obj).Spec.Template.Spec
		case "Deployment":
			specs[name] = as[appsv1.Deployment](t, obj).Spec.Template.Spec
		}
	}
	return specs
}

// ofKind returns the objects of these kinds.
func (m manifests) ofKind(kinds ...string) (selected manifests) {
	for _, obj := range m {
		if slices.Contains(kinds, obj.GetKind()) {
			selected = append(selected, obj)
		}
	}
	return selected
}

// installed returns the objects of install.yaml.
func installed(t *testing.T) manifests {
	t.Helper()
	data, err := os.ReadFile("install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(data))
}

func parse(t *testing.T, text string) (all manifests) {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var obj unstructured.Unstructured
		if err := decoder.Decode(&obj); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if obj.Object != nil { // nil: only comments
			all = append(all, obj)
		}
	}
}

// as converts an object, and fails for a field that its kind does not have.
func as[T any](t *testing.T, obj unstructured.Unstructured) (typed T) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, &typed, true); err != nil {
		t.Fatalf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
	return typed
}
