package policy

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/worker"
)

// onChange has all counted some time after the first of several events: what has come, is gone,
// or has changed.
func onChange(after time.Duration, changed func(old, updated client.Object) bool) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	count := func(q queue) { q.AddAfter(worker.Request(all), after) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { count(q) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { count(q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if changed(e.ObjectOld, e.ObjectNew) {
				count(q)
			}
		},
	}
}

func specChanged(old, updated client.Object) bool { return worker.SpecChanged(old, updated) }

// statusChanged reports whether somebody has written a status: this controller, or one that led
// before and had seen less.
func statusChanged(old, updated client.Object) bool {
	return !equality.Semantic.DeepEqual(old.(*v1alpha1.RemedyPolicy).Status, updated.(*v1alpha1.RemedyPolicy).Status)
}

// countsOtherwise reports whether a node may be selected by others, has another set of conditions, or
// another status of Fenceable. Heartbeats and other statuses are no change, and cost no allocation.
func countsOtherwise(old, updated client.Object) bool {
	a, b := old.(*corev1.Node), updated.(*corev1.Node)
	return a.UID != b.UID || !maps.Equal(a.Labels, b.Labels) || !slices.EqualFunc(a.Status.Conditions, b.Status.Conditions,
		func(x, y corev1.NodeCondition) bool {
			return x.Type == y.Type && (x.Type != v1alpha1.NodeFenceable || x.Status == y.Status)
		})
}

// ended reports whether a remediation has ended, or is another one of the name.
func ended(old, updated client.Object) bool {
	a, b := old.(*v1alpha1.Remediation), updated.(*v1alpha1.Remediation)
	return a.UID != b.UID || a.Ended() != b.Ended()
}
