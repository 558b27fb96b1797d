package budget

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
)

// sweepEvery is how often the permits of a budget are looked through at least.
const sweepEvery = time.Minute

// sweep releases the permits whose remediation is gone or has ended, whatever
// became of node and group. Remediations release their own; this is for what
// was lost. It reports whether there are permits at all.
func (r *Reconciler) sweep(ctx context.Context, b *v1alpha1.RemediationBudget) (held bool, err error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(b.Status.Groups)) {
		permits := b.Status.Groups[name].Permits
		for _, node := range slices.Sorted(maps.Keys(permits)) {
			permit := permits[node]
			held = true
			var remediation v1alpha1.Remediation
			err := r.Client.Get(ctx, types.NamespacedName{Name: permit.Remediation}, &remediation, client.UnsafeDisableDeepCopy)
			if err == nil && !remediation.Ended() {
				continue
			}
			over, err := r.over(ctx, permit.Remediation)
			if over {
				err = r.Permits.Release(ctx, []v1alpha1.RemediationBudget{*b}, node, permit)
			}
			errs = append(errs, err)
		}
	}
	return held, errors.Join(errs...)
}

// over reports whether a remediation is gone or has ended, and nothing that it
// has started can be running, as the API server has it now.
func (r *Reconciler) over(ctx context.Context, name string) (bool, error) {
	var remediation v1alpha1.Remediation
	err := r.Live.Get(ctx, types.NamespacedName{Name: name}, &remediation)
	if err == nil {
		return remediation.Ended(), nil
	}
	if !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading remediation %s: %w", name, err)
	}
	attempts, err := attempt.OfRemediation(ctx, r.Live, name)
	if err != nil {
		return false, err
	}
	for i := range attempts {
		a := &attempts[i]
		if (a.End == nil || a.MayRun()) && r.Clock.Now().Before(a.Over) {
			return false, nil
		}
	}
	return true, nil
}
