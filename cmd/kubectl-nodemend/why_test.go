package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/match"
)

// sick is a node with the condition Sick, and labels.
func sick(name, rack string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"rack": rack}}}
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: "Sick", Status: corev1.ConditionTrue, Reason: "R", LastTransitionTime: before(time.Hour), LastHeartbeatTime: before(time.Minute),
	}}
	return n
}

// mends is a policy for nodes with the condition Sick.
func mends() *v1alpha1.RemedyPolicy {
	p := &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "mends", UID: "uid-mends"}}
	p.Spec.Mode = v1alpha1.ModeEnforce
	p.Spec.Match = []v1alpha1.ConditionMatch{{Type: "Sick", Status: corev1.ConditionTrue}}
	p.Spec.Steps = []v1alpha1.Step{{RestartUnit: &v1alpha1.RestartUnitRemedy{Name: "kubelet.service"}, Attempts: 1}}
	return p
}

// queue is a node with a free budget, and others with remediations that wait for theirs.
func queue(others int) []client.Object {
	p := mends()
	b := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "racks"}}
	b.Spec.GroupBy, b.Spec.MaxConcurrent = "rack", ptr.To(intstr.FromInt32(1))
	b.Status.Groups = map[string]v1alpha1.BudgetGroup{"z": {Nodes: 1, Healthy: 1, Limit: ptr.To[int32](1)}}
	objects := []client.Object{sick("mine", "z"), p, b}
	for i := range others {
		n := sick(fmt.Sprint("other-", i), "r")
		r := match.NewRemediation(p, n, *match.Now(p, n, noon), "")
		r.UID, r.CreationTimestamp, r.Status.Step = types.UID(r.Name), before(time.Hour), 1
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationBlocked, Status: metav1.ConditionTrue, Reason: "BudgetExhausted", LastTransitionTime: before(0)}}
		objects = append(objects, n, r)
	}
	return objects
}

// requests are counted, and fail as the function of their object says.
type requests struct {
	count map[string]int
	fails func(object string) error
}

// cluster is a client of the objects.
func (r *requests) cluster(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	r.count = map[string]int{}
	ask := func(verb string, obj any) error {
		object := fmt.Sprintf("%s %T", verb, obj)
		r.count[object]++
		if r.fails == nil {
			return nil
		}
		return r.fails(object)
	}
	byNode := func(name func(client.Object) string) client.IndexerFunc {
		return func(obj client.Object) []string { return []string{name(obj)} }
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&v1alpha1.Remediation{}, "spec.nodeName", byNode(func(o client.Object) string { return o.(*v1alpha1.Remediation).Spec.NodeName })).
		WithIndex(&v1alpha1.NodeMaintenance{}, "spec.nodeName", byNode(func(o client.Object) string { return o.(*v1alpha1.NodeMaintenance).Spec.NodeName })).
		WithIndex(&v1alpha1.NodeAction{}, "spec.nodeName", byNode(func(o client.Object) string { return o.(*v1alpha1.NodeAction).Spec.NodeName })).
		WithIndex(&corev1.Pod{}, "spec.nodeName", byNode(func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName })).
		WithIndex(&coordinationv1.Lease{}, "metadata.name", byNode(client.Object.GetName)).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if err := ask("get", obj); err != nil {
					return err
				}
				return c.Get(ctx, key, obj, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				var o client.ListOptions
				o.ApplyOptions(opts)
				object := "list"
				if o.FieldSelector != nil && o.FieldSelector.Empty() {
					o.FieldSelector = nil
				}
				if o.FieldSelector != nil {
					object = "list by " + o.FieldSelector.String()
				}
				if err := ask(object, list); err != nil {
					return err
				}
				return c.List(ctx, list, &o)
			},
		}).Build()
}

