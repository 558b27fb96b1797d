package maintenance

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/index"
)

func TestForWhichMaintenanceANodeIsCordoned(t *testing.T) {
	type world struct {
		m      *v1alpha1.NodeMaintenance
		node   *corev1.Node
		r      *v1alpha1.Remediation
		permit v1alpha1.Permit
	}
	ready := func(status corev1.ConditionStatus) func(*world) {
		return func(w *world) {
			w.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		}
	}
	cordoned := func(w *world) {
		w.m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MaintenanceCordoned, Status: metav1.ConditionTrue}}
	}
	gentle := func(w *world) { w.permit.Disruptive = false }
	unnamed := func(w *world) { w.r.Status.Maintenance = "" }
	gone := func(w *world) { w.r.Name = "another" }
	replaced := func(w *world) { w.r.UID = "another" }
	for name, tt := range map[string]struct {
		change []func(*world)
		may    bool
	}{
		"under a permit to take it out":                     {nil, true},
		"a person wants it":                                 {[]func(*world){gone, gentle, func(w *world) { w.m.Spec.Remediation = nil }}, true},
		"the permit is for a node that is out already":      {[]func(*world){gentle}, false},
		"which it is":                                       {[]func(*world){gentle, ready(corev1.ConditionUnknown)}, true},
		"the permit is of another remediation":              {[]func(*world){func(w *world) { w.permit.Remediation = "other" }}, false},
		"a person has put it back, the permit was returned": {[]func(*world){gentle, cordoned}, true},
		"its remediation does not want it any more":         {[]func(*world){unnamed}, false},
		"nor does it when the node is out":                  {[]func(*world){unnamed, ready(corev1.ConditionFalse)}, false},
		"nor when it was cordoned before":                   {[]func(*world){unnamed, cordoned}, false},
		"its remediation is gone":                           {[]func(*world){gone}, false},
		"there is another one of its name":                  {[]func(*world){replaced}, false},
		"a sick node stays out":                             {[]func(*world){gone, cordoned}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{
				m: &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: v1alpha1.NodeMaintenanceSpec{
					NodeName: "w17", Remediation: &v1alpha1.RemediationReference{Name: "r", UID: "u"},
				}},
				node:   nodeWith(false, nil),
				r:      &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "u"}, Status: v1alpha1.RemediationStatus{Maintenance: "m"}},
				permit: v1alpha1.Permit{Remediation: "r", Disruptive: true},
			}
			ready(corev1.ConditionTrue)(w)
			for _, change := range tt.change {
				change(w)
			}
			budgets := &v1alpha1.RemediationBudgetList{Items: []v1alpha1.RemediationBudget{
				{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Status: v1alpha1.RemediationBudgetStatus{
					Groups: map[string]v1alpha1.BudgetGroup{v1alpha1.UngroupedNodes: {Permits: map[string]v1alpha1.Permit{w.node.Name: w.permit}}},
				}},
				{ObjectMeta: metav1.ObjectMeta{Name: "of-others"}, Spec: v1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "b"}}}},
			}}
			s := runtime.NewScheme()
			if err := errors.Join(corev1.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
				t.Fatal(err)
			}
			r := &Reconciler{Live: fake.NewClientBuilder().WithScheme(s).WithObjects(w.r).WithLists(budgets).Build()}
			if err := r.mayCordon(t.Context(), w.m, w.node); apierrors.IsConflict(err) == tt.may || tt.may && err != nil {
				t.Errorf("got %v, want a conflict: %t", err, !tt.may)
			}
		})
	}
}

