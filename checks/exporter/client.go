package exporter

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// fieldManager owns a node's detector's conditions in the Node's managedFields.
const fieldManager = "nodemend-detector"

// Node reads and writes one Node.
type Node interface {
	// Get returns the Node as it is, not from a cache that may lag behind.
	Get(ctx context.Context) (*corev1.Node, error)
	// PatchStatus applies a strategic merge patch to the Node's status.
	PatchStatus(ctx context.Context, data []byte) error
}

type restNode struct {
	client        rest.Interface
	name, manager string
}

// Get implements Node.
func (n restNode) Get(ctx context.Context) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := n.client.Get().Resource("nodes").Name(n.name).Do(ctx).Into(node)
	return node, err
}

// PatchStatus asks for the metadata alone in return: a whole Node, with its
// list of images, is a hundred kilobytes that nobody reads.
func (n restNode) PatchStatus(ctx context.Context, data []byte) error {
	return n.client.Patch(types.StrategicMergePatchType).
		Resource("nodes").Name(n.name).SubResource("status").
		Param("fieldManager", n.manager).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json").
		Body(data).
		Do(ctx).
		Error()
}
