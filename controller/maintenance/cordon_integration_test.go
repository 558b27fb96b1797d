//go:build integration

package maintenance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/worker"
	"github.com/nodemend/nodemend/internal/repairnote"
)

func TestACordonOfSomebodyElseIsReportedAndStays(t *testing.T) {
	s := newScene(t, "others")
	node := s.plainNode("others")
	s.cordonByHand(node)
	s.start()
	s.maintain("others", node, nil)
	s.awaitCordoned("others", v1alpha1.ReasonCordonedByOthers)
	s.release("others")
	if n := s.node(node); !n.Spec.Unschedulable || n.Annotations[v1alpha1.CordonedAnnotation] != "" {
		t.Errorf("cordoned %t, annotations %v", n.Spec.Unschedulable, n.Annotations)
	}
}

func TestAMaintenanceKeepsWhatItsNodeHasToldATechnician(t *testing.T) {
	s := newScene(t, "told")
	node := s.plainNode("told")
	s.start()
	s.maintain("told", node, nil)
	s.awaitCordoned("told", v1alpha1.ReasonCordoned)
	tell := func(status corev1.ConditionStatus, message string) {
		data, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{
			map[string]any{"type": "HardwareFailure", "status": status, "reason": "MemoryFailure", "message": message},
		}}})
		s.must(err)
		s.must(s.client.Status().Patch(s.ctx, aNode(node), client.RawPatch(types.StrategicMergePatchType, data)))
	}
	has := func(details ...string) {
		s.awaitMaintenance("told", "has the evidence", func(m *v1alpha1.NodeMaintenance) bool {
			return len(m.Status.Evidence) == 1 && slices.Equal(m.Status.Evidence[0].Details, details)
		})
	}
	tell(corev1.ConditionTrue, repairnote.Join("DIMM_A1", []string{"slot A1: serial 4711"}))
	has("slot A1: serial 4711")
	// Whatever a node says, and without a time, is accepted.
	most := slices.Repeat([]string{strings.Repeat("x", repairnote.MaxLine)}, repairnote.MaxLines)
	_, within := repairnote.Split(repairnote.Join("", most))
	tell(corev1.ConditionTrue, repairnote.Join(strings.Repeat("y", 3000), most))
	has(within...)
	tell(corev1.ConditionFalse, "well again")
	s.uncordonByHand(node) // so that it is looked at again
	s.await("the node to be cordoned again", func() bool { return s.out(node) })
	has(within...)
	s.release("told")
}

func TestANodeInMaintenanceThatAPersonUncordonsIsCordonedAndDrainedAgain(t *testing.T) {
	s := newScene(t, "again")
	node := s.plainNode("again")
	s.cordonByHand(node)
	s.start()
	how := inAnHour(v1alpha1.OnTimeoutWait)
	how.GracePeriodSeconds = ptr.To[int64](0)
	s.maintain("again", node, how)
	s.awaitCordoned("again", v1alpha1.ReasonCordonedByOthers)
	s.awaitDrained("again", v1alpha1.ReasonDrained)
	for range 2 { // the first time it was a cordon of somebody else, then ours
		pod := s.pod("came-meanwhile", node, s.managed)
		s.uncordonByHand(node)
		s.await("the node to be cordoned again", func() bool { return s.out(node) })
		s.awaitCordoned("again", v1alpha1.ReasonCordoned)
		s.await("what came meanwhile to be evicted", func() bool { return !s.exists(pod) })
		s.awaitDrained("again", v1alpha1.ReasonDrained)
	}
	s.release("again")
	s.expectInService(node)
}

func TestANodeIsGivenBackWithTheLastOfItsHolders(t *testing.T) {
	for name, order := range map[string][]string{"first-first": {"a", "b"}, "last-first": {"b", "a"}} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, name)
			node := s.plainNode(name)
			s.start()
			s.maintain(name+"-a", node, nil)
			s.awaitCordoned(name+"-a", v1alpha1.ReasonCordoned)
			s.maintain(name+"-b", node, nil, s.byPolicy)
			s.awaitCordoned(name+"-b", v1alpha1.ReasonCordoned)
			s.release(name + "-" + order[0])
			if !s.out(node) {
				t.Error("given back although it is still held")
			}
			s.release(name + "-" + order[1])
			s.expectInService(node)
			if s.node(node).Annotations["other"] != "stays" {
				t.Error("another annotation is gone")
			}
		})
	}
}

