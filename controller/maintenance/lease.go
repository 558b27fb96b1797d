package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/optimistic"
	"github.com/nodemend/nodemend/controller/others"
)

// NodeHealthCheck and node-maintenance-operator leave a node alone whose Lease somebody else holds. It is taken
// before a node is cordoned, and renewed as long as it is held. One that nobody gives back ends by itself.
const (
	leaseTime  = 10 * time.Minute
	leaseRenew = 3 * time.Minute
	leaseRetry = 10 * time.Second
)

// lease takes medik8s' Lease of a node that somebody holds who has something to do there, or whose machine is not
// back yet for one that leaves: nobody else is to take it for dead. Or it renews the Lease. It returns after how long to look again. A Lease that somebody else holds stays: what that means is
// asked before each step. So does it say nothing where Leases can't be written, such as without their namespace, or
// where a webhook refuses them: a cordon does not depend on them.
func (r *Reconciler) lease(ctx context.Context, node *corev1.Node, holders, leaving []*v1alpha1.NodeMaintenance) (time.Duration, error) {
	if !r.Leases || node == nil {
		return 0, nil
	}
	by, err := r.busy(ctx, r.Client, holders)
	if err != nil || by == nil && !slices.ContainsFunc(leaving, func(m *v1alpha1.NodeMaintenance) bool { return m.KeepsActionsFrom(node) }) {
		return 0, err
	}
	switch err := r.takeLease(ctx, node); {
	case refused(err):
		ctrl.LoggerFrom(ctx).Info("The Lease of medik8s can't be taken", "node", node.Name, "why", err.Error())
		if apierrors.IsInternalError(err) { // as of a webhook that restarts
			return leaseRetry, nil
		}
	case err != nil:
		return 0, fmt.Errorf("taking the Lease of medik8s for node %s: %w", node.Name, err)
	}
	return leaseRenew, nil
}

// refused reports whether the API server has answered, and would not answer otherwise in a moment.
func refused(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && !apierrors.IsConflict(err) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) &&
		!apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err)
}

func (r *Reconciler) takeLease(ctx context.Context, node *corev1.Node) error {
	var lease coordinationv1.Lease
	key, now := others.LeaseOf(node.Name), metav1.NewMicroTime(r.Clock.Now())
	err := r.Live.Get(ctx, key, &lease)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	is := ptr.Deref(lease.Spec.HolderIdentity, "") == others.LeaseHolder
	switch {
	case is && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.Add(leaseRenew).After(now.Time) && !lease.Spec.RenewTime.After(now.Time):
		return nil
	case others.LeaseHeld(&lease, node.Name, now.Time).Why != "":
		return nil
	}
	taken := lease.DeepCopy()
	taken.Namespace, taken.Name = key.Namespace, key.Name
	if !is {
		taken.Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To(others.LeaseHolder), AcquireTime: &now}
		taken.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	}
	taken.Spec.RenewTime, taken.Spec.LeaseDurationSeconds = &now, ptr.To(int32(leaseTime/time.Second))
	if missing {
		if err := r.Client.Create(ctx, taken, fieldmanager.Controller); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil // somebody else was first
	}
	return r.Client.Patch(ctx, taken, optimistic.Since(&lease), fieldmanager.Controller)
}

// returnLease deletes the Lease of a node if we hold it.
func (r *Reconciler) returnLease(ctx context.Context, node string) error {
	if !r.Leases {
		return nil
	}
	var lease coordinationv1.Lease
	err := r.Live.Get(ctx, others.LeaseOf(node), &lease)
	if err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") == others.LeaseHolder {
		err = r.Client.Delete(ctx, &lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
	}
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return fmt.Errorf("returning the Lease of medik8s for node %s: %w", node, err)
}
