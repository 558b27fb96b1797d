//go:build integration

package deploy_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
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
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
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
	dead := s.nodeOf(bootOne, corev1.ConditionUnknown, "", other)
	alive := s.nodeOf(bootOne, corev1.ConditionTrue, "")
	notReady := s.nodeOf(bootOne, corev1.ConditionFalse, "")
	nameless := s.nodeOf("", corev1.ConditionUnknown, "")
	theirs := s.nodeOf(bootOne, corev1.ConditionUnknown, "", person)
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
	effect := func(t corev1.Taint, e corev1.TaintEffect) corev1.Taint {
		t.Effect = e
		return t
	}
	later := v1alpha1.OutOfServiceMark{BootID: bootTwo, Action: "action"}
	refused := by("controller-nodes")
	rows := []row{
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
		{"controller", "merge patch", "nodes/" + nameless, change(" action", v1alpha1.OutOfServiceMark{}.Taint()), refused, "without a boot ID there is no proof"},
		{"controller", "merge patch", "nodes/" + theirs, change(mark.String(), person, own), refused, "a person has done that"},
		{"controller", "merge patch", "nodes/" + theirs, change("-"), refused, "a person's taint is never touched"},
		{"controller", "merge patch", "nodes/" + theirs, change(mark.String(), own), refused, "nor taken over"},
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
