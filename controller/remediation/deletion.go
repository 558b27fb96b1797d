package remediation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/optimistic"
)

const (
	tombstoneSuffix = "-deleted"
	maxName         = 253
)

func isTombstone(r *v1alpha1.Remediation) bool {
	_, ok := r.Annotations[v1alpha1.TombstoneAnnotation]
	return ok
}

// TombstoneName is the name of the tombstone of a remediation of this name.
func TombstoneName(name string) string {
	return tombstoneName(&v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// tombstoneName is the name of a remediation's tombstone; that of a tombstone is
// its own.
func tombstoneName(r *v1alpha1.Remediation) string {
	if isTombstone(r) {
		return r.Name
	}
	return r.Name[:min(len(r.Name), maxName-len(tombstoneSuffix))] + tombstoneSuffix
}

// stillThere reports whether the remediation is the tombstone of one that is not gone yet: both
// remember the same actions, which count once.
func stillThere(all []v1alpha1.Remediation, r *v1alpha1.Remediation) bool {
	of := r.Annotations[v1alpha1.TombstoneUIDAnnotation]
	return of != "" && slices.ContainsFunc(all, func(other v1alpha1.Remediation) bool { return string(other.UID) == of })
}

func deletedMessage(r *v1alpha1.Remediation) string {
	return fmt.Sprintf("deleted by a person, this incident starts no other remediation; to start over with the policy as it is now: kubectl delete remediation %s",
		tombstoneName(r))
}

// finalize lets a deleted remediation go that has ended and holds no permit any
// more: with its actions, and with a tombstone in its place if it was deleted
// before it ended by itself. It returns after how long to look again.
func (r *Reconciler) finalize(ctx context.Context, remediation *v1alpha1.Remediation) (wait time.Duration, err error) {
	released := remediation.DeepCopy()
	if !controllerutil.RemoveFinalizer(released, v1alpha1.RemediationFinalizer) {
		return 0, nil
	}
	if remediation.State() == v1alpha1.ReasonDeleted {
		// Another controller may have let it go long ago, and a person may have deleted its
		// tombstone since, to start over.
		if err := r.unchanged(ctx, remediation); err != nil {
			return 0, client.IgnoreNotFound(err)
		}
		if err := r.bury(ctx, remediation); err != nil {
			return 0, err
		}
	}
	attempts, err := attempt.OfRemediation(ctx, r.Live, remediation.Name)
	if err != nil {
		return 0, err
	}
	if running, wait, err := r.endAttempts(ctx, attempts); running || err != nil {
		return wait, err
	}
	patch := optimistic.Since(remediation)
	if err := r.Client.Patch(ctx, released, patch, fieldmanager.Controller); err != nil {
		return 0, fmt.Errorf("removing the finalizer of remediation %s: %w", remediation.Name, err)
	}
	return 0, nil
}

// bury makes the tombstone of a deleted remediation, with all that it remembers.
// Done again, it changes nothing.
func (r *Reconciler) bury(ctx context.Context, remediation *v1alpha1.Remediation) error {
	tombstone := &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{
			Name: tombstoneName(remediation),
			Annotations: map[string]string{
				v1alpha1.TombstoneAnnotation:        remediation.Name,
				v1alpha1.TombstoneUIDAnnotation:     string(remediation.UID),
				v1alpha1.TombstoneStartedAnnotation: remediation.CreationTimestamp.UTC().Format(time.RFC3339),
			},
		},
		Spec: remediation.Spec,
	}
	left := remediation.Status
	left.Summarize()
	status, err := json.Marshal(map[string]any{"status": left})
	if err != nil {
		return fmt.Errorf("writing the tombstone of remediation %s: %w", remediation.Name, err)
	}
	if err := r.Client.Create(ctx, tombstone, fieldmanager.Controller); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the tombstone of remediation %s: %w", remediation.Name, err)
	}
	// Until then it ends itself, but does not know what was done.
	if err := r.Client.Status().Patch(ctx, tombstone, client.RawPatch(types.MergePatchType, status), fieldmanager.Controller); err != nil {
		return fmt.Errorf("writing the tombstone of remediation %s: %w", remediation.Name, err)
	}
	return nil
}

