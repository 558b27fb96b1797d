//go:build integration

package deploy_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// props is what the rows of the abuse table are about, besides the nodes A and B of the scene
// and an action of each, which nobody has claimed.
type props struct {
	*scene
	a, b string // names of the nodes
	// claimed and done are actions of node A: one runs, one has ended.
	claimed, done *v1alpha1.NodeAction
	// Three have ended a boot of node A: rebooted by its runner, cut by the remote one. Of told, it
	// is known what that boot has left.
	rebooted, cut, told *v1alpha1.NodeAction
	// cordoned was cordoned by a person, marked by the controller.
	cordoned, marked string
	// remediation is of node A, maintenance and budget were made by a person.
	remediation *v1alpha1.Remediation
	maintenance *v1alpha1.NodeMaintenance
	budget      *v1alpha1.RemediationBudget
	// kubelets is an event of the kubelet about node A, others one about node B, agents one of the detector.
	kubelets, others, agents string
	// free may be evicted, guarded has a PodDisruptionBudget. Both run on node B.
	free, guarded string
}

func newProps(t *testing.T) *props {
	t.Helper()
	s := newScene(t)
	suffix := utilrand.String(6)
	p := &props{scene: s, a: s.a.Name, b: s.b.Name, cordoned: "c-" + suffix, marked: "d-" + suffix}

	p.claimed, p.done = s.newAction(s.a), s.newAction(s.a)
	s.must(claim(s.ctx, s.admin, p.claimed))
	s.must(claim(s.ctx, s.admin, p.done))
	s.must(finish(s.ctx, s.admin, p.done))

	p.rebooted, p.told, p.cut = s.newAction(s.a), s.newAction(s.a), s.actionFor(s.a)
	p.cut.Spec.Executor = v1alpha1.ExecutorRemote
	s.must(s.admin.Create(s.ctx, p.cut))
	for _, action := range []*v1alpha1.NodeAction{p.rebooted, p.told, p.cut} {
		claimedAt(0)(action)
		action.Status.Claim.Remedy = v1alpha1.RemedyReboot
		s.must(s.admin.Status().Update(s.ctx, action))
		if action == p.cut { // which a node's runner may not say
			in("Ended")(action)
			ended(v1alpha1.ReasonNotBack)(action)
			s.must(s.admin.Status().Update(s.ctx, action))
			continue
		}
		s.must(finish(s.ctx, s.admin, action))
	}
	left("the end")(p.told)
	s.must(s.admin.Status().Update(s.ctx, p.told))

	for name, annotations := range map[string]map[string]string{p.cordoned: nil, p.marked: {v1alpha1.CordonedAnnotation: "m"}} {
		s.temporary(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: corev1.NodeSpec{Unschedulable: true}})
	}

	p.remediation = s.remediationOf(s.a)
	p.maintenance = &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "maintenance-" + suffix},
		Spec:       v1alpha1.NodeMaintenanceSpec{NodeName: s.b.Name, Reason: "swap DIMM A1", RequestedBy: "jane"},
	}
	p.budget = &v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "budget-" + suffix},
		Spec:       v1alpha1.RemediationBudgetSpec{NodeSelector: s.policy.Spec.NodeSelector},
	}
	for _, obj := range []client.Object{p.remediation, p.maintenance, p.budget} {
		s.temporary(obj)
	}

	event := func(node, component string) string {
		e := eventAbout("Node", node)
		e.Source.Component = component
		s.temporary(e)
		return e.Name
	}
	p.kubelets, p.others, p.agents = event(p.a, "kubelet"), event(p.b, "kubelet"), event(p.a, "nodemend-detector")

	p.free, p.guarded = p.pod("free-"+suffix, s.b), p.pod("guarded-"+suffix, s.b)
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: p.guarded, Namespace: metav1.NamespaceDefault},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.guarded}}},
	}
	s.temporary(pdb)
	pdb.Status.ObservedGeneration = pdb.Generation
	s.must(s.admin.Status().Update(s.ctx, pdb))
	return p
}

