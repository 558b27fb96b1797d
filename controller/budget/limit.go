// Package budget gives out the permits of RemediationBudgets and takes them
// back, and keeps the state of their groups of nodes up to date. The API server
// enforces the limits.
package budget

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// Numbers, 0% and 100% are taken at their word. Other percentages are rounded in
// the safe direction, but so that a group of two or more can spare one node.
const (
	none = "0%"
	all  = "100%"
)

// Limit returns how many permits maxConcurrent allows in a group of this many
// nodes. A percentage is rounded down, but is at least 1 when there is a node at
// all, since a gentle step takes no node out; 0% is 0.
func Limit(maxConcurrent intstr.IntOrString, nodes int) (int32, error) {
	limit, err := scale("maxConcurrent", maxConcurrent, nodes, false)
	if limit == 0 && nodes > 0 && maxConcurrent.Type == intstr.String && maxConcurrent.StrVal != none {
		limit = 1
	}
	return limit, err
}

// MaxUnavailable returns how many nodes of a group of this many may be
// unavailable. A percentage is rounded down, but is at least 1 in a group of two
// or more; 0% is 0.
func MaxUnavailable(maxUnavailable intstr.IntOrString, nodes int) (int32, error) {
	limit, err := scale("maxUnavailable", maxUnavailable, nodes, false)
	if limit == 0 && nodes > 1 && maxUnavailable.Type == intstr.String && maxUnavailable.StrVal != none {
		limit = 1
	}
	return limit, err
}

// MinHealthy returns how many nodes of a group of this many must be healthy. A
// percentage is rounded up, but spares at least one node in a group of two or
// more; 100% is all of them.
func MinHealthy(minHealthy intstr.IntOrString, nodes int) (int32, error) {
	limit, err := scale("minHealthy", minHealthy, nodes, true)
	if int(limit) == nodes && nodes > 1 && minHealthy.Type == intstr.String && minHealthy.StrVal != all {
		limit--
	}
	return limit, err
}

func scale(field string, value intstr.IntOrString, nodes int, up bool) (int32, error) {
	scaled, err := intstr.GetScaledValueFromIntOrPercent(&value, nodes, up)
	if err != nil {
		return 0, fmt.Errorf("spec.%s: %w", field, err)
	}
	return int32(scaled), nil
}

// MaxPermits is how many permits a group holds at most: the API server takes no
// more.
const MaxPermits = 500

// Allowed returns the number of permits that may be taken now in a group: the limit last
// written to the status, and never more than the spec's number.
func Allowed(b *v1alpha1.RemediationBudget, group string) int32 {
	limit := b.Status.Groups[group].Limit
	switch m := b.Spec.Concurrent(); {
	case limit == nil && m.Type != intstr.Int:
		return 0
	case limit == nil:
		return min(m.IntVal, MaxPermits)
	case m.Type != intstr.Int:
		return min(*limit, MaxPermits)
	default:
		return min(*limit, m.IntVal, MaxPermits)
	}
}

// Disruptions returns the number of permits for disruptive steps that the API
// server allows now in a group.
func Disruptions(b *v1alpha1.RemediationBudget, group string) int32 {
	switch limit := b.Status.Groups[group].DisruptionLimit; {
	case limit != nil:
		return min(*limit, MaxPermits)
	case b.Spec.MaxUnavailable != nil || b.Spec.MinHealthy != nil:
		return 0 // not counted yet
	default:
		return MaxPermits
	}
}

// TooFewHealthy returns a budget that selects the node and has fewer healthy nodes in its group
// than minHealthy says; nil if there is none. It counts these nodes; sick are those of them that
// are Sick. The status of a budget has such a count, too, but perhaps one from before the latest
// remediation was opened.
func TooFewHealthy(selecting []v1alpha1.RemediationBudget, node *corev1.Node, nodes []*corev1.Node, sick map[types.UID]bool) (*v1alpha1.RemediationBudget, error) {
	for i := range selecting {
		b := &selecting[i]
		if b.Spec.MinHealthy == nil {
			continue
		}
		selector, err := fleet.Selector(b.Spec.NodeSelector)
		if err != nil {
			return nil, reconcile.TerminalError(err)
		}
		group, members, healthy := GroupOf(b, node), 0, int32(0)
		permits := b.Status.Groups[group].Permits
		for _, other := range nodes {
			if GroupOf(b, other) != group || !selector.Matches(labels.Set(other.Labels)) {
				continue
			}
			members++
			if state := stateOf(b, other, sick); state.healthy(permits) {
				healthy++
			}
		}
		if required, err := MinHealthy(*b.Spec.MinHealthy, members); err != nil || healthy < required {
			return b, err
		}
	}
	return nil, nil
}

// Counted reports whether the nodes of a group have been counted by the limits of the
// spec as it is now: before, nobody gets a permit.
func Counted(b *v1alpha1.RemediationBudget, group string) bool {
	return b.Status.Groups[group].Limit != nil && b.Status.ObservedGeneration == b.Generation
}

// Free returns how many more permits there are in a group.
func Free(b *v1alpha1.RemediationBudget, group string) int {
	return int(Allowed(b, group)) - len(b.Status.Groups[group].Permits)
}

// FreeDisruptions returns how many more permits for disruptive steps there are
// in a group, as far as maxUnavailable and minHealthy are concerned.
func FreeDisruptions(b *v1alpha1.RemediationBudget, group string) int {
	return int(Disruptions(b, group)) - Disruptive(b.Status.Groups[group].Permits)
}

// Disruptive counts the permits for disruptive steps.
func Disruptive(permits map[string]v1alpha1.Permit) int {
	count := 0
	for _, permit := range permits {
		if permit.Disruptive {
			count++
		}
	}
	return count
}
