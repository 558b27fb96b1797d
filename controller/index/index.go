// Package index names the indexes of the controller's cache, so that a lookup
// costs what it finds and not what there is.
package index

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Indexes, for client.MatchingFields.
const (
	// ByNode finds the remediations, open and ended, by the name of their node.
	// The API server selects by it, too.
	ByNode = "spec.nodeName"
	// Open finds the open remediations, by the value IsOpen.
	Open = "open"
	// IsOpen is the only value of Open.
	IsOpen = "true"
	// OpenByNode finds the open remediations by the name of their node.
	OpenByNode = "open.spec.nodeName"
	// OpenByPolicy finds the open remediations by the UID of their policy.
	OpenByPolicy = "open.spec.policy.uid"
	// BlockedBy finds the open remediations by the reason that blocks them.
	BlockedBy = "open.status.blockedBy"
	// ActionsByNode finds actions by the name of their node. The API server
	// selects by it, too.
	ActionsByNode = "spec.nodeName"
	// MaintenancesByNode finds maintenances by the name of their node. The API server
	// selects by it, too.
	MaintenancesByNode = "spec.nodeName"
	// ActionsByRemediation finds actions by the name of their remediation. It
	// is not in the cache: only the API server selects by it.
	ActionsByRemediation = "spec.remediation"
)

// Register adds the indexes.
func Register(ctx context.Context, indexer client.FieldIndexer) error {
	open := func(value func(*v1alpha1.Remediation) string) client.IndexerFunc {
		return func(obj client.Object) []string {
			remediation, ok := obj.(*v1alpha1.Remediation)
			if !ok || remediation.Ended() {
				return nil
			}
			return []string{value(remediation)}
		}
	}
	if err := indexer.IndexField(ctx, &v1alpha1.Remediation{}, ByNode, func(obj client.Object) []string {
		remediation, ok := obj.(*v1alpha1.Remediation)
		if !ok {
			return nil
		}
		return []string{remediation.Spec.NodeName}
	}); err != nil {
		return err
	}
	isOpen := open(func(*v1alpha1.Remediation) string { return IsOpen })
	if err := indexer.IndexField(ctx, &v1alpha1.Remediation{}, Open, isOpen); err != nil {
		return err
	}
	byNode := open(func(r *v1alpha1.Remediation) string { return r.Spec.NodeName })
	if err := indexer.IndexField(ctx, &v1alpha1.Remediation{}, OpenByNode, byNode); err != nil {
		return err
	}
	byPolicy := open(func(r *v1alpha1.Remediation) string { return string(r.Spec.Policy.UID) })
	if err := indexer.IndexField(ctx, &v1alpha1.Remediation{}, OpenByPolicy, byPolicy); err != nil {
		return err
	}
	blockedBy := open(func(r *v1alpha1.Remediation) string { return r.BlockedBy() })
	if err := indexer.IndexField(ctx, &v1alpha1.Remediation{}, BlockedBy, blockedBy); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &v1alpha1.NodeMaintenance{}, MaintenancesByNode, func(obj client.Object) []string {
		maintenance, ok := obj.(*v1alpha1.NodeMaintenance)
		if !ok {
			return nil
		}
		return []string{maintenance.Spec.NodeName}
	}); err != nil {
		return err
	}
	return indexer.IndexField(ctx, &v1alpha1.NodeAction{}, ActionsByNode, func(obj client.Object) []string {
		action, ok := obj.(*v1alpha1.NodeAction)
		if !ok {
			return nil
		}
		return []string{action.Spec.NodeName}
	})
}
