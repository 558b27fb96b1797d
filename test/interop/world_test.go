//go:build integration

package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller"
	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/helm"
)

const (
	// patience bounds every wait: only what hangs needs it.
	patience = 10 * time.Minute
	poll     = 200 * time.Millisecond

	namespace = "nodemend-system"
	// sceneLabel is on the nodes of a scene, with its name.
	sceneLabel = "scene"
)

// world is a control plane with Nodemend's kinds, rights and admission policies, and its controller, which
// has these rights and no others. Scenes are in it beside each other.
type world struct {
	*WithT
	t       *testing.T
	ctx     context.Context
	cluster *cluster.Cluster
	client  client.Client
	dir     string
}

// newWorld starts one, with these values of the chart.
func newWorld(t *testing.T, options cluster.Options, values ...string) *world {
	t.Helper()
	options.CRDs, options.ControllerManager, options.Kwok = deploy.CRDs, true, true
	c, err := cluster.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := (&world{ctx: t.Context(), cluster: c, dir: t.TempDir()}).of(t)
	scheme := runtime.NewScheme()
	w.Expect(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))).To(Succeed())
	w.client, err = client.New(c.Config, client.Options{Scheme: scheme})
	w.Expect(err).NotTo(HaveOccurred())
	w.install(values)
	cfg := w.account("controller")
	w.spawn("controller", func(ctx context.Context) error {
		return controller.Run(ctx, cfg, controller.Options{Registry: prometheus.NewRegistry()})
	})
	return w
}

// of is the world for a part of the test.
func (w *world) of(t *testing.T) *world {
	part := *w
	part.t, part.WithT = t, NewWithT(t)
	part.SetDefaultEventuallyTimeout(patience)
	part.SetDefaultEventuallyPollingInterval(poll)
	return &part
}

// install applies what the chart has but its workloads and its budget.
func (w *world) install(values []string) {
	w.t.Helper()
	kinds := []string{
		"Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	}
	args := []string{"--set=createNamespace=true"}
	for _, value := range values {
		args = append(args, "--set="+value)
	}
	for _, obj := range w.parse(helm.Template(w.t, namespace, args...)) {
		if slices.Contains(kinds, obj.GetKind()) {
			w.Expect(w.client.Apply(w.ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("test"))).To(Succeed())
		}
	}
}

// parse returns the objects of a YAML text.
func (w *world) parse(text string) (all []*unstructured.Unstructured) {
	w.t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(obj)
		if errors.Is(err, io.EOF) {
			return all
		}
		w.Expect(err).NotTo(HaveOccurred())
		if obj.Object != nil { // nil: only comments
			all = append(all, obj)
		}
	}
}

// create creates the objects of a YAML text, with these put in for its verbs.
func (w *world) create(text string, args ...any) {
	w.t.Helper()
	for _, obj := range w.parse(fmt.Sprintf(text, args...)) {
		w.Expect(w.client.Create(w.ctx, obj)).To(Succeed())
	}
}

// account is the config of a role of Nodemend's.
func (w *world) account(role string) *rest.Config {
	w.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nodemend-" + role}}
	request := &authenticationv1.TokenRequest{}
	w.Expect(w.client.SubResource("token").Create(w.ctx, account, request)).To(Succeed())
	cfg := rest.AnonymousClientConfig(w.cluster.Config)
	cfg.BearerToken = request.Status.Token
	return cfg
}

// spawn runs it beside the test, which waits for its end when it ends itself.
func (w *world) spawn(name string, run func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			w.t.Errorf("the %s ended: %v", name, err)
		}
	})
}

// get reads an object of a kind that Nodemend's scheme does not have; nil: there is none.
func (w *world) get(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	w.t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	err := w.client.Get(w.ctx, types.NamespacedName{Namespace: namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.Expect(err).NotTo(HaveOccurred())
	return obj
}

// list lists objects of such a kind with a label of this value.
func (w *world) list(apiVersion, kind, label, value string) []unstructured.Unstructured {
	w.t.Helper()
	all := &unstructured.UnstructuredList{}
	all.SetAPIVersion(apiVersion)
	all.SetKind(kind + "List")
	w.Expect(w.client.List(w.ctx, all, client.MatchingLabels{label: value})).To(Succeed())
	return all.Items
}

// condition is STATUS/REASON of one in an object's status, "" if there is none, or no object.
func condition(obj *unstructured.Unstructured, kind string) string {
	if obj == nil {
		return ""
	}
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, item := range list {
		if c, _ := item.(map[string]any); c["type"] == kind {
			return fmt.Sprintf("%v/%v", c["status"], c["reason"])
		}
	}
	return ""
}

// node is one as the API server has it; nil: there is none.
func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	node := &corev1.Node{}
	err := w.client.Get(w.ctx, types.NamespacedName{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.Expect(err).NotTo(HaveOccurred())
	return node
}

// nodes are the names of those of a scene.
func (w *world) nodes(scene string) (names []string) {
	w.t.Helper()
	var list corev1.NodeList
	w.Expect(w.client.List(w.ctx, &list, client.MatchingLabels{sceneLabel: scene})).To(Succeed())
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// mayActOn creates a budget for the nodes of a scene.
func (w *world) mayActOn(scene string) {
	w.t.Helper()
	w.Expect(w.client.Create(w.ctx, &v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: scene},
		Spec:       v1alpha1.RemediationBudgetSpec{NodeSelector: selecting(scene), MaxConcurrent: new(intstr.FromInt32(1))},
	})).To(Succeed())
}

func selecting(scene string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{sceneLabel: scene}}
}

// policy creates one of this name for the nodes of a scene, whose steps are taken for a condition, or if that is
// "" when somebody asks for it.
func (w *world) policy(name, scene, condition string, steps ...v1alpha1.Step) {
	w.t.Helper()
	p := &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.RemedyPolicySpec{
			NodeSelector: selecting(scene), Steps: steps,
			// The nodes are new, and incidents follow each other.
			DelayAfterJoin: &v1alpha1.Duration{}, Cooldown: &v1alpha1.Duration{},
		},
	}
	if condition != "" {
		p.Spec.Match = []v1alpha1.ConditionMatch{{Type: condition, Status: corev1.ConditionTrue}}
		p.Spec.Recovery = v1alpha1.Recovery{HealthyFor: duration(time.Second)}
	}
	w.Expect(w.client.Create(w.ctx, p)).To(Succeed())
}

