package remediation

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// Strip is a cache transform that keeps of a remediation that has ended only what decisions
// about others are made from: whose it was, its trigger, when it acted, and how it ended. The
// texts and outputs are for people, who ask the API server, and there may be tens of
// thousands of them. One that is open, or is being deleted and leaves a tombstone, stays
// whole, but for its managed fields.
//
// It fits cache.ByObject, whose caches strip a listed object twice: the second time it comes
// out as it went in.
func Strip(obj any) (any, error) {
	whole, ok := obj.(*v1alpha1.Remediation)
	// What comes from an API server has managed fields.
	if !ok || whole.ManagedFields == nil {
		return obj, nil
	}
	r := *whole
	r.ManagedFields = nil
	if !r.Ended() || r.DeletionTimestamp != nil {
		return &r, nil
	}
	spec, status := &r.Spec, &r.Status
	spec.NodeName, spec.NodeUID = fleet.Shared(spec.NodeName), fleet.Shared(spec.NodeUID)
	spec.Policy = v1alpha1.PolicyReference{Name: fleet.Shared(spec.Policy.Name), UID: fleet.Shared(spec.Policy.UID)}
	spec.Trigger = v1alpha1.Trigger{
		Type: fleet.Shared(spec.Trigger.Type), Status: fleet.Shared(spec.Trigger.Status),
		LastTransitionTime: spec.Trigger.LastTransitionTime, SeenSince: spec.Trigger.SeenSince,
	}
	if !slices.ContainsFunc(status.History, needsStep) {
		spec.Steps = nil
	}
	// The match of one that a person has deleted tells which incidents start no other, debounce
	// what one incident is.
	if r.State() != v1alpha1.ReasonDeleted && !slices.ContainsFunc(spec.Match, func(m v1alpha1.ConditionMatch) bool { return m.Debounces() }) {
		spec.Match = nil
	}
	if r.Finalizers != nil {
		r.Finalizers = make([]string, len(whole.Finalizers))
		for i, finalizer := range whole.Finalizers {
			r.Finalizers[i] = fleet.Shared(finalizer)
		}
	}
	status.BootID, status.BootedAt, status.ControlPlane, status.Decisions = "", nil, nil, nil
	status.State, status.BlockedBy = fleet.Shared(status.State), fleet.Shared(status.BlockedBy)
	status.History = make([]v1alpha1.ActionRecord, len(whole.Status.History))
	for i, record := range whole.Status.History {
		record.Message, record.Output, record.StartedAt = "", "", nil
		if !needsStep(record) {
			record.Action = "" // by which those are found of which nobody knows how they ended
		}
		record.Remedy, record.Outcome = fleet.Shared(record.Remedy), fleet.Shared(record.Outcome)
		status.History[i] = record
	}
	status.Conditions = nil
	if c := meta.FindStatusCondition(whole.Status.Conditions, v1alpha1.RemediationProgressing); c != nil {
		status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationProgressing, Status: fleet.Shared(c.Status), Reason: fleet.Shared(c.Reason), LastTransitionTime: c.LastTransitionTime}}
	}
	return &r, nil
}

// needsStep reports whether a record is understood only together with its step. The step tells
// until when an action may have run whose end nobody knows; and what the remedy was, in a record
// that an earlier version has written.
func needsStep(record v1alpha1.ActionRecord) bool {
	return record.Remedy == "" || !record.Executed && record.Acted()
}
