//go:build integration

package deploy_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/outofservice"
	"github.com/nodemend/nodemend/test/helm"
)

// frees are the values with the taint out-of-service.
var frees = append([]string{"remoteRunner.outOfService=true"}, remotely...)

const (
	bootOne = "11111111-0000-4000-8000-000000000001"
	bootTwo = "22222222-0000-4000-8000-000000000002"
)

// installOutOfService applies what lets the controller set the taint, until the test ends.
func (s *scene) installOutOfService() {
	s.Helper()
	helm.Program(s.T)
	apply := func(ctx context.Context, objects manifests) {
		for _, obj := range objects {
			name := obj.GetName()
			if name == "nodemend-controller-nodes" || name == "nodemend-controller" && obj.GetKind() == "ClusterRole" {
				s.must(s.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(&obj), client.FieldOwner("test"), client.ForceOwnership))
			}
		}
	}
	leader := s.client(s.account("controller", s.b))
	until := func(ctx context.Context, says string) {
		s.Helper()
		p := &props{scene: s}
		p.ctx = ctx
		p.until(func() bool {
			err := client.NewDryRunClient(leader).Patch(ctx, named(s.a.Name), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`)))
			return err != nil && strings.Contains(err.Error(), says)
		})
	}
	apply(s.ctx, rendered(s.T, frees...))
	s.Cleanup(func() { // other tests ask what holds without
		ctx := context.WithoutCancel(s.ctx)
		apply(ctx, installed(s.T))
		until(ctx, "not change its spec.taints")
	})
	until(s.ctx, "it may only set node.kubernetes.io/out-of-service")
}

// nodeOf is a node of a boot, with taints and a mark; "": none.
func (s *scene) nodeOf(boot string, ready corev1.ConditionStatus, mark string, taints ...corev1.Taint) string {
	s.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "out-" + utilrand.String(8), Annotations: map[string]string{"a": "b"}}, Spec: corev1.NodeSpec{Taints: taints}}
	if mark != "" {
		node.Annotations[v1alpha1.OutOfServiceAnnotation] = mark
	}
	s.temporary(node)
	node.Spec.Taints = taints // the API server adds one to a new node
	s.must(s.admin.Update(s.ctx, node))
	since, err := time.Parse(time.RFC3339, silentSince)
	s.must(err)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(since)}}
	node.Status.NodeInfo.BootID = boot
	s.must(s.admin.Status().Update(s.ctx, node))
	return node.Name
}

// Who has the controller's token, and the chart says remoteRunner.outOfService: what it can do to taints.
func TestAbuseOfTheTaintOutOfService(t *testing.T) {
	s := newScene(t)
	s.installOutOfService()
	mark := v1alpha1.OutOfServiceMark{BootID: bootOne, Action: "action"}
	moved := mark
	moved.Moved = true
	own, other := mark.Taint(), corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule}
	person := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}
	effect := func(t corev1.Taint, e corev1.TaintEffect) corev1.Taint {
		t.Effect = e
		return t
	}
	dead := s.nodeOf(bootOne, corev1.ConditionUnknown, "", other)
	alive := s.nodeOf(bootOne, corev1.ConditionTrue, "")
	notReady := s.nodeOf(bootOne, corev1.ConditionFalse, "")
	nameless := s.nodeOf("", corev1.ConditionUnknown, "")
	theirs := s.nodeOf(bootOne, corev1.ConditionUnknown, "", person)
	half := s.nodeOf(bootOne, corev1.ConditionUnknown, "", effect(person, corev1.TaintEffectNoSchedule))
	out := s.nodeOf(bootOne, corev1.ConditionUnknown, mark.String(), other, own)
	lied := s.nodeOf(bootOne, corev1.ConditionTrue, mark.String(), own)
	booting := s.nodeOf(bootTwo, corev1.ConditionUnknown, moved.String(), own)
	back := s.nodeOf(bootTwo, corev1.ConditionTrue, moved.String(), other, own)
	both := s.nodeOf(bootTwo, corev1.ConditionTrue, mark.String(), own, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoSchedule})
	cleared := s.nodeOf(bootOne, corev1.ConditionUnknown, mark.String())
	unmarked := s.nodeOf(bootTwo, corev1.ConditionTrue, "", own)

	// change is a merge patch: it replaces all taints. mark nil: it is removed; "-": it stays.
	change := func(mark any, taints ...corev1.Taint) string {
		patch := map[string]any{"spec": map[string]any{"taints": taints}}
		if mark != "-" {
			patch["metadata"] = map[string]any{"annotations": map[string]any{v1alpha1.OutOfServiceAnnotation: mark}}
		}
		data, err := json.Marshal(patch)
		s.must(err)
		return string(data)
	}
	annotate := func(mark any) string {
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.OutOfServiceAnnotation: mark}}})
		s.must(err)
		return string(data)
	}
	later := v1alpha1.OutOfServiceMark{BootID: bootTwo, Action: "action"}
	refused := by("controller-nodes")
	swap := v1alpha1.OutOfServiceMark{BootID: bootOne, Action: v1alpha1.ProofOfMaintenance(strings.Repeat("m", 253))}
	swapped := swap
	swapped.Moved = true
	parked := s.nodeOf(bootOne, corev1.ConditionUnknown, swap.String(), own)
	rows := []row{
		{"controller", "merge patch", "nodes/" + dead, change(swap.String(), other, own), allowed, "a maintenance has a proof, too"},
		{"controller", "merge patch", "nodes/" + alive, change(swap.String(), own), refused, "a node that is Ready is not off"},
		{"controller", "merge patch", "nodes/" + parked, annotate(swapped.String()), allowed, "how it tells that all has moved"},
		{"controller", "merge patch", "nodes/" + dead, change(mark.String(), other, own), allowed, "how it frees pods and volumes: that the machine is off, the action tells, and CEL can't see it"},
		{"controller", "merge patch", "nodes/" + dead, change("-", other, own), refused, "not without the mark: nobody would take it away"},
		{"controller", "merge patch", "nodes/" + dead, annotate(mark.String()), refused, "no mark without the taint"},
		{"controller", "merge patch", "nodes/" + dead, change(mark.String(), own), refused, "another's taint stays"},
		{"controller", "merge patch", "nodes/" + dead, change(mark.String(), other, own, corev1.Taint{Key: "b", Effect: corev1.TaintEffectNoExecute}), refused, "one taint, and no other"},
		{"controller", "merge patch", "nodes/" + dead, change("-", other, corev1.Taint{Key: "b", Effect: corev1.TaintEffectNoExecute}), refused, "no other taint"},
		{"controller", "merge patch", "nodes/" + dead, change(mark.String(), other, effect(own, corev1.TaintEffectNoSchedule)), refused, "by its effect alone pods end"},
		{"controller", "merge patch", "nodes/" + dead, change(mark.String(), other, person), refused, "its own by its value"},
		{"controller", "merge patch", "nodes/" + dead, change(later.String(), other, later.Taint()), refused, "a boot that the Node does not say"},
		{"controller", "merge patch", "nodes/" + dead, change(later.String(), other, own), refused, "a mark of another boot"},
		{"controller", "merge patch", "nodes/" + dead, change(mark.String()+strings.Repeat("x", 400), other, own), refused, "everybody reads Nodes"},
		{"controller", "merge patch", "nodes/" + alive, change(mark.String(), own), refused, "a node that is Ready is not off"},
		{"controller", "merge patch", "nodes/" + notReady, change(mark.String(), own), refused, "nor is one that says that it is not"},
		{"controller", "merge patch", "nodes/" + nameless, change(" action", own), refused, "without a boot ID there is no proof"},
		{"controller", "merge patch", "nodes/" + theirs, change(mark.String(), person, own), invalid + "taints must be unique", "the API server itself has one of an effect"},
		{"controller", "merge patch", "nodes/" + theirs, change(mark.String(), own), refused, "a person has done that"},
		{"controller", "merge patch", "nodes/" + half, change(mark.String(), effect(person, corev1.TaintEffectNoSchedule), own), refused, "a person has done a part of that"},
		{"controller", "merge patch", "nodes/" + theirs, change("-"), refused, "a person's taint is never touched"},
		{"controller", "merge patch", "nodes/" + theirs, annotate(mark.String()), refused, "nor marked"},

		{"controller", "merge patch", "nodes/" + out, annotate(moved.String()), allowed, "how it tells that all has moved"},
		{"controller", "merge patch", "nodes/" + out, annotate(later.String()), refused, "the mark stays what it was"},
		{"controller", "merge patch", "nodes/" + out, annotate(nil), refused, "the taint would be nobody's"},
		{"controller", "merge patch", "nodes/" + out, change(nil, other), refused, "not before a newer boot"},
		{"controller", "merge patch", "nodes/" + lied, change(nil), refused, "the boot that was to be over answers: a person has to look"},
		{"controller", "merge patch", "nodes/" + booting, change(nil), refused, "not before it is Ready"},
		{"controller", "merge patch", "nodes/" + back, change(nil, other), allowed, "how it takes the taint away"},
		{"controller", "merge patch", "nodes/" + back, change(nil), refused, "and no other one"},
		{"controller", "merge patch", "nodes/" + back, change("-", other), refused, "the mark goes with it"},
		{"controller", "merge patch", "nodes/" + back, change(nil, own), refused, "nor does another's go in its place"},
		{"controller", "merge patch", "nodes/" + both, change(nil, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoSchedule}), allowed, "a person's stays"},
		{"controller", "merge patch", "nodes/" + both, change(nil), refused, "a person's stays"},
		{"controller", "merge patch", "nodes/" + cleared, annotate(nil), allowed, "a person has taken the taint away: the mark is over"},
		{"controller", "merge patch", "nodes/" + unmarked, change("-"), refused, "without a mark it is nobody's"},

		{"controller", "merge patch", "nodes/" + dead, `{"metadata":{"labels":{"a":"b"}}}`, refused, "nothing else of a node"},
		{"controller", "merge patch", "nodes/" + dead, `{"metadata":{"annotations":{"a":"c"}}}`, refused, "nothing else of a node"},
		{"controller", "merge patch", "nodes/" + dead, `{"spec":{"unschedulable":true}}`, refused, "no cordon without its mark"},
		{"controller", "merge patch", "nodes/" + dead, `{"spec":{"unschedulable":true},"metadata":{"annotations":{"nodemend.dev/cordoned-for":"m"}}}`, allowed, "how it cordons"},
		{"controller", "list", "volumeattachments", "", allowed, "what is not freed yet"},
		{"controller", "get", "volumeattachments/any", "", rbac, "it lists them"},
		{"controller", "delete", "volumeattachments/any", "", rbac, "Kubernetes detaches"},
		{"controller", "delete", "default:pods/any", "", rbac, "Kubernetes ends them"},
	}
	s.tryAll(t, s.tokens(), rows)
}

// With its own token, under all admission policies, the controller sets the taint on a proof, says when
// all has moved, and takes it away, on a real API server.
func TestTheControllerFreesPodsOnAProofWithItsOwnRights(t *testing.T) {
	s := newScene(t)
	s.installOutOfService()
	leader := s.client(s.account("controller", s.b))
	p := &props{scene: s}
	p.until(func() bool { return leader.List(s.ctx, &storagev1.VolumeAttachmentList{}) == nil }) // its role is in force

	step := v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle, OutOfService: true}, Timeout: v1alpha1.Duration{Duration: 20 * time.Minute}, Attempts: 1}
	policy := &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "dead-" + utilrand.String(6)}, Spec: v1alpha1.RemedyPolicySpec{
		NodeSelector: s.policy.Spec.NodeSelector, Match: []v1alpha1.ConditionMatch{{Type: "Ready", Status: corev1.ConditionUnknown}}, Steps: []v1alpha1.Step{step},
	}}
	s.temporary(policy)
	name := s.nodeOf(bootOne, corev1.ConditionUnknown, "", corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule})
	node := func() *corev1.Node {
		s.Helper()
		n := named(name)
		s.must(s.admin.Get(s.ctx, key(n), n))
		return n
	}
	dead := node()
	dead.Status.NodeInfo.SystemUUID = machineUUID
	s.must(s.admin.Status().Update(s.ctx, dead))

	remediation := s.remediationOf(dead)
	remediation.Spec.Policy = v1alpha1.PolicyReference{Name: policy.Name, UID: policy.UID}
	remediation.Spec.Match, remediation.Spec.Steps = policy.Spec.Match, policy.Spec.Steps
	s.temporary(remediation)
	hash, err := policy.Spec.Steps[0].Hash()
	s.must(err)
	action := s.actionFor(dead)
	action.Spec.Executor, action.Spec.StepHash, action.Spec.Timeout = v1alpha1.ExecutorRemote, hash, step.Timeout
	action.Spec.Policy, action.Spec.Remediation, action.Spec.RemediationUID = remediation.Spec.Policy, remediation.Name, remediation.UID
	s.must(s.admin.Create(s.ctx, action))
	remediation.Status.Action = action.Name
	s.must(s.admin.Status().Update(s.ctx, remediation))
	action.Status.Claim = &v1alpha1.Claim{RunnerID: "r", BootID: bootOne, Time: metav1.Now(), Remedy: v1alpha1.RemedyReboot}
	action.Status.Power = &v1alpha1.PowerCycleStatus{RunnerID: "r", Phase: "ProvedOff", Machine: machineUUID, Proof: proofOf(bootOne)}
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "attachment-" + utilrand.String(6)}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: "example.com", NodeName: name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv-1")},
	}}
	s.temporary(attachment)

	r := freer(leader)
	looks := func() {
		s.Helper()
		_, err := r.Reconcile(s.ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		s.must(err)
	}
	mark := v1alpha1.OutOfServiceMark{BootID: bootOne, Action: action.Name}
	is := func(want v1alpha1.OutOfServiceMark, tainted bool) {
		s.Helper()
		n := node()
		got, _ := v1alpha1.OutOfServiceMarkOf(n)
		if own, _ := mark.OutOfService(n); got != want || own >= 0 != tainted {
			t.Fatalf("it has %v and %v, want %q, tainted: %t", n.Annotations, n.Spec.Taints, want, tainted)
		}
	}
	// Whatever takes so long here that the reading is too old by then, is read anew.
	for range 100 {
		action.Status.Power.Held++
		s.must(s.admin.Status().Update(s.ctx, action))
		looks()
		if _, tainted := v1alpha1.OutOfServiceMarkOf(node()); tainted {
			break
		}
		if action.Status.Power.Held == 2 {
			is(v1alpha1.OutOfServiceMark{}, false)
		}
	}
	is(mark, true)
	looks()
	is(mark, true)
	s.must(s.admin.Delete(s.ctx, attachment))
	looks()
	moved := mark
	moved.Moved = true
	is(moved, true)
	back := node()
	back.Status.NodeInfo.BootID, back.Status.Conditions[0].Status = bootTwo, corev1.ConditionTrue
	s.must(s.admin.Status().Update(s.ctx, back))
	looks()
	is(v1alpha1.OutOfServiceMark{}, false)
	if n := node(); len(n.Spec.Taints) != 1 || n.Annotations["a"] != "b" {
		t.Errorf("it has %v and %v", n.Annotations, n.Spec.Taints)
	}
}

// freer is the controller's part that sets the taint, which reads from the API server alone.
func freer(leader client.Client) *outofservice.Reconciler {
	r := &outofservice.Reconciler{
		Client: leader, Live: leader, Steady: time.Now, Now: time.Now, Events: events.NewFakeRecorder(100),
		Pods: func(ctx context.Context, node string) ([]corev1.Pod, error) {
			var list corev1.PodList
			err := leader.List(ctx, &list, client.MatchingFields{"spec.nodeName": node})
			return list.Items, err
		},
	}
	r.Loop()
	return r
}

// The same for a maintenance: the taint stays until that has ended.
func TestTheControllerFreesPodsOfAMaintenanceWithItsOwnRights(t *testing.T) {
	s := newScene(t)
	s.installOutOfService()
	leader := s.client(s.account("controller", s.b))
	p := &props{scene: s}
	p.until(func() bool { return leader.List(s.ctx, &storagev1.VolumeAttachmentList{}) == nil }) // its role is in force
	name := s.nodeOf(bootOne, corev1.ConditionUnknown, "")
	node := named(name)
	s.says(node, bootOne)
	m := maintenanceOf(name, "swap-"+utilrand.String(6))
	m.Spec.OutOfService = true
	s.temporary(m)
	m.Status.NodeUID = node.UID
	m.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.MaintenanceDrained, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDrained, ObservedGeneration: m.Generation, LastTransitionTime: metav1.Now(),
	}}
	m.Status.Power = &v1alpha1.MaintenancePowerStatus{Phase: v1alpha1.PowerOff, Since: metav1.Now(), RunnerID: "r", BootID: bootOne, Proof: proofOf(bootOne)}
	r := freer(leader)
	is := func(want v1alpha1.OutOfServiceMark) {
		s.Helper()
		_, err := r.Reconcile(s.ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		s.must(err)
		s.must(s.admin.Get(s.ctx, key(node), node))
		got, _ := v1alpha1.OutOfServiceMarkOf(node)
		if own, _ := want.OutOfService(node); got != want || own >= 0 != (want.BootID != "") {
			t.Fatalf("it has %v and %v, want %q", node.Annotations, node.Spec.Taints, want)
		}
	}
	for range 100 { // what takes too long here is read anew
		m.Status.Power.Held++
		s.must(s.admin.Status().Update(s.ctx, m))
		if m.Status.Power.Held < 3 {
			is(v1alpha1.OutOfServiceMark{})
			continue
		}
		_, err := r.Reconcile(s.ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		s.must(err)
		s.must(s.admin.Get(s.ctx, key(node), node))
		if _, tainted := v1alpha1.OutOfServiceMarkOf(node); tainted {
			break
		}
	}
	mark := v1alpha1.OutOfServiceMark{BootID: bootOne, Action: v1alpha1.ProofOfMaintenance(m.Name), Moved: true}
	is(mark)
	s.says(node, bootTwo)
	node.Status.Conditions[0].Status = corev1.ConditionTrue
	s.must(s.admin.Status().Update(s.ctx, node))
	is(mark)
	s.must(s.admin.Delete(s.ctx, m))
	is(v1alpha1.OutOfServiceMark{})
}

// With the values of the chart as they are, neither right nor exception is there.
func TestTheTaintOutOfServiceIsOffUnlessItIsWanted(t *testing.T) {
	helm.Program(t)
	for name, values := range map[string][]string{"default": nil, "a remote runner": remotely, "the taint without a remote runner": {"remoteRunner.outOfService=true"}} {
		for _, obj := range rendered(t, values...) {
			data, err := json.Marshal(obj.Object)
			if err != nil {
				t.Fatal(err)
			}
			if text := string(data); obj.GetName() != "nodemend-view" && obj.GetKind() != "CustomResourceDefinition" &&
				(strings.Contains(text, "volumeattachments") || strings.Contains(text, "out-of-service")) {
				t.Errorf("%s: %s %s has it", name, obj.GetKind(), obj.GetName())
			}
		}
	}
}