func TestWhyFailsIfItCannotLookAtTheOthers(t *testing.T) {
	for _, lacking := range []string{"list *v1alpha1.RemediationList", "list *v1.NodeList"} {
		r := requests{fails: func(object string) error {
			if object == lacking || object == "get *v1.Node" && lacking == "list *v1.NodeList" {
				return errors.New("etcdserver: request timed out")
			}
			return nil
		}}
		c := r.cluster(t, queue(1)...)
		if lacking == "list *v1.NodeList" { // its own node can be read
			first := r.fails
			gets := 0
			r.fails = func(object string) error {
				if object == "get *v1.Node" {
					gets++
					if gets <= 2 {
						return nil
					}
				}
				return first(object)
			}
		}
		w, err := atNoon().why(t.Context(), c, "mine")
		if err != nil {
			t.Fatal(err)
		}
		if text := atNoon().whyText(w, false); says(text, "gates are open") || !says(text, "cannot be told") || !says(text, "request timed out") {
			t.Errorf("if it fails to %s:\n%s", lacking, text)
		}
	}
}

func TestWhyReadsWhatThereAreThousandsOfOnce(t *testing.T) {
	var r requests
	w, err := atNoon().why(t.Context(), r.cluster(t, queue(100)...), "mine")
	if err != nil || !says(atNoon().whyText(w, false), "gates are open") {
		t.Fatalf("%v: %+v", err, w)
	}
	if gets, lists := r.count["get *v1.Node"], r.count["list *v1alpha1.RemediationList"]; gets > 5 || lists > 1 {
		t.Errorf("%d nodes are read, and all remediations %d times", gets, lists)
	}
}

func TestWhySaysThatAConditionCountsNoMore(t *testing.T) {
	n, p := sick("mine", "z"), mends() // for an hour
	p.Spec.Match[0].IgnoreAfter = v1alpha1.Duration{Duration: 59 * time.Minute}
	var r requests
	c := r.cluster(t, n, p)
	const old = "Sick=True is so for longer than its ignoreAfter of 59m, and counts no more"
	w, err := atNoon().why(t.Context(), c, "mine")
	if err != nil {
		t.Fatal(err)
	}
	if text := atNoon().whyText(w, false); !says(text, "Policy mends (Enforce): nothing to do: "+old) || !says(text, "Sick=True (ignored after 59m): now True") {
		t.Error(text)
	}
	if _, err := atNoon().byHand(t.Context(), c, "mends", n); err == nil || !strings.Contains(err.Error(), "none of the conditions that policy mends matches: "+old) {
		t.Errorf("by hand: %v", err)
	}
}

func TestWhyTellsWhatOnlyTheControllerCounts(t *testing.T) {
	n, p := sick("mine", "z"), mends()
	p.Spec.Match[0].For, p.Spec.Match[0].Debounce = v1alpha1.Duration{Duration: 5 * time.Minute}, v1alpha1.Duration{Duration: 2 * time.Minute}
	tell := func(objects ...client.Object) string {
		t.Helper()
		req := requests{}
		w, err := atNoon().why(t.Context(), req.cluster(t, append(objects, n, p)...), "mine")
		if err != nil {
			t.Fatal(err)
		}
		return atNoon().whyText(w, false)
	}
	text := tell()
	for _, want := range []string{
		"waits until the controller has seen Sick=True for 5m, by its own clock and without what is shorter than debounce, 2m; it counts anew after its restart. If it runs, at the latest in 5m",
		"Sick=True for 5m, debounce 2m: now True", "Next look: in 5m",
	} {
		if !says(text, want) {
			t.Errorf("it does not tell %q:\n%s", want, text)
		}
	}
	r := match.NewRemediation(p, n, *match.Now(p, n, noon), "")
	r.UID, r.CreationTimestamp = "uid-r", before(time.Minute)
	seen := before(10 * time.Minute)
	r.Spec.Trigger.SeenSince = &seen
	if text := tell(r); !says(text, "the controller counts by its own clock, and had seen it True since "+seen.UTC().Format(time.RFC3339)) {
		t.Error(text)
	}
	r.Status.EndTime = &seen
	r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationProgressing, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReleased}}
	if text := tell(r); !says(text, "ended as Released; Sick=True starts another one after it was seen healthy for its debounce") {
		t.Error(text)
	}
}

