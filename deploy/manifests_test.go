package deploy_test

import (
	"bytes"
	"embed"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/deploy"
)

func TestNoRoleHasMoreThanItsList(t *testing.T) {
	forbidden := []string{"*", "secrets", "configmaps", "pods/exec", "nodes/proxy", "serviceaccounts/token", "escalate", "bind", "impersonate"}
	for _, obj := range objects(t, deploy.RBAC) {
		for _, rule := range rules(t, obj) {
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
	}
}

func rules(t *testing.T, obj unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	switch obj.GetKind() {
	case "ClusterRole":
		role := as[rbacv1.ClusterRole](t, obj)
		if role.AggregationRule != nil || len(role.Labels) > 0 {
			t.Errorf("ClusterRole %s is aggregated, or may be", role.Name)
		}
		return role.Rules
	case "Role":
		return as[rbacv1.Role](t, obj).Rules
	default:
		return nil
	}
}

func TestEveryManifestIsPartOfTheKustomization(t *testing.T) {
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
	var files []string
	for _, embedded := range []embed.FS{deploy.CRDs, deploy.RBAC, deploy.Admission, deploy.Workloads} {
		files = append(files, names(t, embedded)...)
	}
	slices.Sort(files)
	slices.Sort(kustomization.Resources)
	if !slices.Equal(files, kustomization.Resources) {
		t.Errorf("kustomization.yaml has %q, want %q", kustomization.Resources, files)
	}
	for role, pod := range pods(t) {
		if image := pod.Containers[0].Image; image != kustomization.Images[0].Name {
			t.Errorf("the image of the %s is %q, which kustomization.yaml does not replace", role, image)
		}
	}
}

func TestTheAgentsOutliveTheDisease(t *testing.T) {
	for _, role := range []string{"detector", "runner"} {
		pod, c := pods(t)[role], pods(t)[role].Containers[0]
		if pod.ServiceAccountName != "nodemend-"+role {
			t.Errorf("the %s has the account %s: each role has its own", role, pod.ServiceAccountName)
		}
		if !pod.HostNetwork || !pod.HostPID || pod.DNSPolicy != corev1.DNSDefault || pod.PriorityClassName != "system-node-critical" {
			t.Errorf("the %s depends on the cluster's network or DNS, is not among the host's processes, or is evicted first", role)
		}
		if !slices.Equal(pod.Tolerations, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}) {
			t.Errorf("the %s does not tolerate everything", role)
		}
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if probe != nil && (probe.Exec != nil || probe.HTTPGet == nil || probe.HTTPGet.Host != "127.0.0.1") {
				t.Errorf("the %s has a probe that needs the container runtime, or an address of the host that is not the loopback", role)
			}
		}
	}
	if pods(t)["runner"].Containers[0].LivenessProbe != nil {
		t.Error("the runner has a livenessProbe, which would restart it in the middle of an action")
	}
}

// pods returns the pod of each workload, by the role.
func pods(t *testing.T) map[string]corev1.PodSpec {
	t.Helper()
	specs := map[string]corev1.PodSpec{}
	for _, obj := range objects(t, deploy.Workloads) {
		role := strings.TrimPrefix(obj.GetName(), "nodemend-")
		switch obj.GetKind() {
		case "DaemonSet":
			specs[role] = as[appsv1.DaemonSet](t, obj).Spec.Template.Spec
		case "Deployment":
			specs[role] = as[appsv1.Deployment](t, obj).Spec.Template.Spec
		}
	}
	if len(specs) != 3 {
		t.Fatalf("there are %d workloads, want one for each of the three roles", len(specs))
	}
	return specs
}

// objects returns all objects of the files, in their order.
func objects(t *testing.T, files embed.FS) []unstructured.Unstructured {
	t.Helper()
	var all []unstructured.Unstructured
	for _, name := range names(t, files) {
		data, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		for {
			var obj unstructured.Unstructured
			if err := decoder.Decode(&obj); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all = append(all, obj)
		}
	}
	return all
}

// names returns the paths of the files, those of the top directory first.
func names(t *testing.T, files embed.FS) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.yaml", "*/*.yaml"} {
		found, err := fs.Glob(files, pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

// as converts an object, and fails for a field that its kind does not have.
func as[T any](t *testing.T, obj unstructured.Unstructured) (typed T) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, &typed, true); err != nil {
		t.Fatalf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
	return typed
}
