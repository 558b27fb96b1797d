package remediation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/worker"
)

// workers is how many remediations are decided on at the same time. A decision
// takes milliseconds; several workers keep one slow write from delaying others.
const workers = 8

// Loop returns the reconciler with what wakes it.
func (r *Reconciler) Loop() worker.Loop {
	r.backoff = worker.NewBackoff()
	watches := []worker.Watch{
		{Kind: &v1alpha1.Remediation{}, Handler: r.onRemediation()},
		{Kind: &v1alpha1.NodeMaintenance{}, Handler: handler.EnqueueRequestsFromMapFunc(r.ofMaintenance)},
		{Kind: &corev1.Node{}, Handler: r.onNode()},
		{
			Kind: &v1alpha1.RemedyPolicy{}, Handler: handler.EnqueueRequestsFromMapFunc(r.openOfPolicy),
			Predicates: []predicate.Predicate{worker.OnSpec()},
		},
		{Kind: &v1alpha1.RemediationBudget{}, Handler: r.onBudget()},
	}
	for _, by := range attempt.Executors() {
		watches = append(watches, worker.Watch{Kind: by.Object(), Handler: handler.EnqueueRequestsFromMapFunc(ofAttempt(by))})
	}
	return worker.Loop{
		Name: "remediation", Key: "remediation", Workers: workers, Reconciler: r, Doorbell: &r.doorbell,
		Watches: watches,
	}
}

// ofAttempt returns the remediation whose attempt an object of the executor is about.
func ofAttempt(by attempt.Executor) handler.MapFunc {
	return func(_ context.Context, obj client.Object) []reconcile.Request {
		return worker.Requests(by.Tell(obj).Remediation)
	}
}

// ofMaintenance returns the remediation that it is a step of, ended as it may be, and
// those that it holds up.
func (r *Reconciler) ofMaintenance(ctx context.Context, obj client.Object) []reconcile.Request {
	m := obj.(*v1alpha1.NodeMaintenance)
	concerned := r.openOnNode(ctx, m.Spec.NodeName)
	if m.Spec.Remediation != nil {
		concerned = append(concerned, worker.Requests(m.Spec.Remediation.Name)...)
	}
	return concerned
}

// openOnNode returns the open remediations of a node.
func (r *Reconciler) openOnNode(ctx context.Context, node string) []reconcile.Request {
	return r.open(ctx, index.OpenByNode, node)
}

func (r *Reconciler) openOfPolicy(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.open(ctx, index.OpenByPolicy, string(obj.GetUID()))
}

// open returns the open remediations whose indexed field has the value.
func (r *Reconciler) open(ctx context.Context, field, value string) []reconcile.Request {
	return worker.Requests(r.openWhere(ctx, field, value, func(*v1alpha1.Remediation) bool { return true })...)
}

// openWhere returns those of the remediations, open ones for an index of them, whose indexed
// field has the value that are wanted.
func (r *Reconciler) openWhere(ctx context.Context, field, value string, wanted func(*v1alpha1.Remediation) bool) (names []string) {
	var list v1alpha1.RemediationList
	if err := r.Client.List(ctx, &list, client.MatchingFields{field: value}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing open remediations")
		return nil
	}
	for i := range list.Items {
		if wanted(&list.Items[i]) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}