func TestAPersonsMaintenanceFollowsTheNameOfANode(t *testing.T) {
	for _, running := range []bool{true, false} {
		s := newScene(t, map[bool]string{true: "name-running", false: "name-stopped"}[running])
		node := s.plainNode(s.name)
		stop := s.start()
		s.maintain(s.name, node, inAnHour(v1alpha1.OnTimeoutAbort))
		first := s.awaitDrained(s.name, v1alpha1.ReasonDrained)
		if !running {
			stop()
		}
		s.delete(aNode(node))
		if running {
			s.awaitDrained(s.name, v1alpha1.ReasonNoSuchNode)
			s.awaitCordoned(s.name, v1alpha1.ReasonNoSuchNode)
		}
		s.plainNode(node)
		how := s.pod("p", node, s.managed)
		if !running {
			stop = s.start()
		}
		s.await("the new node to be cordoned", func() bool { return s.out(node) })
		s.await("its pod to be evicted", func() bool { return !s.exists(how) || how.DeletionTimestamp != nil })
		s.await("the status to be about the new one", func() bool {
			m := s.maintenance(s.name)
			return m.Status.NodeUID != first.Status.NodeUID && m.Status.NodeUID == s.node(node).UID
		})
		s.release(s.name)
		s.expectInService(node)
		stop()
	}
}

func TestAPolicysMaintenanceEndsWithItsNode(t *testing.T) {
	for _, running := range []bool{true, false} {
		s := newScene(t, map[bool]string{true: "uid-running", false: "uid-stopped"}[running])
		node := s.plainNode(s.name)
		stop := s.start()
		s.maintain(s.name, node, inAnHour(v1alpha1.OnTimeoutAbort), s.byPolicy)
		s.awaitDrained(s.name, v1alpha1.ReasonDrained)
		if !running {
			stop()
		}
		s.delete(aNode(node))
		if running {
			s.awaitGone(s.name)
		}
		s.plainNode(node)
		before := s.node(node).ResourceVersion
		if !running {
			stop = s.start()
			s.awaitGone(s.name)
		}
		s.expectInService(node)
		for _, field := range s.node(node).ManagedFields {
			if field.Manager == "nodemend-controller" {
				t.Errorf("the new node was touched since %s", before)
			}
		}
		stop()
	}
}

// The cache shows the node that was there before.
func TestANewNodeIsNotTakenForTheFormerOneOfItsName(t *testing.T) {
	s := newScene(t, "former")
	node := s.plainNode("former")
	former := s.node(node)
	s.maintain("former", node, nil, s.byPolicy)
	s.delete(aNode(node))
	s.plainNode(node)
	r := s.stepper(clock.RealClock{})
	r.Client = showing(s.client, former)
	if again := r.step(node); again <= 0 {
		t.Error("does not look again")
	}
	s.expectInService(node)
	r.Client = s.client
	r.step(node)
	r.step(node)
	if s.maintenance("former") != nil {
		t.Error("the maintenance does not end")
	}
	s.expectInService(node)
}

// The cache shows the node that was there before.
func TestAMaintenanceOfANewNodeDoesNotEndWithTheFormerOne(t *testing.T) {
	s := newScene(t, "latter")
	node := s.plainNode("latter")
	former := s.node(node)
	s.delete(aNode(node))
	s.plainNode(node)
	s.maintain("latter", node, nil, s.byPolicy)
	r := s.stepper(clock.RealClock{})
	r.Client = showing(s.client, former)
	r.step(node)
	if m := s.maintenance("latter"); m == nil || m.DeletionTimestamp != nil || !s.out(node) {
		t.Errorf("ended: %t, the node is out: %t", m == nil || m.DeletionTimestamp != nil, s.out(node))
	}
}

func TestAMaintenanceOfANodeThatIsGoneIsNotStuck(t *testing.T) {
	s := newScene(t, "gone")
	s.plainNode("gone-soon")
	stop := s.start()
	s.maintain("gone-never-there", "no-such-node", inAnHour(v1alpha1.OnTimeoutWait))
	s.awaitDrained("gone-never-there", v1alpha1.ReasonNoSuchNode)
	s.release("gone-never-there")
	s.maintain("gone-soon", "gone-soon", inAnHour(v1alpha1.OnTimeoutWait))
	s.awaitDrained("gone-soon", v1alpha1.ReasonDrained)
	s.delete(aNode("gone-soon"))
	s.awaitDrained("gone-soon", v1alpha1.ReasonNoSuchNode)
	s.release("gone-soon")

	s.plainNode("gone-meanwhile")
	s.maintain("gone-meanwhile", "gone-meanwhile", nil)
	s.awaitDrained("gone-meanwhile", v1alpha1.ReasonDrainNotWanted)
	stop()
	s.delete(aNode("gone-meanwhile"))
	s.delete(&v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "gone-meanwhile"}})
	s.start()
	s.awaitGone("gone-meanwhile")
}

