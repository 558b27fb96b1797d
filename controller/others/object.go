package others

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// get reads an object of a kind that may not exist, in the first of the versions that is served.
func get(ctx context.Context, c client.Reader, group, kind string, versions []string, key types.NamespacedName) (obj *unstructured.Unstructured, err error) {
	for _, version := range versions {
		obj = &unstructured.Unstructured{}
		obj.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
		if err = c.Get(ctx, key, obj); !meta.IsNoMatchError(err) {
			break
		}
	}
	return obj, err
}

// conditions are the statuses of an object's conditions, by type.
func conditions(obj *unstructured.Unstructured) map[string]corev1.ConditionStatus {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions") // none that is not there, or no list
	all := map[string]corev1.ConditionStatus{}
	for _, item := range list {
		condition, _ := item.(map[string]any)
		name, _ := condition["type"].(string)
		status, _ := condition["status"].(string)
		all[name] = corev1.ConditionStatus(status)
	}
	return all
}
