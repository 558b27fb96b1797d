// Package driven lets other programs drive Nodemend, by the contracts of NodeHealthCheck and of Cluster
// API's MachineHealthCheck with their remediators: it makes one Remediation for a NodemendRemediation,
// and tells by the conditions of that what became of it.
//
// How the remediation goes, package remediation decides, which looks at the request itself: here
// nothing is decided about nodes. A request holds until its remediation has ended and the node is
// back in service.
package driven

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/match"
	"github.com/nodemend/nodemend/controller/optimistic"
	"github.com/nodemend/nodemend/controller/remediation"
	"github.com/nodemend/nodemend/controller/worker"
)

// Reconciler carries out what other programs ask for.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Clock tells when a condition changed.
	Clock clock.PassiveClock
	// Created is told of each remediation that was created, which it must not change.
	Created func(*v1alpha1.Remediation)
	// Wake has the remediation of this name decided on.
	Wake func(name string)

	backoff worker.Backoff
}

// workers is how many requests are looked at at the same time.
const workers = 4

// Loop returns the reconciler with what wakes it. The name of an object is NAMESPACE/NAME.
func (r *Reconciler) Loop() worker.Loop {
	r.backoff = worker.NewBackoff()
	return worker.Loop{
		Name: "driven", Key: "request", Workers: workers, Reconciler: r,
		Watches: []worker.Watch{
			{Kind: &v1alpha1.NodemendRemediation{}, Handler: handler.EnqueueRequestsFromMapFunc(r.onRequest)},
			{Kind: &v1alpha1.Remediation{}, Handler: handler.EnqueueRequestsFromMapFunc(ofRemediation)},
			{Kind: &v1alpha1.NodeMaintenance{}, Handler: handler.EnqueueRequestsFromMapFunc(r.ofMaintenance)},
		},
	}
}

// onRequest wakes the remediation, too: what became of the request decides what becomes of it.
func (r *Reconciler) onRequest(_ context.Context, obj client.Object) []reconcile.Request {
	if name := obj.(*v1alpha1.NodemendRemediation).Status.Remediation; name != "" {
		r.Wake(name)
	}
	return worker.Requests(obj.GetNamespace() + "/" + obj.GetName())
}

func ofRemediation(_ context.Context, obj client.Object) []reconcile.Request {
	if request := obj.(*v1alpha1.Remediation).Spec.Request; request != nil {
		return worker.Requests(request.String())
	}
	return nil
}

// ofMaintenance returns the request for which a maintenance has a node out.
func (r *Reconciler) ofMaintenance(ctx context.Context, obj client.Object) []reconcile.Request {
	of := obj.(*v1alpha1.NodeMaintenance).Spec.Remediation
	var known v1alpha1.Remediation
	if of == nil || r.Client.Get(ctx, types.NamespacedName{Name: of.Name}, &known, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	return ofRemediation(ctx, &known)
}

// Reconcile takes the next step for one request.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	namespace, name, _ := strings.Cut(request.Name, "/")
	wait, err := r.reconcile(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	return r.backoff.Result(request.Name, wait, err)
}

func (r *Reconciler) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	l, err := r.look(ctx, key)
	if err != nil || l.asked == nil {
		return 0, err
	}
	d := follow(l)
	switch asked := l.asked; d.verb {
	case write:
		changed := asked.DeepCopy()
		changed.Status = d.status
		if err := r.Client.Status().Patch(ctx, changed, optimistic.Since(asked), fieldmanager.Controller); err != nil {
			return 0, fmt.Errorf("writing the status of NodemendRemediation %s: %w", key, err)
		}
		if now, before := reason(changed), reason(asked); now != before {
			ctrl.LoggerFrom(ctx).Info("Request changed", "node", changed.Status.NodeName, "remediation", changed.Status.Remediation, "policy", asked.Spec.Policy, "state", now)
		}
		return d.wait, nil // its event comes
	case hold:
		held := asked.DeepCopy()
		controllerutil.AddFinalizer(held, v1alpha1.RequestFinalizer)
		return 0, r.change(ctx, asked, held)
	case letGo:
		free := asked.DeepCopy()
		controllerutil.RemoveFinalizer(free, v1alpha1.RequestFinalizer)
		return 0, client.IgnoreNotFound(r.change(ctx, asked, free))
	case start:
		return time.Second, r.start(ctx, l) // or its event comes before
	case wake:
		r.Wake(l.remediation.Name)
		return d.wait, nil
	case tell:
		return 0, r.tellOwner(ctx, asked)
	default:
		return d.wait, nil
	}
}

// change writes the metadata of a request that has not changed since it was read.
func (r *Reconciler) change(ctx context.Context, before, after *v1alpha1.NodemendRemediation) error {
	if err := r.Client.Patch(ctx, after, optimistic.Since(before), fieldmanager.Controller); err != nil {
		return fmt.Errorf("writing the finalizers of NodemendRemediation %s/%s: %w", before.Namespace, before.Name, err)
	}
	return nil
}

