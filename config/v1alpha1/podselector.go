package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Selector returns what the selector selects: without one, whatever otherwise says. It
// fails for a key that no label can have.
func (s *PodSelector) Selector(otherwise labels.Selector) (labels.Selector, error) {
	if s == nil {
		return otherwise, nil
	}
	return metav1.LabelSelectorAsSelector(s.LabelSelector())
}

// LabelSelector returns the selector in its general form.
func (s *PodSelector) LabelSelector() *metav1.LabelSelector {
	selector := metav1.LabelSelector{MatchLabels: make(map[string]string, len(s.MatchLabels))}
	for key, value := range s.MatchLabels {
		selector.MatchLabels[key] = string(value)
	}
	for _, e := range s.MatchExpressions {
		values := make([]string, len(e.Values))
		for i, value := range e.Values {
			values[i] = string(value)
		}
		selector.MatchExpressions = append(selector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: e.Key, Operator: e.Operator, Values: values})
	}
	return &selector
}