func duration(d time.Duration) v1alpha1.Duration { return v1alpha1.Duration{Duration: d} }

// gentle is a step that mends nothing.
func gentle() v1alpha1.Step {
	return v1alpha1.Step{
		Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/true"}}, Attempts: 1,
		Timeout: duration(time.Minute), VerifyTimeout: duration(time.Second),
	}
}

// reboot is a step that reboots the node, in vain after an hour.
func reboot() v1alpha1.Step {
	return v1alpha1.Step{
		Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootSysRq}, Attempts: 1,
		Timeout: duration(5 * time.Minute), VerifyTimeout: duration(time.Hour),
	}
}

// remediation is that of a policy on a node, which is the only one; nil: there is none.
func (w *world) remediation(policy, node string) *v1alpha1.Remediation {
	w.t.Helper()
	var list v1alpha1.RemediationList
	w.Expect(w.client.List(w.ctx, &list, client.MatchingFields{"spec.nodeName": node})).To(Succeed())
	var found []*v1alpha1.Remediation
	for i := range list.Items {
		if list.Items[i].Spec.Policy.Name == policy {
			found = append(found, &list.Items[i])
		}
	}
	if len(found) == 0 {
		return nil
	}
	w.Expect(found).To(HaveLen(1), "one incident is one remediation")
	return found[0]
}

// state is that of the remediation, with what blocks it: "Healing/OtherHealer".
func (w *world) state(policy, node string) string {
	w.t.Helper()
	r := w.remediation(policy, node)
	switch {
	case r == nil:
		return ""
	case r.BlockedBy() != "":
		return r.State() + "/" + r.BlockedBy()
	default:
		return r.State()
	}
}

// ended reports whether the remediation is over.
func (w *world) ended(policy, node string) bool {
	w.t.Helper()
	r := w.remediation(policy, node)
	return r != nil && r.Ended()
}

// blocked is why the remediation is.
func (w *world) blocked(policy, node string) string {
	w.t.Helper()
	if r := w.remediation(policy, node); r != nil && r.BlockedBy() != "" {
		for _, c := range r.Status.Conditions {
			if c.Type == v1alpha1.RemediationBlocked {
				return c.Reason + ": " + c.Message
			}
		}
	}
	return ""
}

// history has for each attempt of the remediation its step and outcome: "1 Succeeded".
func (w *world) history(policy, node string) (attempts []string) {
	w.t.Helper()
	if r := w.remediation(policy, node); r != nil {
		for _, attempt := range r.Status.History {
			attempts = append(attempts, fmt.Sprintf("%d %s", attempt.Step, attempt.Outcome))
		}
	}
	return attempts
}

// isGivenBack wants all of Nodemend's to be gone from the nodes of a scene: permits, maintenances, and what
// it has put on the nodes.
func (w *world) isGivenBack(scene string) {
	w.t.Helper()
	w.Eventually(func() (left []string) {
		var budget v1alpha1.RemediationBudget
		w.Expect(w.client.Get(w.ctx, types.NamespacedName{Name: scene}, &budget)).To(Succeed())
		for name := range budget.Status.Groups[v1alpha1.UngroupedNodes].Permits {
			left = append(left, "permit of "+name)
		}
		var maintenances v1alpha1.NodeMaintenanceList
		w.Expect(w.client.List(w.ctx, &maintenances)).To(Succeed())
		for _, name := range w.nodes(scene) {
			node := w.node(name)
			if node == nil {
				continue
			}
			if node.Spec.Unschedulable {
				left = append(left, "cordon of "+name)
			}
			for key := range node.Annotations {
				if strings.Contains(key, "nodemend") {
					left = append(left, "annotation "+key+" of "+name)
				}
			}
			for _, taint := range node.Spec.Taints {
				if strings.Contains(taint.Key, "nodemend") {
					left = append(left, "taint "+taint.Key+" of "+name)
				}
			}
			for i := range maintenances.Items {
				if maintenances.Items[i].Spec.NodeName == name {
					left = append(left, "NodeMaintenance "+maintenances.Items[i].Name)
				}
			}
		}
		return left
	}).Should(BeEmpty())
}
