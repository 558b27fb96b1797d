package apiserver

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// other is a kind of another program.
func other(gvk schema.GroupVersionKind) *kind {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	return &kind{
		object: object, resource: strings.ToLower(gvk.Kind) + "s", namespaced: true, gvk: gvk,
		objects: map[types.NamespacedName]client.Object{},
		// A write of the whole object has its status, too.
		copyStatus: func(into, from client.Object) {
			into.(*unstructured.Unstructured).Object["status"] = from.(*unstructured.Unstructured).Object["status"]
		},
	}
}

// unknown reports whether an object is of a kind that no Go type is for.
func unknown(obj runtime.Object) bool {
	_, is := obj.(*unstructured.Unstructured)
	return is
}
