package attempt

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/internal/cut"
)

// MaxText is how many bytes of a message, and of the end of an output, are kept of an attempt
// that has ended.
const MaxText = 1024

// Strip is a cache transform that keeps of an action that has finished only what [Executor.Tell]
// tells of it: there may be tens of thousands. One that has not, or that is being deleted, stays
// whole, but for its managed fields. It may be called again for what it has returned.
func Strip(obj any) (any, error) {
	whole, ok := obj.(*v1alpha1.NodeAction)
	if !ok || whole.ManagedFields == nil { // what comes from an API server has them
		return obj, nil
	}
	a := *whole
	a.ManagedFields = nil
	finished := a.Finished()
	if finished == nil || a.DeletionTimestamp != nil {
		return &a, nil
	}
	a.ObjectMeta = metav1.ObjectMeta{
		Name: a.Name, UID: a.UID, ResourceVersion: a.ResourceVersion, Generation: a.Generation, CreationTimestamp: a.CreationTimestamp,
		Finalizers: a.Finalizers,
	}
	spec := &a.Spec
	spec.NodeName, spec.NodeUID = fleet.Shared(spec.NodeName), fleet.Shared(spec.NodeUID)
	spec.Remediation, spec.RemediationUID = fleet.Shared(spec.Remediation), fleet.Shared(spec.RemediationUID)
	spec.Policy = v1alpha1.PolicyReference{Name: fleet.Shared(spec.Policy.Name), UID: fleet.Shared(spec.Policy.UID)}
	spec.StepHash = fleet.Shared(spec.StepHash)
	a.Status = v1alpha1.NodeActionStatus{Conditions: []metav1.Condition{{
		Type: v1alpha1.ActionFinished, Status: finished.Status, LastTransitionTime: finished.LastTransitionTime,
		Reason: fleet.Shared(finished.Reason), Message: cut.Head(finished.Message, MaxText),
	}}}
	if claim := whole.Status.Claim; claim != nil {
		a.Status.Claim = &v1alpha1.Claim{Time: claim.Time, BootID: fleet.Shared(claim.BootID)}
	}
	if result := whole.Status.Result; result != nil && result.Output != "" {
		a.Status.Result = &v1alpha1.ActionResult{Output: cut.Tail(result.Output, MaxText)}
	}
	return &a, nil
}
