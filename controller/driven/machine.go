package driven

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/others"
)

// By this condition, False, a remediator tells the owner of a Machine to replace it: docs of cluster-api,
// developer/providers/contracts, and api/core/v1beta2/machine_types.go.
const (
	ownerRemediated       = "OwnerRemediated"
	waitingForRemediation = "WaitingForRemediation"
)

// tellOwner tells the owner of the request's Machine, if it has one, that it is to act: all steps
// were in vain. Told again, it changes nothing.
func (r *Reconciler) tellOwner(ctx context.Context, asked *v1alpha1.NodemendRemediation) error {
	owner := machineOf(asked)
	if owner == nil {
		return nil
	}
	key := types.NamespacedName{Namespace: asked.Namespace, Name: owner.Name}
	machine, err := others.Machine(ctx, r.Live, key)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Machine %s: %w", key, err)
	}
	if machine.GetUID() != owner.UID || machine.GetDeletionTimestamp() != nil {
		return nil
	}
	given := machine.DeepCopy()
	if !giveUp(given, "Remediation "+asked.Status.Remediation+" of Nodemend was in vain: every step was executed", r.Clock.Now()) {
		return nil
	}
	patch := client.MergeFromWithOptions(machine, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, given, patch, fieldmanager.Controller); err != nil {
		hint := ""
		if apierrors.IsForbidden(err) {
			hint = "; set controller.drivenBy of the chart (docs/others.md)"
		}
		return fmt.Errorf("setting %s of Machine %s%s: %w", ownerRemediated, key, hint, err)
	}
	ctrl.LoggerFrom(ctx).Info("Told the owner of a Machine to act", "machine", key.String(), "remediation", asked.Status.Remediation)
	return nil
}

// giveUp sets the condition OwnerRemediated to False, unless the Machine has it. It reports whether it
// has changed the Machine.
func giveUp(machine *unstructured.Unstructured, message string, now time.Time) bool {
	list, _, _ := unstructured.NestedSlice(machine.Object, "status", "conditions") // none that is no list
	condition := map[string]any{
		"type": ownerRemediated, "status": "False", "reason": waitingForRemediation, "message": message,
		"lastTransitionTime": now.UTC().Format(time.RFC3339),
	}
	if strings.HasSuffix(machine.GetAPIVersion(), "/v1beta1") { // which wants it where the status is False
		condition["severity"] = "Warning"
	}
	for i, item := range list {
		known, _ := item.(map[string]any)
		if known["type"] != ownerRemediated {
			continue
		}
		if known["status"] == "False" {
			return false
		}
		list[i] = condition
		return unstructured.SetNestedSlice(machine.Object, list, "status", "conditions") == nil
	}
	return unstructured.SetNestedSlice(machine.Object, append(list, any(condition)), "status", "conditions") == nil
}
