package remediation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/index"
)

// reporting is a node that reports the first condition of the remediation's match.
func reporting(r *v1alpha1.Remediation, status corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: r.Spec.NodeName},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeConditionType(r.Spec.Match[0].Type), Status: status, LastHeartbeatTime: metav1.NewTime(now),
		}}},
	}
}

// inState returns a remediation that is in a state, and not blocked.
func inState(state string) *v1alpha1.Remediation {
	r := blocked("n", "")
	r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: v1alpha1.RemediationProgressing, Reason: state})
	return r
}

func TestANewerReportOfTheSameIsAwaitedWhereItMayDecide(t *testing.T) {
	for name, tt := range map[string]struct {
		remediation *v1alpha1.Remediation
		reported    corev1.ConditionStatus
		want        bool
	}{
		"waits for a permit":              {blocked("n", gates.ReasonBudgetExhausted), "True", false},
		"waits for its window":            {blocked("n", gates.ReasonOutsideWindow), "True", false},
		"paused":                          {blocked("n", gates.ReasonPaused), "True", false},
		"may still run":                   {blocked("n", v1alpha1.ReasonStillRunning), "True", false},
		"waits for evidence":              {blocked("n", gates.ReasonNoEvidence), "True", true},
		"waits for a person, clear":       {blocked("n", ReasonReleaseRequired), "False", true},
		"waits for a person, faulty":      {blocked("n", ReasonReleaseRequired), "True", true},
		"new":                             {blocked("n", ""), "True", true},
		"executes":                        {inState(v1alpha1.ReasonActing), "True", true},
		"verifies":                        {inState(v1alpha1.ReasonVerifying), "True", true},
		"verifies, and is clear":          {inState(v1alpha1.ReasonVerifying), "False", true},
		"heals":                           {inState(v1alpha1.ReasonHealing), "False", true},
		"exhausted":                       {inState(v1alpha1.ReasonExhausted), "True", false},
		"exhausted, and clear":            {inState(v1alpha1.ReasonExhausted), "False", true},
		"out of service":                  {inState(v1alpha1.ReasonInMaintenance), "True", false},
		"out of service, and clear":       {inState(v1alpha1.ReasonInMaintenance), "False", true},
		"waits for a permit, and clear":   {blocked("n", gates.ReasonBudgetExhausted), "False", true},
		"waits for a permit, and unknown": {blocked("n", gates.ReasonBudgetExhausted), "Unknown", true},
	} {
		if got := awaitsReport(tt.remediation, reporting(tt.remediation, tt.reported)); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

func TestOnlyAChangeOfTheNodeWakesWhoAwaitsNoReport(t *testing.T) {
	waits := blocked("n", gates.ReasonBudgetExhausted)
	byNode := func(obj client.Object) []string {
		return []string{obj.(*v1alpha1.Remediation).Spec.NodeName} //nolint:forcetypeassert // the type is asked for
	}
	cache := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(waits).
		WithIndex(&v1alpha1.Remediation{}, index.OpenByNode, byNode).WithIndex(&v1alpha1.Remediation{}, index.ByNode, byNode).Build()
	on := (&Reconciler{Client: cache, Store: index.Read(cache)}).onNode()
	queue := func() workqueue.TypedRateLimitingInterface[reconcile.Request] {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		t.Cleanup(q.ShutDown)
		return q
	}
	came, went := queue(), queue()
	on.Create(t.Context(), event.CreateEvent{Object: reporting(waits, "True")}, came)
	on.Delete(t.Context(), event.DeleteEvent{Object: reporting(waits, "True")}, went)
	if came.Len() != 1 || went.Len() != 1 {
		t.Errorf("a node that came woke %d, one that went %d", came.Len(), went.Len())
	}
	for name, tt := range map[string]struct {
		change func(*corev1.Node)
		want   int
	}{
		"a heartbeat": {func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(now.Add(time.Minute)) }, 0},
		"a message":   {func(n *corev1.Node) { n.Status.Conditions[0].Message = "for a minute more" }, 0},
		"clear":       {func(n *corev1.Node) { n.Status.Conditions[0].Status = "False" }, 1},
		"a boot":      {func(n *corev1.Node) { n.Status.NodeInfo.BootID = "another" }, 1},
		"a mark":      {func(n *corev1.Node) { n.Annotations = map[string]string{v1alpha1.CordonedAnnotation: "m"} }, 1},
		"a cordon":    {func(n *corev1.Node) { n.Spec.Unschedulable = true }, 1},
	} {
		updated, q := reporting(waits, "True"), queue()
		tt.change(updated)
		on.Update(t.Context(), event.UpdateEvent{ObjectOld: reporting(waits, "True"), ObjectNew: updated}, q)
		if q.Len() != tt.want {
			t.Errorf("%s woke %d, want %d", name, q.Len(), tt.want)
		}
	}
}
