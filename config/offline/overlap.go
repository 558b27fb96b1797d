package offline

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// placedPolicy is a policy and where its entries of match are; at is nil for one of the
// cluster.
type placedPolicy struct {
	*v1alpha1.RemedyPolicy
	at func(field string) Problem
}

// overlaps warns of policies that the same condition starts on the same node: both act, one
// after the other. The warning is at the later one.
func overlaps(policies []placedPolicy) (warnings []Problem) {
	for i, later := range policies {
		if later.at == nil {
			continue
		}
		for j, other := range policies {
			if i == j || j > i && other.at != nil || !mayShareNodes(later.Spec.NodeSelector, other.Spec.NodeSelector) {
				continue
			}
			n, m, found := sharedMatch(later.Spec.Match, other.Spec.Match)
			if !found {
				continue
			}
			where := "of the cluster"
			if other.at != nil {
				at := other.at(fmt.Sprintf("spec.match[%d]", m))
				where = fmt.Sprintf("in %s:%d", printable(at.File), at.Line)
			}
			entry := later.Spec.Match[n]
			warning := later.at(fmt.Sprintf("spec.match[%d]", n))
			both := "both would act"
			if later.Spec.Mode != v1alpha1.ModeEnforce || other.Spec.Mode != v1alpha1.ModeEnforce {
				both = "in mode Enforce both would act"
			}
			warning.Message = fmt.Sprintf("%s=%s starts the policy %s %s, too, on the same nodes: %s, one after the other; "+
				"give them different nodeSelectors or reasons", entry.Type, entry.Status, other.Name, where, both)
			warnings = append(warnings, warning)
		}
	}
	return warnings
}

// sharedMatch returns the first entries that the same condition fits.
func sharedMatch(a, b []v1alpha1.ConditionMatch) (n, m int, found bool) {
	for n := range a {
		for m := range b {
			if a[n].Type == b[m].Type && a[n].Status == b[m].Status && shareReason(a[n].Reasons, b[m].Reasons) {
				return n, m, true
			}
		}
	}
	return 0, 0, false
}

func shareReason(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(reason string) bool { return slices.Contains(b, reason) })
}

// mayShareNodes reports whether a node can have labels that both select. It says so, too,
// where it can't tell.
func mayShareNodes(a, b *metav1.LabelSelector) bool {
	for _, of := range requirements(a) {
		for _, other := range requirements(b) {
			if of.Key == other.Key && (excludes(of, other) || excludes(other, of)) {
				return false
			}
		}
	}
	return true
}

// requirements returns what a selector asks for, one by one.
func requirements(s *metav1.LabelSelector) []metav1.LabelSelectorRequirement {
	if s == nil {
		return nil
	}
	all := slices.Clone(s.MatchExpressions)
	for key, value := range s.MatchLabels {
		all = append(all, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
	}
	return all
}

// excludes reports whether no label of their key fits both requirements, of which the
// second is at most as strict as the first.
func excludes(a, b metav1.LabelSelectorRequirement) bool {
	switch a.Operator {
	case metav1.LabelSelectorOpIn:
		allowed := func(value string) bool {
			switch b.Operator {
			case metav1.LabelSelectorOpIn:
				return slices.Contains(b.Values, value)
			case metav1.LabelSelectorOpNotIn:
				return !slices.Contains(b.Values, value)
			default:
				return b.Operator == metav1.LabelSelectorOpExists
			}
		}
		return !slices.ContainsFunc(a.Values, allowed)
	case metav1.LabelSelectorOpExists:
		return b.Operator == metav1.LabelSelectorOpDoesNotExist
	default:
		return false
	}
}
