package match

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// newReconciler returns one that finds the objects in its cache.
func newReconciler(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return &Reconciler{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		Clock:  clocktesting.NewFakePassiveClock(now),
	}
}

func policyFor(conditionType string, hold time.Duration) *v1alpha1.RemedyPolicy {
	return &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       v1alpha1.RemedyPolicySpec{Match: []v1alpha1.ConditionMatch{entry(conditionType, hold)}},
	}
}

func TestOnlyANodeThatAPolicyConcernsIsQueued(t *testing.T) {
	healthy := since("Sick", "False", time.Hour)
	tests := []struct {
		name         string
		old, updated *corev1.Node // old is nil: the node has come
		want         bool
	}{
		{"a healthy node that has come", nil, node(nil, healthy), false},
		{"a sick node that has come", nil, node(nil, since("Sick", "True", time.Hour)), true},
		{"a node that falls sick", node(nil, healthy), node(nil, since("Sick", "True", 0)), true},
		{"a heartbeat of a sick node", node(nil, since("Sick", "True", time.Hour)), node(nil, since("Sick", "True", time.Hour)), false},
		{"a node that recovers", node(nil, since("Sick", "True", time.Hour)), node(nil, healthy), false},
		{"a condition that no policy names", node(nil, healthy), node(nil, healthy, since("Other", "True", 0)), false},
		{"a label of a sick node", node(nil, since("Sick", "True", time.Hour)), node(map[string]string{"a": "b"}, since("Sick", "True", time.Hour)), true},
		{"a label of a healthy node", node(nil, healthy), node(map[string]string{"a": "b"}, healthy), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newReconciler(t, policyFor("Sick", time.Minute))
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			if tt.old == nil {
				r.onNode().Create(t.Context(), event.CreateEvent{Object: tt.updated}, q)
			} else {
				r.onNode().Update(t.Context(), event.UpdateEvent{ObjectOld: tt.old, ObjectNew: tt.updated}, q)
			}
			if got := q.Len() > 0; got != tt.want {
				t.Errorf("queued: %v, want %v", got, tt.want)
			}
		})
	}
}

func TestAPolicyQueuesOnlyTheNodesThatItConcerns(t *testing.T) {
	sick, holding, healthy := node(nil, since("Sick", "True", time.Hour)), node(nil, since("Sick", "True", 0)), node(nil, since("Sick", "False", 0))
	sick.Name, holding.Name, healthy.Name = "sick", "holding", "healthy"
	r := &Reconciler{
		Clock: clocktesting.NewFakePassiveClock(now),
		Nodes: func() ([]*corev1.Node, string) { return []*corev1.Node{sick, holding, healthy}, "" },
	}
	var got []string
	for _, request := range r.concerned(t.Context(), policyFor("Sick", time.Minute)) {
		got = append(got, request.Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"holding", "sick"}) {
		t.Errorf("queued %v, want holding and sick", got)
	}
}