// start creates the remediation, which has the name that the status says. That it is there is success.
func (r *Reconciler) start(ctx context.Context, l look) error {
	created := match.NewRequested(l.policy, l.node, l.asked)
	switch err := r.Client.Create(ctx, created, fieldmanager.Controller); {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("creating remediation %s: %w", created.Name, err)
	}
	r.Created(created)
	ctrl.LoggerFrom(ctx).Info("Remediation started", "remediation", created.Name, "policy", l.policy.Name, "node", l.node.Name, "by", created.Spec.Request.By())
	return nil
}

// look reads what is known of a request; one that is gone has none. The request is read once more when
// all else is known: by then another controller may have made the remediation that was not there.
func (r *Reconciler) look(ctx context.Context, key types.NamespacedName) (look, error) {
	l := look{now: r.Clock.Now()}
	asked, err := r.read(ctx, key)
	if err != nil || asked == nil {
		return l, err
	}
	l.asked = asked
	if name := asked.Status.Remediation; name != "" {
		var found v1alpha1.Remediation
		if is, err := r.get(ctx, name, &found); err != nil {
			return l, err
		} else if is {
			l.remediation = &found
		}
	}
	switch {
	case l.remediation != nil && l.remediation.Ended():
		l.leaving, err = r.leaving(ctx, l.remediation)
	case l.remediation == nil && !l.begun() && !l.concluded() && asked.DeletionTimestamp == nil:
		err = r.beforeTheStart(ctx, &l)
	}
	if err != nil {
		return l, err
	}
	l.asked, err = r.read(ctx, key)
	if is := l.asked; err == nil && is != nil &&
		(is.UID != asked.UID || is.DeletionTimestamp.IsZero() != asked.DeletionTimestamp.IsZero() || !equality.Semantic.DeepEqual(is.Status, asked.Status)) {
		l.asked = nil // its event comes
	}
	return l, err
}

// beforeTheStart reads what is needed to make a remediation.
func (r *Reconciler) beforeTheStart(ctx context.Context, l *look) (err error) {
	if l.nodeName, l.unclear, err = r.nodeOf(ctx, l.asked); err != nil || l.unclear.reason != "" {
		return err
	}
	var node corev1.Node
	var policy v1alpha1.RemedyPolicy
	if is, err := r.get(ctx, l.nodeName, &node); err != nil {
		return err
	} else if is {
		l.node = &node
	}
	if is, err := r.get(ctx, l.asked.Spec.Policy, &policy); err != nil {
		return err
	} else if is && policy.DeletionTimestamp == nil {
		l.policy = &policy
	}
	if l.unclear = l.ofThisCluster(); l.unclear.reason != "" || l.node == nil || l.policy == nil {
		return nil
	}
	own := match.RequestedName(l.asked, l.nodeName)
	var list v1alpha1.RemediationList
	if err := r.Client.List(ctx, &list, client.MatchingFields{index.OpenByNode: l.nodeName}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the remediations of node %s: %w", l.nodeName, err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.Name != own && other.Spec.NodeUID == node.UID && other.Spec.Policy.UID == policy.UID {
			l.before = other.Name
		}
	}
	if l.asked.Status.Remediation != "" {
		l.buried, err = r.get(ctx, remediation.TombstoneName(own), &v1alpha1.Remediation{})
	}
	return err
}

// leaving reports whether a maintenance of the remediation, which has ended, is still to be gone. One
// that its status names is for a person to end. A cache may not have seen it.
func (r *Reconciler) leaving(ctx context.Context, ended *v1alpha1.Remediation) (bool, error) {
	var list v1alpha1.NodeMaintenanceList
	if err := r.Live.List(ctx, &list, client.MatchingFields{index.MaintenancesByNode: ended.Spec.NodeName}); err != nil {
		return false, fmt.Errorf("listing the maintenances of node %s: %w", ended.Spec.NodeName, err)
	}
	for i := range list.Items {
		m := &list.Items[i]
		if m.Spec.Remediation != nil && m.Spec.Remediation.UID == ended.UID && m.Name != ended.Status.Maintenance {
			return true, nil
		}
	}
	return false, nil
}

// read reads a request; nil: there is none.
func (r *Reconciler) read(ctx context.Context, key types.NamespacedName) (*v1alpha1.NodemendRemediation, error) {
	var asked v1alpha1.NodemendRemediation
	err := r.Live.Get(ctx, key, &asked)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading NodemendRemediation %s: %w", key, err)
	}
	return &asked, nil
}

// get reads an object that has no namespace, and reports whether there is one.
func (r *Reconciler) get(ctx context.Context, name string, into client.Object) (bool, error) {
	err := r.Live.Get(ctx, types.NamespacedName{Name: name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %T %s: %w", into, name, err)
	}
	return true, nil
}

func reason(asked *v1alpha1.NodemendRemediation) string {
	if c := (&look{asked: asked}).processing(); c != nil {
		return c.Reason
	}
	return ""
}
