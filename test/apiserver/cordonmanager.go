package apiserver

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cordonField is the one field of which a Client tells who manages it: the cordon of a
// node. The HTTP seam tells it of all.
const cordonField = `{"f:spec":{"f:unschedulable":{}}}`

// manageCordon notes who has changed the cordon of a node.
func manageCordon(present, changed client.Object, manager string) {
	before, isNode := present.(*corev1.Node)
	if !isNode {
		return
	}
	after := changed.(*corev1.Node)
	if before.Spec.Unschedulable == after.Spec.Unschedulable {
		return
	}
	after.ManagedFields = slices.DeleteFunc(slices.Clone(after.ManagedFields), func(e metav1.ManagedFieldsEntry) bool {
		return e.FieldsV1 != nil && e.FieldsV1.GetRawString() == cordonField
	})
	if after.Spec.Unschedulable {
		after.ManagedFields = append(after.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(cordonField),
		})
	}
}
