package fleet

import (
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/others"
)

// Strip is a cache transform that keeps of a Node only what the controller
// reads, so that 5,000 nodes cost little memory: identity, boot ID, labels, taints
// without their values, conditions, and whether it is cordoned, by whom, or leaving. It fits
// cache.ByObject, whose caches strip a listed Node twice: the second time it comes out
// as it went in.
//
// Texts that many nodes share are held once. A decoded Node has its own copy of
// every one.
func Strip(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	// What comes from an API server has managed fields.
	if !ok || node.ManagedFields == nil {
		return obj, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:              node.Name,
			UID:               node.UID,
			ResourceVersion:   node.ResourceVersion,
			CreationTimestamp: node.CreationTimestamp,
			DeletionTimestamp: node.DeletionTimestamp,
			Labels:            sharedLabels(node.Labels),
			Annotations:       read(node.Annotations),
		},
		Spec: corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, Taints: sharedTaints(node.Spec.Taints)},
		Status: corev1.NodeStatus{
			Conditions: sharedConditions(node.Status.Conditions),
			NodeInfo:   corev1.NodeSystemInfo{BootID: node.Status.NodeInfo.BootID},
		},
	}, nil
}

// readAnnotations are the annotations of nodes that the controller reads. Whoever reads another
// one, such as a gate, has to add it: it is not in the cache otherwise.
var readAnnotations = append(others.Annotations(), v1alpha1.CordonedAnnotation, v1alpha1.OutOfServiceAnnotation, v1alpha1.ExcludeReasonAnnotation)

// read returns the annotations that the controller reads.
func read(annotations map[string]string) (kept map[string]string) {
	for _, key := range readAnnotations {
		if value, set := annotations[key]; set {
			if kept == nil {
				kept = make(map[string]string, 1)
			}
			kept[key] = Shared(value)
		}
	}
	return kept
}

// Shared returns the one copy of a text, which lives as long as it is used.
func Shared[T ~string](text T) T { return unique.Make(text).Value() }

func sharedLabels(labels map[string]string) map[string]string {
	if labels == nil {
		return nil
	}
	kept := make(map[string]string, len(labels))
	for key, value := range labels {
		if key != corev1.LabelHostname { // its values are not shared
			value = Shared(value)
		}
		kept[Shared(key)] = value
	}
	return kept
}

func sharedTaints(taints []corev1.Taint) []corev1.Taint {
	if taints == nil {
		return nil
	}
	kept := make([]corev1.Taint, len(taints))
	for i := range taints {
		kept[i] = corev1.Taint{Key: Shared(taints[i].Key), Effect: Shared(taints[i].Effect)}
	}
	return kept
}

func sharedConditions(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	if conditions == nil {
		return nil
	}
	kept := make([]corev1.NodeCondition, len(conditions))
	for i, c := range conditions {
		c.Type, c.Status = Shared(c.Type), Shared(c.Status)
		c.Reason, c.Message = Shared(c.Reason), Shared(c.Message)
		kept[i] = c
	}
	return kept
}
