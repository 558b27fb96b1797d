package optimistic

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/controller/fieldmanager"
)

// Operation is one of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Absent returns the value of a path that is not there, for "test".
func Absent() any { return json.RawMessage("null") }

// PatchNode sends a JSON patch of a node. If one of its tests fails, the error is a conflict.
func PatchNode(ctx context.Context, c client.Client, node string, patch []Operation) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	obj := &corev1.Node{}
	obj.Name = node
	err = c.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, data), fieldmanager.Controller)
	if apierrors.IsInvalid(err) { // what a failed test of the patch is answered with
		return apierrors.NewConflict(corev1.Resource("nodes"), node, err)
	}
	return err
}
