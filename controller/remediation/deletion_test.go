package remediation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/index"
)

func byAPerson(s *situation) { s.remediation.DeletionTimestamp = ptr.To(ago(0)) }

func TestWhatComesNextForADeletedRemediation(t *testing.T) {
	decideAll(t, []next{
		{"nothing runs: it ends", incident(at(1, 1), byAPerson), release, "Deleted", "", 1, 1, 0},
		{"before anybody has looked at it, too", incident(byAPerson), release, "Deleted", "", 1, 1, 0},
		{"on a clear node, too", incident(at(1, 1), history("Succeeded", time.Minute), condition("False", time.Second, time.Second), byAPerson), release, "Deleted", "", 1, 1, 0},
		{"whatever holds it", incident(at(1, 1), excluded, policyDeleted, withoutBudget, byAPerson), release, "Deleted", "", 1, 1, 0},
		{"even with a status that somebody has made up", incident(at(1, 1), stepOutOfRange, byAPerson), release, "Deleted", "", 99, 1, 0},
		{"an announced action gets its name taken", incident(at(1, 1), underway(0), deleted, progress("Starting"), byAPerson), void, "Starting", "", 1, 1, 0},
		{"one that cannot be, counts as lost", incident(at(1, 1), underway(0), deleted, progress("Starting"), stepOutOfRange, byAPerson), nothing, "Waiting", "", 99, 1, time.Second},
		{"an unclaimed action is cancelled", incident(at(1, 1), underway(time.Second), progress("Acting"), byAPerson), cancel, "Acting", "", 1, 1, 0},
		{"a claimed one is waited for", incident(at(1, 1), underway(time.Second, claimed(time.Second)), progress("Acting"), byAPerson), nothing, "Acting", "StillRunning", 1, 1, 159 * time.Second},
		{"but not for ever", incident(at(1, 1), underway(time.Hour, claimed(time.Hour)), progress("Acting"), byAPerson), release, "Deleted", "", 1, 1, 0},
		{"one that nobody reports on is waited for", incident(at(1, 1), history("Lost", time.Minute), byAPerson), nothing, "Waiting", "StillRunning", 1, 1, 10 * time.Second},
		{"one whose NodeAction was deleted counts as lost", incident(at(1, 1), underway(time.Second), deleted, progress("Acting"), byAPerson), nothing, "Acting", "", 1, 1, time.Second},
		{"a finished one is remembered", incident(at(1, 1), underway(time.Second, claimed(0), finished("Failed", 0)), progress("Acting"), byAPerson), release, "Deleted", "", 1, 1, 0},
		{"without its node it leaves no tombstone", incident(at(1, 1), nodeGone, byAPerson), release, "NodeGone", "", 1, 1, 0},
		{"a tombstone ends at once", incident(tombstone), release, "Deleted", "", 1, 1, 0},
	})
}

func tombstone(s *situation) {
	s.remediation.Annotations = map[string]string{v1alpha1.TombstoneAnnotation: "n1-0123"}
}