func TestARemediationThatCannotBeExplainedIsToldOnceAndIsAnError(t *testing.T) {
	n, p := sick("mine", "z"), mends()
	r := match.NewRemediation(p, n, *match.Now(p, n, noon), "")
	r.UID = "uid-r"
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "nodemend.dev", Resource: "nodeactions"}, "",
		errors.New(`User "x" cannot list resource "nodeactions" in API group "nodemend.dev" at the cluster scope`))
	req := requests{fails: func(object string) error {
		if strings.HasSuffix(object, "NodeActionList") {
			return forbidden
		}
		return nil
	}}
	w, err := atNoon().why(t.Context(), req.cluster(t, n, p, r), "mine")
	if err != nil {
		t.Fatal(err)
	}
	text := atNoon().whyText(w, false)
	if len(w.Policies) != 1 || w.Policies[0].Remediation != r.Name || !says(text, "the ClusterRole nodemend-view allows to list nodeactions") {
		t.Error(text)
	}
	if err := w.untold(); err == nil || !strings.Contains(err.Error(), "policy mends") {
		t.Errorf("the end is %v", err)
	}
}

// What only an object of another program shows, the controller asks right before the step.
func TestWhyTellsThatAnotherHealerHasTheNode(t *testing.T) {
	objects := queue(0)
	for _, o := range objects {
		if p, is := o.(*v1alpha1.RemedyPolicy); is {
			p.Spec.Steps = []v1alpha1.Step{{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootSysRq}, Attempts: 1}}
		}
	}
	const holds = "NodeHealthCheck-workers of medik8s holds node mine"
	gate := func(objects ...client.Object) (whyGate, string) {
		var r requests
		w, err := atNoon().why(t.Context(), r.cluster(t, objects...), "mine")
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range w.Policies[0].Gates {
			if g.Gate == "OtherHealer" {
				return g, w.Policies[0].Verdict
			}
		}
		t.Fatalf("no such gate: %+v", w.Policies[0].Gates)
		return whyGate{}, ""
	}
	if g, verdict := gate(objects...); g.Held || strings.Contains(verdict, "held") {
		t.Errorf("%+v, %s", g, verdict)
	}
	g, _ := gate(append(objects, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: "node-mine"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("NodeHealthCheck-workers"), LeaseDurationSeconds: ptr.To[int32](600), RenewTime: &metav1.MicroTime{Time: noon},
		},
	})...)
	if !g.Held || g.Reason != "OtherHealer" || !strings.Contains(g.Message, holds) {
		t.Errorf("%+v", g)
	}
}

func TestWhyTellsWhatTheTaintHasNotFreed(t *testing.T) {
	n, p := sick("mine", "z"), mends()
	mark := v1alpha1.OutOfServiceMark{BootID: "boot-1", Action: "action"}
	n.Annotations, n.Spec.Taints = map[string]string{v1alpha1.OutOfServiceAnnotation: mark.String()}, []corev1.Taint{mark.Taint()}
	n.Status.NodeInfo.BootID = "boot-1"
	pod := func(name, node string, tolerations ...corev1.Toleration) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: node, Tolerations: tolerations}}
	}
	var r requests
	c := r.cluster(t, n, p, pod("db-0", "mine"), pod("agent", "mine", corev1.Toleration{Operator: corev1.TolerationOpExists}), pod("other", "theirs"))
	w, err := atNoon().why(t.Context(), c, "mine")
	if err != nil {
		t.Fatal(err)
	}
	text := atNoon().whyText(w, false)
	for _, want := range []string{
		"out of service by Nodemend", "Out of service: it has not booted since it was switched off",
		"Out of service: left: pod ns/db-0: is not told to end yet", "Out of service: not freed: pod ns/agent: tolerates the taint",
	} {
		if !says(text, want) {
			t.Errorf("it does not tell %q:\n%s", want, text)
		}
	}
	if says(text, "other") {
		t.Error(text)
	}
	delete(n.Annotations, v1alpha1.OutOfServiceAnnotation)
	if w, err := atNoon().why(t.Context(), r.cluster(t, n, p), "mine"); err != nil || len(w.OutOfService) > 0 || !says(atNoon().whyText(w, false), "out of service by somebody else") {
		t.Errorf("got %+v, %v", w, err)
	}
}

func TestListsOfTheAnswerAreNeverNull(t *testing.T) {
	n, p := sick("mine", "z"), mends()
	p.Spec.Match[0].Type = "Other"
	var r requests
	w, err := atNoon().why(t.Context(), r.cluster(t, n, p), "mine")
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(w)
	if err != nil || !strings.Contains(string(data), `"gates":[]`) || strings.Contains(string(data), "null") {
		t.Errorf("%v: %s", err, data)
	}
}
