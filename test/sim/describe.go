package sim

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// The kinds that a controller watches, as empty objects.
var (
	v1alpha1Policy      v1alpha1.RemedyPolicy
	v1alpha1Budget      v1alpha1.RemediationBudget
	v1alpha1Remediation v1alpha1.Remediation
	v1alpha1Action      v1alpha1.NodeAction
	v1alpha1Maintenance v1alpha1.NodeMaintenance
	v1alpha1Request     v1alpha1.NodemendRemediation
)

func sameType(a, b any) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// sorted sorts nodes by their names: the product is to decide alike in each run.
func sorted(nodes []*corev1.Node) []*corev1.Node {
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// describeOthers says what matters of an object of Kubernetes.
func describeOthers(obj client.Object, text string) string {
	switch o := obj.(type) {
	case *corev1.Node:
		text += fmt.Sprintf(" %s", o.Status.NodeInfo.BootID)
		if o.Spec.Unschedulable {
			text += ", cordoned for " + cmp.Or(o.Annotations[v1alpha1.CordonedAnnotation], "others")
		}
		for _, t := range o.Spec.Taints {
			text += ", tainted " + t.Key + "=" + t.Value
		}
		if mark := o.Annotations[v1alpha1.OutOfServiceAnnotation]; mark != "" {
			text += ", marked " + mark
		}
		for _, c := range o.Status.Conditions {
			text += fmt.Sprintf(", %s=%s", c.Type, c.Status)
		}
		if len(o.Labels) > 0 {
			text += fmt.Sprintf(" %v", o.Labels)
		}
	case *corev1.Pod:
		text += " on " + o.Spec.NodeName
	}
	return text
}