func TestAMarkWithoutAMaintenanceIsGivenBack(t *testing.T) {
	s := newScene(t, "orphan")
	node := s.plainNode("orphan")
	stop := s.start()
	m := s.maintain("orphan", node, nil)
	s.awaitCordoned("orphan", v1alpha1.ReasonCordoned)
	stop()
	s.delete(m)
	s.patch(m, `{"metadata":{"finalizers":null}}`)
	if s.maintenance("orphan") != nil {
		t.Fatal("the maintenance is still there")
	}
	s.start()
	s.awaitInService(node)

	s.must(s.client.Patch(s.ctx, aNode(node), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+v1alpha1.CordonedAnnotation+`":"nobody"}},"spec":{"unschedulable":true}}`)), fieldmanager.Controller))
	s.awaitInService(node)
}

// The API server keeps the managed fields of ten managers that update an object, and merges the oldest.
func TestACordonWhoseManagerIsForgottenIsTakenBackUnlessItIsAPersons(t *testing.T) {
	for _, byPerson := range []bool{false, true} {
		s := newScene(t, map[bool]string{false: "merged", true: "merged-person"}[byPerson])
		node := s.plainNode(s.name)
		r := s.stepper(clock.RealClock{})
		m := s.maintain(s.name, node, nil)
		r.step(node)
		write := func(by, patch string) {
			s.must(s.client.Patch(s.ctx, aNode(node), client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(by)))
		}
		for i := range 11 {
			write(fmt.Sprintf("writer-%02d", i), fmt.Sprintf(`{"metadata":{"labels":{"written-%d":""}}}`, i))
		}
		if slices.ContainsFunc(s.node(node).ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == string(fieldmanager.Controller) }) {
			t.Fatalf("the API server still names us: %v", s.node(node).ManagedFields)
		}
		if byPerson {
			// Of those of one second the API server merges first whose name comes first.
			write("zoe", `{"spec":{"unschedulable":null}}`)
			write("zoe", `{"spec":{"unschedulable":true}}`)
		}
		s.delete(m)
		r.step(node)
		n := s.node(node)
		if _, marked := n.Annotations[v1alpha1.CordonedAnnotation]; marked || n.Spec.Unschedulable != byPerson {
			t.Errorf("cordoned again by a person: %t; it is cordoned: %t, annotations %v", byPerson, n.Spec.Unschedulable, n.Annotations)
		}
		close(r.told.Events)
		var last string
		for last = range r.told.Events {
		}
		if want := map[bool]string{false: "NodeGivenBack uncordoned", true: "NodeGivenBack nothing holds it any more; it stays cordoned"}[byPerson]; !strings.Contains(last, want) {
			t.Errorf("told %q, want %q", last, want)
		}
	}
}

func TestAHolderThatTheCacheDoesNotShowKeepsTheNodeOut(t *testing.T) {
	s := newScene(t, "stale")
	node := s.plainNode("stale")
	r := s.stepper(clock.RealClock{})
	s.maintain("stale-a", node, nil)
	r.step(node)
	s.maintain("stale-b", node, nil)
	r.Client = &hooked{Client: s.client, list: func(list client.ObjectList) {
		if l, ok := list.(*v1alpha1.NodeMaintenanceList); ok && len(l.Items) == 2 {
			l.Items = l.Items[:1]
		}
	}}
	s.delete(&v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "stale-a"}})
	r.step(node)
	if s.maintenance("stale-a") != nil || !s.out(node) {
		t.Errorf("out: %t, the first is still there: %t", s.out(node), s.maintenance("stale-a") != nil)
	}
}

// Who has deleted a maintenance and uninstalls the controller then has the node back.
func TestAMaintenanceIsNotGoneBeforeItsNodeIsGivenBack(t *testing.T) {
	s := newScene(t, "behind")
	node := s.plainNode("behind")
	before := s.node(node)
	r := s.stepper(clock.RealClock{})
	s.maintain("behind", node, nil)
	r.step(node)
	if !s.out(node) {
		t.Fatal("not cordoned")
	}
	s.delete(&v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "behind"}})
	r.Client = showing(s.client, before)
	r.step(node)
	if s.maintenance("behind") != nil {
		t.Error("the maintenance is not gone")
	}
	s.expectInService(node)
}

