package maintenance

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GiveBack takes our cordon and its mark back from the node, if it has them, in one
// step that fails with a conflict if the mark has changed. It reports whether there was
// anything to take back. It is for when no controller runs: a running one would cordon
// the node again for what still holds it.
func GiveBack(ctx context.Context, c client.Client, node *corev1.Node) (bool, error) {
	patch := uncordonPatch(node)
	if patch == nil {
		return false, nil
	}
	return true, (&Reconciler{Client: c}).patch(ctx, node.Name, patch)
}