// A controller cleans up after a remediation that was deleted by force. Meanwhile there is
// another one of its name, with an action and a permit of its own.
func TestNothingOfANewRemediationOfTheNameIsTakenAway(t *testing.T) {
	for question := range 3 { // after which question about the name and what goes by it
		t.Run(fmt.Sprint(question), func(t *testing.T) {
			asked := 0
			s := incident(at(1, 1), underway(0))
			fresh, action, b := s.remediation, acted(&s), &s.budgets[0]
			permit := v1alpha1.Permit{Remediation: fresh.Name, Version: "7"}
			var c client.WithWatch
			comes := func() {
				asked++
				if asked != question+1 {
					return
				}
				b.Status.Groups = map[string]v1alpha1.BudgetGroup{"": {Permits: map[string]v1alpha1.Permit{s.node.Name: permit}}}
				if err := errors.Join(c.Create(t.Context(), fresh), c.Create(t.Context(), action), c.Status().Update(t.Context(), b)); err != nil {
					t.Fatal(err)
				}
			}
			c = fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(b, s.node).WithStatusSubresource(b, action).
				WithIndex(action, index.ActionsByRemediation, func(obj client.Object) []string {
					return []string{obj.(*v1alpha1.NodeAction).Spec.Remediation} //nolint:forcetypeassert // the type is asked for
				}).
				WithInterceptorFuncs(interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
						err := c.Get(ctx, key, obj, opts...)
						if _, ok := obj.(*v1alpha1.Remediation); ok {
							comes()
						}
						return err
					},
					List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
						if _, ok := list.(*v1alpha1.NodeActionList); ok {
							comes()
						}
						return c.List(ctx, list, opts...)
					},
				}).Build()
			r := &Reconciler{Client: c, Live: c, Permits: budget.New(c, c), Clock: clocktesting.NewFakePassiveClock(now)}

			if _, err := r.cleanUp(t.Context(), fresh.Name); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(c.Get(t.Context(), client.ObjectKeyFromObject(action), action), c.Get(t.Context(), client.ObjectKeyFromObject(b), b)); err != nil {
				t.Fatal(err)
			}
			if f := action.Finished(); f != nil {
				t.Errorf("its action was ended: %s", f.Message)
			}
			if got := b.Status.Groups[""].Permits[s.node.Name]; got != permit {
				t.Errorf("its permit is %+v, want %+v", got, permit)
			}
		})
	}
}

// A remediation was deleted by force while its action runs.
func TestThePermitOfARemediationThatIsGoneIsKeptWhileItsActionMayRun(t *testing.T) {
	for name, tt := range map[string]struct {
		action  func(*situation)
		kept    bool
		unended bool
	}{
		"it runs":                   {underway(time.Second, claimed(time.Second)), true, true},
		"nobody has claimed it":     {underway(time.Second), true, false}, // the next look finds it cancelled
		"it has ended":              {underway(time.Second, claimed(time.Second), finished("Succeeded", 0)), false, false},
		"its runner must have done": {underway(time.Hour, claimed(time.Hour)), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := incident(at(1, 1), tt.action)
			permit := v1alpha1.Permit{Remediation: s.remediation.Name, Version: "7"}
			b := &s.budgets[0]
			b.Status.Groups = map[string]v1alpha1.BudgetGroup{"": {Permits: map[string]v1alpha1.Permit{s.node.Name: permit}}}
			c := cacheOf(t, b, s.node, acted(&s))
			r := &Reconciler{Client: c, Live: c, Permits: budget.New(c, c), Clock: clocktesting.NewFakePassiveClock(now)}

			wait, err := r.cleanUp(t.Context(), s.remediation.Name)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
				t.Fatal(err)
			}
			if _, kept := b.Status.Groups[""].Permits[s.node.Name]; kept != tt.kept {
				t.Errorf("the permit is kept: %t, want %t", kept, tt.kept)
			}
			if (wait > 0) != tt.unended {
				t.Errorf("looks again after %s", wait)
			}
		})
	}
}

// A remediation was deleted by force while nobody had claimed its action, and there is another
// one of its name: nobody else ends that action.
func TestWhatAFormerRemediationOfTheNameLeftUnclaimedIsCancelled(t *testing.T) {
	s := incident(at(1, 1), underway(0))
	former := acted(&s)
	former.Spec.RemediationUID, former.Spec.NodeName = "former-uid", "n1"
	fresh := incident().remediation
	c := cacheOf(t, fresh, former)
	r := &Reconciler{Client: c, Live: c, Store: index.Read(c), Permits: budget.New(c, c), Clock: clocktesting.NewFakePassiveClock(now)}
	if _, err := r.reconcile(t.Context(), fresh.Name); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(former), former); err != nil {
		t.Fatal(err)
	}
	if f := former.Finished(); f == nil || f.Reason != v1alpha1.ReasonCancelled {
		t.Errorf("its end is %+v, want %s", f, v1alpha1.ReasonCancelled)
	}
}