func TestAnUncordonThatFindsAnotherMarkIsRepeated(t *testing.T) {
	for name, disturb := range map[string]struct {
		change func(s *scene, node string)
		tries  int
	}{
		"mark":      {func(s *scene, node string) { s.mark(node, "somebody") }, 2},
		"uncordon":  {func(s *scene, node string) { s.uncordonByHand(node) }, 2},
		"heartbeat": {func(s *scene, node string) { s.heartbeat(node) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, "disturbed-"+name)
			node := s.plainNode(s.name)
			r := s.stepper(clock.RealClock{})
			s.maintain(s.name, node, nil)
			r.step(node)
			s.delete(&v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: s.name}})
			tries := 0
			r.Client = &hooked{Client: s.client, patch: func(obj client.Object) {
				if _, ok := obj.(*corev1.Node); ok {
					tries++
					if tries == 1 {
						disturb.change(s, node)
					}
				}
			}}
			again := r.step(node)
			if disturb.tries > 1 {
				if again != worker.MinBackoff {
					t.Errorf("looks again after %s", again)
				}
				if s.maintenance(s.name) == nil {
					t.Error("the maintenance is gone before its node is given back")
				}
				r.step(node)
			}
			s.expectInService(node)
			if tries != disturb.tries || s.maintenance(s.name) != nil {
				t.Errorf("%d tries", tries)
			}
		})
	}
}

func TestAStatusIsNotWrittenAboutASpecThatHasChangedMeanwhile(t *testing.T) {
	s := newScene(t, "respec")
	node := s.plainNode("respec")
	r := s.stepper(clock.RealClock{})
	m := s.maintain("respec", node, nil)
	r.step(node)
	s.patch(m, `{"spec":{"drain":{}}}`)
	r.Client = &hooked{Client: s.client, list: func(list client.ObjectList) {
		if _, ok := list.(*v1alpha1.NodeMaintenanceList); ok {
			s.patch(m, `{"spec":{"drain":{"force":true}}}`)
		}
	}}
	if again := r.step(node); again != worker.MinBackoff {
		t.Errorf("looks again after %s", again)
	}
	if m := s.maintenance("respec"); m.Condition(v1alpha1.MaintenanceDrained) != nil || drainedOf(m).Reason != v1alpha1.ReasonDrainNotWanted {
		t.Errorf("got %+v", drainedOf(m))
	}
	r.Client = s.client
	r.step(node)
	if !s.maintenance("respec").Drained() {
		t.Error("not drained in the end")
	}
}

func TestACordonThatIsForestalledIsSomebodyElses(t *testing.T) {
	s := newScene(t, "forestalled")
	node := s.plainNode("forestalled")
	r := s.stepper(clock.RealClock{})
	s.maintain("forestalled", node, nil)
	r.Client = &hooked{Client: s.client, patch: func(obj client.Object) {
		if _, ok := obj.(*corev1.Node); ok {
			s.cordonByHand(node)
		}
	}}
	if again := r.step(node); again != worker.MinBackoff {
		t.Errorf("looks again after %s", again)
	}
	r.step(node)
	if cordoned, _ := s.reasons("forestalled"); cordoned != v1alpha1.ReasonCordonedByOthers || s.out(node) {
		t.Errorf("%s, ours: %t", cordoned, s.out(node))
	}
}

// The other leader gives the node back while this one cordons it again.
func TestANodeIsNeverCordonedWithoutTheMark(t *testing.T) {
	s := newScene(t, "unmarked")
	node := s.plainNode("unmarked")
	r := s.stepper(clock.RealClock{})
	s.maintain("unmarked", node, nil)
	r.step(node)
	s.uncordonByHand(node)
	r.Client = &hooked{Client: s.client, patch: func(obj client.Object) {
		if _, ok := obj.(*corev1.Node); ok {
			s.patch(aNode(node), `{"metadata":{"annotations":{%q:null}}}`, v1alpha1.CordonedAnnotation)
		}
	}}
	r.step(node)
	s.expectInService(node)
	r.Client = s.client
	r.step(node)
	if !s.out(node) {
		t.Error("not cordoned in the end")
	}
}

func TestPeopleAreToldWhatBecomesOfANode(t *testing.T) {
	s := newScene(t, "told")
	node := s.plainNode("told")
	r := s.stepper(clock.RealClock{})
	s.maintain("told", node, &v1alpha1.Drain{Timeout: v1alpha1.Duration{Duration: time.Hour}})
	r.step(node)
	s.delete(&v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "told"}})
	r.step(node)
	close(r.told.Events)
	var all []string
	for e := range r.told.Events {
		all = append(all, e)
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{"Normal NodeCordoned cordoned: swap DIMM A1", "Normal NodeDrained told: 0 of 0 pods are gone", "Normal NodeGivenBack uncordoned"} {
		if !strings.Contains(text, want) {
			t.Errorf("not told: %s\n%s", want, text)
		}
	}
}

func (s *scene) mark(node, mark string) {
	s.Helper()
	s.patch(aNode(node), `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.CordonedAnnotation, mark)
}

func (s *scene) heartbeat(node string) {
	s.Helper()
	s.must(s.client.Status().Patch(context.WithoutCancel(s.ctx), aNode(node), client.RawPatch(types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}`))))
}