// cleanUp ends what a remediation left behind that is gone although nobody has
// finalized it: somebody has removed its finalizer. It returns after how long to
// look again. When the name belongs to a new remediation by now, that one takes
// care.
func (r *Reconciler) cleanUp(ctx context.Context, name string) (wait time.Duration, err error) {
	// What is seen before the name is seen to be free is not of a new one.
	var budgets v1alpha1.RemediationBudgetList
	if err := r.Client.List(ctx, &budgets); err != nil {
		return 0, fmt.Errorf("listing budgets: %w", err)
	}
	if free, err := r.isFree(ctx, name); !free || err != nil {
		return 0, err // the cache is behind; its event comes
	}
	attempts, err := attempt.OfRemediation(ctx, r.Live, name)
	if err != nil {
		return 0, err
	}
	if free, err := r.isFree(ctx, name); !free || err != nil {
		return 0, err
	}
	if running, wait, err := r.endAttempts(ctx, attempts); running || err != nil {
		return wait, err
	}
	left, err := r.orphans(ctx, name)
	if err != nil {
		return 0, err
	}
	errs := []error{r.giveBack(ctx, left)}
	for i := range budgets.Items {
		groups := budgets.Items[i].Status.Groups
		for _, group := range slices.Sorted(maps.Keys(groups)) {
			permits := groups[group].Permits
			for _, node := range slices.Sorted(maps.Keys(permits)) {
				if permit := permits[node]; permit.Remediation == name {
					errs = append(errs, r.Permits.Release(ctx, budgets.Items[i:i+1], node, permit))
				}
			}
		}
	}
	return 0, errors.Join(errs...)
}

// isFree reports whether no remediation has this name, as the API server has it now.
func (r *Reconciler) isFree(ctx context.Context, name string) (bool, error) {
	err := r.Live.Get(ctx, types.NamespacedName{Name: name}, &v1alpha1.Remediation{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading remediation %s: %w", name, err)
	}
	return false, nil
}

// endAttempts ends the attempts of a remediation that is over: those that nobody has begun are
// cancelled, those that have ended deleted. It reports whether any may still run, and after how
// long to look again: 0 if its end is an event.
func (r *Reconciler) endAttempts(ctx context.Context, attempts []attempt.Attempt) (running bool, wait time.Duration, err error) {
	var errs []error
	for i := range attempts {
		a := &attempts[i]
		left := a.RunsUntil().Sub(r.Clock.Now())
		switch {
		case a.Cancellable():
			running = true // unless this cancels it, which leads here again
			errs = append(errs, a.Cancel(ctx, r.Client, r.wasDeleted()))
		case a.Recallable:
			running = true // until its object is gone, which leads here again
			errs = append(errs, a.Recall(ctx, r.Client, attempt.Recall{Message: r.wasDeleted().Message, At: r.Clock.Now()}))
		case left > 0 && a.Endless():
			running = true
		case left > 0:
			running, wait = true, max(wait, left)
		default:
			errs = append(errs, a.Delete(ctx, r.Client))
		}
	}
	return running, wait, errors.Join(errs...)
}

// cancelFormer cancels what a former remediation of the same name has left that nobody has
// begun, recalls what can be, and reports whether there was anything. Which one is the former the API server is asked:
// the cache may show that one, and the attempt of the present.
func (r *Reconciler) cancelFormer(ctx context.Context, s situation) (cancelled bool, err error) {
	for i := range s.others {
		a := &s.others[i]
		if !s.former(a) || !a.Cancellable() && !a.Recallable {
			continue
		}
		if err := r.unchanged(ctx, s.remediation); err != nil {
			return false, err
		}
		if a.Cancellable() {
			return true, a.Cancel(ctx, r.Client, r.wasDeleted())
		}
		return true, a.Recall(ctx, r.Client, attempt.Recall{Message: r.wasDeleted().Message, At: r.Clock.Now()})
	}
	return false, nil
}

// wasDeleted is how an attempt ends whose remediation a person has deleted.
func (r *Reconciler) wasDeleted() attempt.End {
	return attempt.End{Reason: v1alpha1.ReasonCancelled, Message: "the remediation was deleted", At: r.Clock.Now()}
}