// A cache that is behind shows the cordon of a maintenance that has given the node back. Once a maintenance says that the
// node is cordoned, it needs no permit for that any more.
func TestACordonThatIsGoneIsNotTakenForOurs(t *testing.T) {
	m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "m"}, Spec: v1alpha1.NodeMaintenanceSpec{
		NodeName: "w17", Remediation: &v1alpha1.RemediationReference{Name: "r", UID: "u"},
	}}
	remediation := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "u"}, Status: v1alpha1.RemediationStatus{Maintenance: "m"}}
	budget := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	cached := nodeWith(true, map[string]string{v1alpha1.CordonedAnnotation: "gone"})
	for name, tt := range map[string]struct {
		live *corev1.Node
		said bool
		want cordonState
		not  bool
	}{
		"it is gone":             {nodeWith(false, nil), false, noNode, true},
		"it is there":            {cached, false, cordonedByUs, false},
		"it is somebody else's":  {nodeWith(true, nil), false, cordonedByOthers, false},
		"it was said to be ours": {nodeWith(false, nil), true, cordonedByUs, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := runtime.NewScheme()
			if err := errors.Join(corev1.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
				t.Fatal(err)
			}
			holder := m.DeepCopy()
			if tt.said {
				holder.Status.NodeUID = cached.UID
				holder.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MaintenanceCordoned, Status: metav1.ConditionTrue}}
			}
			tt.live.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			c := fake.NewClientBuilder().WithScheme(s).WithObjects(tt.live.DeepCopy(), remediation, budget, holder).
				WithIndex(&v1alpha1.NodeAction{}, index.ByNode, func(client.Object) []string { return nil }).Build()
			got, err := (&Reconciler{Client: c, Live: c}).cordon(t.Context(), cached, []*v1alpha1.NodeMaintenance{holder}, nil)
			if got != tt.want || apierrors.IsConflict(err) != tt.not || !tt.not && err != nil {
				t.Errorf("got %v, %v; want %v, a conflict: %t", got, err, tt.want, tt.not)
			}
		})
	}
}

func TestANodeThatBecomesReadyIsNotCordonedAsOneThatIsOut(t *testing.T) {
	node := nodeWith(false, nil)
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionUnknown},
	}
	const want = `[{"op":"test","path":"/status/conditions/1/type","value":"Ready"},{"op":"test","path":"/status/conditions/1/status","value":"Unknown"},` +
		`{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/spec/unschedulable","value":null},` +
		`{"op":"add","path":"/spec/unschedulable","value":true},{"op":"test","path":"/metadata/annotations","value":null},` +
		`{"op":"add","path":"/metadata/annotations","value":{"nodemend.dev/cordoned-for":"m"}}]`
	if got := marshalled(t, cordonPatch(node, "m", true)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	node.Status.Conditions[1].Status = corev1.ConditionTrue
	if got := cordonPatch(node, "m", true); got[0].Path != uidPath {
		t.Errorf("a node that is Ready may be so: %v", got)
	}
}

// SelfNodeRemediation before 0.12 uncordons a node at its end, and lets go of it only if it stays so.
func TestANodeThatAnotherProgramIsToLetGoOfIsNotCordonedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.NodeAction)
		left   bool
	}{
		"it is to stop":       {func(*v1alpha1.NodeAction) {}, true},
		"it is at work":       {func(a *v1alpha1.NodeAction) { a.Status.External.Stop = nil }, false},
		"it has let go":       {func(a *v1alpha1.NodeAction) { a.Status.Conditions[0].Status = metav1.ConditionTrue }, false},
		"of another node":     {func(a *v1alpha1.NodeAction) { a.Spec.NodeName = "another" }, false},
		"a runner is at work": {func(a *v1alpha1.NodeAction) { a.Status.External = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			action := &v1alpha1.NodeAction{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.NodeActionSpec{NodeName: "w17"}}
			action.Status.Claim = &v1alpha1.Claim{}
			action.Status.External = &v1alpha1.ExternalStatus{Stop: &v1alpha1.ExternalStop{Time: metav1.NewTime(start)}}
			action.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ActionFinished, Status: metav1.ConditionFalse}}
			before := action.DeepCopy()
			tt.change(action)
			s := runtime.NewScheme()
			if err := errors.Join(corev1.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
				t.Fatal(err)
			}
			node := nodeWith(false, markedFor("m"))
			c := fake.NewClientBuilder().WithScheme(s).WithObjects(node, action).
				WithIndex(&v1alpha1.NodeAction{}, index.ActionsByNode, func(o client.Object) []string {
					return []string{o.(*v1alpha1.NodeAction).Spec.NodeName} //nolint:forcetypeassert // a panic is a failed test
				}).Build()
			r := &Reconciler{Client: c, Live: c}
			if left, err := r.leftToAnother(t.Context(), "w17"); (left == "a") != tt.left || err != nil {
				t.Errorf("got %q, %v", left, err)
			}
			if tt.left {
				if state, err := r.cordon(t.Context(), node, []*v1alpha1.NodeMaintenance{{}}, nil); state != leftToAnother || err != nil {
					t.Errorf("got %v, %v", state, err)
				}
			}
			ended := event.UpdateEvent{ObjectOld: before, ObjectNew: action}
			if wakes := letGo().Update(ended); wakes == tt.left && name != "of another node" {
				t.Errorf("that it has come to this wakes: %t", wakes)
			}
		})
	}
}