// Another controller has let a deleted remediation go, and a person has deleted its tombstone, to
// start over. The cache of this one shows neither.
func TestATombstoneIsNotMadeAnewForWhatIsGone(t *testing.T) {
	s := incident(at(1, 1))
	s.remediation.Finalizers = []string{v1alpha1.RemediationFinalizer}
	s.remediation.DeletionTimestamp = ptr.To(ago(0))
	s.remediation.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationProgressing, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeleted}}
	c := cacheOf(t)
	r := &Reconciler{Client: c, Live: c, Store: index.Read(c), Permits: budget.New(c, c), Clock: clocktesting.NewFakePassiveClock(now)}
	if _, err := r.finalize(t.Context(), s.remediation); err != nil {
		t.Fatal(err)
	}
	var left v1alpha1.RemediationList
	if err := c.List(t.Context(), &left); err != nil || len(left.Items) != 0 {
		t.Errorf("left are %v, %v", left.Items, err)
	}
}

// Another controller gives back the maintenance of a node that was deleted, which the cache of
// this one does not know yet: no person has released the node.
func TestAMaintenanceThatIsDeletedMayBeThatOfANodeThatIsGone(t *testing.T) {
	s := incident(at(1, 1))
	s.remediation.Status.Maintenance = "m"
	m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "m", DeletionTimestamp: ptr.To(ago(0)), Finalizers: []string{v1alpha1.MaintenanceFinalizer}}}
	m.Spec.NodeName = s.node.Name
	for name, tt := range map[string]struct {
		maintenance []client.Object
		live        []client.Object
		gone        bool
	}{
		"deleted by a person":              {[]client.Object{m}, []client.Object{s.node}, false},
		"gone by a person":                 {nil, []client.Object{s.node}, false},
		"deleted, and the node is gone":    {[]client.Object{m}, nil, true},
		"gone, and so is the node":         {nil, nil, true},
		"deleted, and the node is another": {[]client.Object{m}, []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node.Name, UID: "next"}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			cached := cacheOf(t, append(tt.maintenance, s.node)...)
			o := observer{cache: cached, live: cacheOf(t, tt.live...), store: index.Read(cached), clock: clocktesting.NewFakePassiveClock(now)}
			got, err := o.observe(t.Context(), s.remediation)
			if err != nil {
				t.Fatal(err)
			}
			if gone := got.node == nil; gone != tt.gone {
				t.Errorf("the node is gone: %t, want %t", gone, tt.gone)
			}
		})
	}
}

// The permit is returned once the node is out. A cache that knows that, and shows the maintenance as it was before, shows
// one whose node has come back.
func TestANodeHasNotComeBackByACacheThatIsBehind(t *testing.T) {
	for name, tt := range map[string]struct {
		change   func(m *v1alpha1.NodeMaintenance)
		gone     bool // the maintenance
		nodeGone bool
		acts     bool
		rule     string
	}{
		"it is cordoned":                  {change: func(m *v1alpha1.NodeMaintenance) { m.Status.Conditions = cordonedAndDrained() }, rule: "gate holds"},
		"a person has deleted it":         {gone: true, rule: "released by a person"},
		"it is deleted, as the node is":   {change: func(m *v1alpha1.NodeMaintenance) { m.DeletionTimestamp = ptr.To(ago(0)) }, nodeGone: true, rule: "node gone"},
		"it is drained for what acts now": {change: func(m *v1alpha1.NodeMaintenance) { m.Status.Conditions = cordonedAndDrained() }, acts: true, rule: ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := incident(at(1, 1))
			s.remediation.Status.Maintenance = "m"
			s.remediation.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationProgressing, Status: "True", Reason: v1alpha1.ReasonTakingOut}}
			s.node.Status.Conditions = append(s.node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
			m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "m", Finalizers: []string{v1alpha1.MaintenanceFinalizer}}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: s.node.Name}}
			cached := []client.Object{m.DeepCopy(), s.node, s.policy, &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "all"}}}
			if tt.acts {
				s.remediation.Spec.Steps[0].Command, s.remediation.Spec.Steps[0].Reboot = nil, &v1alpha1.RebootRemedy{}
				s.remediation.Status.Action = "a"
				cached[3].(*v1alpha1.RemediationBudget).Status = s.budgets[0].Status //nolint:forcetypeassert // it is one
			}
			live := []client.Object{s.node}
			if tt.change != nil {
				tt.change(m)
			}
			if tt.nodeGone {
				live = nil
			}
			if !tt.gone {
				live = append(live, m)
			}
			c := cacheOf(t, cached...)
			o := observer{cache: c, live: cacheOf(t, live...), store: index.Read(c), clock: clocktesting.NewFakePassiveClock(now)}
			got, err := o.observe(t.Context(), s.remediation)
			if err != nil {
				t.Fatal(err)
			}
			if drained := got.maintenance != nil && got.maintenance.Drained(); tt.acts && !drained {
				t.Errorf("it is %+v", got.maintenance)
			}
			if d := decide(got); tt.rule != "" && d.rule != tt.rule {
				t.Errorf("rule %q, want %q", d.rule, tt.rule)
			}
		})
	}
}