// temporary creates an object for this test.
func (s *scene) temporary(obj client.Object) {
	s.Helper()
	s.must(s.admin.Create(s.ctx, obj))
	s.Cleanup(func() {
		err := s.admin.Delete(context.WithoutCancel(s.ctx), obj, client.GracePeriodSeconds(0))
		s.must(client.IgnoreNotFound(err))
	})
}

// pod is one that runs.
func (s *scene) pod(name string, node *corev1.Node) string {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	s.temporary(pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	s.must(s.admin.Status().Update(s.ctx, pod))
	return name
}

// body is an object in JSON, with its kind.
func (s *scene) body(obj client.Object) string {
	s.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	s.must(err)
	gvk, err := apiutil.GVKForObject(obj, s.scheme)
	s.must(err)
	fields["apiVersion"], fields["kind"] = gvk.GroupVersion().String(), gvk.Kind
	data, err := json.Marshal(fields)
	s.must(err)
	return string(data)
}

// status is an action with another status, as it is updated.
func (p *props) status(action *v1alpha1.NodeAction, changes ...func(*v1alpha1.NodeAction)) string {
	changed := action.DeepCopy()
	for _, change := range changes {
		change(changed)
	}
	return p.body(changed)
}

// claimedAt is a claim that was made so long after now.
func claimedAt(after time.Duration) func(*v1alpha1.NodeAction) {
	return func(a *v1alpha1.NodeAction) {
		a.Status.Claim = &v1alpha1.Claim{RunnerID: "r", BootID: "b", Time: metav1.NewTime(time.Now().Add(after)), Remedy: v1alpha1.RemedyCommand}
	}
}

// ended is the end of an action.
func ended(why string) func(*v1alpha1.NodeAction) {
	return func(a *v1alpha1.NodeAction) {
		meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: why})
	}
}

// left is what a boot has left.
func left(text string) func(*v1alpha1.NodeAction) {
	return func(a *v1alpha1.NodeAction) {
		a.Status.Aftermath = &v1alpha1.Aftermath{BootID: "later", Left: []v1alpha1.Leftover{{Source: v1alpha1.LeftoverJournal, Text: text}}}
	}
}

// result is what a command has left.
func result(output string) func(*v1alpha1.NodeAction) {
	return func(a *v1alpha1.NodeAction) {
		now := v1alpha1.NewMicroTime(time.Now())
		a.Status.Result = &v1alpha1.ActionResult{StartedAt: now, FinishedAt: now, ExitCode: ptr.To[int32](0), Output: output}
	}
}

// event is one about a node, in JSON.
func (p *props) event(node string, changes ...func(*corev1.Event)) string {
	e := eventAbout("Node", node)
	for _, change := range changes {
		change(e)
	}
	return p.body(e)
}

// newEvent is one as events.k8s.io has it, about a node.
func newEvent(node string) string {
	return strings.ReplaceAll(`{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"NODE.1","namespace":"default"},"eventTime":"2026-01-01T00:00:00.000000Z",
		"reportingController":"example.com/x","reportingInstance":"x","action":"A","reason":"R","type":"Normal","regarding":{"apiVersion":"v1","kind":"Node","name":"NODE"}}`, "NODE", node)
}

// tokenFor is a request for a token, bound to a pod.
func (p *props) tokenFor(pod *corev1.Pod) string {
	return `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":[],"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"` +
		pod.Name + `","uid":"` + string(pod.UID) + `"}}}`
}

// podOf returns the pod of a role on a node.
func (p *props) podOf(role, node string) *corev1.Pod {
	p.Helper()
	pods := &corev1.PodList{}
	p.must(p.admin.List(p.ctx, pods, client.InNamespace(namespace), client.MatchingFields{"spec.nodeName": node}))
	for i := range pods.Items {
		if pods.Items[i].Spec.ServiceAccountName == "nodemend-"+role {
			return &pods.Items[i]
		}
	}
	p.Fatalf("no pod of the %s on node %s", role, node)
	return nil
}

// until waits until the API server decides as a row says, which it may take a moment to.
func (p *props) until(try func() bool) {
	p.Helper()
	p.must(wait.PollUntilContextTimeout(p.ctx, poll, patience, true, func(context.Context) (bool, error) { return try(), nil }))
}
