// Package optimistic writes what has changed since an object was read, and fails with a
// conflict if anybody else has changed the object since.
package optimistic

import "sigs.k8s.io/controller-runtime/pkg/client"

// Patch is a JSON merge patch that names the version it was made from.
type Patch struct {
	client.Patch
	base client.Object
}

// Since returns the patch that turns base, as it was read, into the object that it is
// sent with. base must not be changed any more.
func Since(base client.Object) Patch {
	return Patch{client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}), base}
}

// Base is the object as it was read.
func (p Patch) Base() client.Object { return p.base }