func cordonedAndDrained() []metav1.Condition {
	return []metav1.Condition{{Type: v1alpha1.MaintenanceCordoned, Status: metav1.ConditionTrue}, {Type: v1alpha1.MaintenanceDrained, Status: metav1.ConditionTrue}}
}

// Another controller has created the remediation by a newer node than the cache of this one has.
func TestANodeHasNotRecoveredByACacheThatIsBehind(t *testing.T) {
	s := incident()
	s.remediation.CreationTimestamp = ago(time.Second)
	s.remediation.Spec.Trigger = v1alpha1.Trigger{Type: "Sick", Status: "True", LastTransitionTime: ago(2 * time.Second)}
	sick := s.node.DeepCopy()
	sick.Status.Conditions[0].LastTransitionTime = ago(2 * time.Second)
	s.node.Status.Conditions[0] = corev1.NodeCondition{Type: "Sick", Status: "False", LastHeartbeatTime: ago(time.Minute), LastTransitionTime: ago(time.Hour)}
	for name, tt := range map[string]struct {
		live  []client.Object
		state string
		ended bool
	}{
		"it is sick": {[]client.Object{sick}, v1alpha1.ReasonWaiting, false},
		"it is well": {[]client.Object{s.node}, v1alpha1.ReasonRecoveredByItself, true},
		"it is gone": {nil, v1alpha1.ReasonNodeGone, true},
	} {
		t.Run(name, func(t *testing.T) {
			looked := s
			live := cacheOf(t, tt.live...)
			d, err := (&Reconciler{Client: live, Live: live, Clock: clocktesting.NewFakePassiveClock(now)}).decide(t.Context(), &looked)
			if err != nil {
				t.Fatal(err)
			}
			if is := d.progress(); (d.status.EndTime != nil) != tt.ended || tt.ended && is != tt.state {
				t.Errorf("rule %q, %s, ended %v", d.rule, is, d.status.EndTime)
			}
		})
	}
}

func TestANodeIsNeitherTakenOutNorTakenBackByACacheThatIsBehind(t *testing.T) {
	is := func(s situation, status corev1.ConditionStatus) situation {
		node := *s.node.DeepCopy()
		node.Status.Conditions[0] = corev1.NodeCondition{Type: "Sick", Status: status, LastHeartbeatTime: ago(time.Second), LastTransitionTime: ago(2 * time.Second)}
		s.node = &node
		return s
	}
	for name, tt := range map[string]struct {
		cached situation
		live   corev1.ConditionStatus
		want   effect
	}{
		"a node that is sick is taken out":           {disruptive(at(3, 1)), corev1.ConditionTrue, takeOut},
		"one that is well by now is not":             {disruptive(at(3, 1)), corev1.ConditionFalse, nothing},
		"one that is well is taken back":             {external(wellSince(time.Hour), succeeded), corev1.ConditionFalse, recall},
		"one that is sick by now is left to another": {external(wellSince(time.Hour), succeeded), corev1.ConditionTrue, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			looked := tt.cached
			live := cacheOf(t, is(tt.cached, tt.live).node)
			d, err := (&Reconciler{Client: live, Live: live, Clock: clocktesting.NewFakePassiveClock(now)}).decide(t.Context(), &looked)
			if err != nil || d.effect != tt.want {
				t.Errorf("rule %q, effect %d, want %d, %v", d.rule, d.effect, tt.want, err)
			}
		})
	}
}

