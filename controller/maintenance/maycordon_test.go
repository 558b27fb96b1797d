package maintenance

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/v1alpha1"
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

func TestANodeThatBecomesReadyIsNotCordonedAsOneThatIsOut(t *testing.T) {
	node := nodeWith(false, nil)
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionUnknown},
	}
	const want = `[{"op":"test","path":"/status/conditions/1/type","value":"Ready"},{"op":"test","path":"/status/conditions/1/status","value":"Unknown"},` +
		`{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/spec/unschedulable","value":null},` +
		`{"op":"add","path":"/spec/unschedulable","value":true},{"op":"test","path":"/metadata/annotations","value":null},` +
		`{"op":"add","path":"/metadata/annotations","value":{"nodemend.dev/cordoned-for":"m"}}]`
	if got := marshalled(t, cordonPatch(node, "m")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	node.Status.Conditions[1].Status = corev1.ConditionTrue
	if got := cordonPatch(node, "m"); got[0].Path != uidPath {
		t.Errorf("a node that is Ready may be so: %v", got)
	}
}