// People are told what a maintenance waits for that can't begin, however long another program takes.
func TestAMaintenanceSaysThatItsNodeIsLeftToAnotherProgram(t *testing.T) {
	drainedBefore := func(node types.UID) func(*v1alpha1.NodeMaintenance) {
		return func(m *v1alpha1.NodeMaintenance) { look(m, node, 0, empty()) }
	}
	for name, tt := range map[string]struct {
		was  func(*v1alpha1.NodeMaintenance)
		says string
	}{
		"a new one":                              {func(*v1alpha1.NodeMaintenance) {}, v1alpha1.ReasonLeftToAnother},
		"it was drained for an earlier node":     {drainedBefore("v"), v1alpha1.ReasonLeftToAnother},
		"it is to be cordoned again, as it says": {drainedBefore("u"), v1alpha1.ReasonCordoned},
	} {
		t.Run(name, func(t *testing.T) {
			s := runtime.NewScheme()
			if err := errors.Join(corev1.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
				t.Fatal(err)
			}
			action := &v1alpha1.NodeAction{ObjectMeta: metav1.ObjectMeta{Name: "w17-r-1"}, Spec: v1alpha1.NodeActionSpec{NodeName: "w17"}}
			action.Status.Claim = &v1alpha1.Claim{}
			action.Status.External = &v1alpha1.ExternalStatus{Stop: &v1alpha1.ExternalStop{Time: metav1.NewTime(start)}}
			m := toDrain(v1alpha1.OnTimeoutWait)
			m.Finalizers = []string{v1alpha1.MaintenanceFinalizer}
			tt.was(m)
			c := fake.NewClientBuilder().WithScheme(s).WithObjects(nodeWith(false, nil), action, m).WithStatusSubresource(m).
				WithIndex(&v1alpha1.NodeAction{}, index.ActionsByNode, func(o client.Object) []string {
					return []string{o.(*v1alpha1.NodeAction).Spec.NodeName} //nolint:forcetypeassert // a panic is a failed test
				}).
				WithIndex(&v1alpha1.NodeMaintenance{}, index.MaintenancesByNode, func(o client.Object) []string {
					return []string{o.(*v1alpha1.NodeMaintenance).Spec.NodeName} //nolint:forcetypeassert // a panic is a failed test
				}).Build()
			r := &Reconciler{Client: c, Live: c, Clock: clocktesting.NewFakePassiveClock(start), Events: events.NewFakeRecorder(10)}
			versions := map[string]bool{}
			for range 3 { // each write wakes
				if _, err := r.reconcile(t.Context(), "w17"); err != nil {
					t.Fatal(err)
				}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
					t.Fatal(err)
				}
				versions[m.ResourceVersion] = true
			}
			left := tt.says == v1alpha1.ReasonLeftToAnother
			if c := cordonedOf(m); c.Reason != tt.says || strings.Contains(c.Message, "w17-r-1") != left || len(versions) > 1 {
				t.Errorf("it says in %d versions: %+v", len(versions), c)
			}
			if m.WasCordoned() == left || m.Drained() == left {
				t.Errorf("got %+v", m.Status)
			}
		})
	}
}