// The cache has the former remediation of the name, and the action of the next one.
func TestTheActionOfTheNextRemediationIsNotCancelledAsTheFormers(t *testing.T) {
	s := incident()
	a := &v1alpha1.NodeAction{ObjectMeta: metav1.ObjectMeta{Name: "n1-0123-abc-1"}}
	a.Spec.NodeName, a.Spec.Remediation, a.Spec.RemediationUID = "n1", s.remediation.Name, "next-uid"
	next := s.remediation.DeepCopy()
	next.UID = "next-uid"
	for name, tt := range map[string]struct {
		live      *v1alpha1.Remediation
		cancelled bool
	}{"it is of the next": {next, false}, "it is of the former": {s.remediation, true}} {
		t.Run(name, func(t *testing.T) {
			c := cacheOf(t, a.DeepCopy(), tt.live.DeepCopy())
			looked := s
			looked.remediation = s.remediation.DeepCopy()
			if tt.cancelled {
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(tt.live), looked.remediation); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if looked.others, err = attempt.OnNode(t.Context(), c, "n1"); err != nil {
				t.Fatal(err)
			}
			cancelled, err := (&Reconciler{Client: c, Live: c, Clock: clocktesting.NewFakePassiveClock(now)}).cancelFormer(t.Context(), looked)
			if cancelled != tt.cancelled || apierrors.IsConflict(err) == tt.cancelled {
				t.Errorf("cancelled: %t, %v", cancelled, err)
			}
		})
	}
}

func TestATombstoneAndItsRemediationCountOnce(t *testing.T) {
	remediation, next := v1alpha1.Remediation{}, v1alpha1.Remediation{}
	remediation.UID, next.UID = "a", "b"
	tombstone := v1alpha1.Remediation{}
	tombstone.UID, tombstone.Annotations = "c", map[string]string{v1alpha1.TombstoneUIDAnnotation: "a"}
	counted := func(all ...v1alpha1.Remediation) (uids []string) {
		for i := range all {
			if !stillThere(all, &all[i]) {
				uids = append(uids, string(all[i].UID))
			}
		}
		return uids
	}
	if got := counted(tombstone, remediation, next); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("beside its remediation: %v", got)
	}
	if got := counted(tombstone, next); !slices.Equal(got, []string{"c", "b"}) {
		t.Errorf("without it: %v", got)
	}
}

func TestATombstoneSaysWhenItsRemediationStarted(t *testing.T) {
	remediation := incident(at(1, 1), history("Succeeded", time.Minute)).remediation
	remediation.UID, remediation.CreationTimestamp = "deleted", ago(time.Hour)
	c := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithStatusSubresource(remediation).Build()
	r := &Reconciler{Client: c, Live: c, Clock: clocktesting.NewFakePassiveClock(now)}
	for range 2 { // done again, it changes nothing
		if err := r.bury(t.Context(), remediation); err != nil {
			t.Fatal(err)
		}
	}
	var tombstone v1alpha1.Remediation
	if err := c.Get(t.Context(), client.ObjectKey{Name: tombstoneName(remediation)}, &tombstone); err != nil {
		t.Fatal(err)
	}
	tombstone.CreationTimestamp = ago(0)
	if got := tombstone.StartedAt(); !got.Time.Equal(remediation.CreationTimestamp.Time) {
		t.Errorf("it says %s, want %s", got, remediation.CreationTimestamp)
	}
}

func TestTheNameOfATombstone(t *testing.T) {
	r := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("x", 253)}}
	if name := tombstoneName(r); len(name) != 253 || !strings.HasSuffix(name, "x-deleted") {
		t.Errorf("got %s", name)
	}
	r.Name = "n1-0123-deleted"
	r.Annotations = map[string]string{v1alpha1.TombstoneAnnotation: "n1-0123"}
	if name := tombstoneName(r); name != r.Name {
		t.Errorf("the tombstone of a tombstone is %s", name)
	}
}
