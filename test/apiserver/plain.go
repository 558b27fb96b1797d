package apiserver

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// plain reports whether the rules in CEL surely accept a new status, where all else is as it was. It says so of
// most, which spares the search a fifth of its time; where it does not, the rules are asked. It knows the rules of
// the status and those of the root: a test compares it with them, and fails when there are others.
func plain(old, updated client.Object) bool {
	switch updated := updated.(type) {
	case *v1alpha1.RemediationBudget:
		return plainBudget(old.(*v1alpha1.RemediationBudget), updated)
	case *v1alpha1.NodeAction:
		return plainAction(&old.(*v1alpha1.NodeAction).Status, &updated.Status)
	}
	return false
}

// plainBudget knows that permits within the limits are accepted, if none changes hands.
func plainBudget(old, updated *v1alpha1.RemediationBudget) bool {
	for name, group := range updated.Status.Groups {
		if len(group.Permits) == 0 {
			continue
		}
		disruptive, before := 0, old.Status.Groups[name].Permits
		for node, permit := range group.Permits {
			if permit.Disruptive {
				disruptive++
			}
			if had, held := before[node]; held && had.Remediation != permit.Remediation {
				return false
			}
		}
		if concurrent, disruptions := capsOf(&updated.Spec, group); len(group.Permits) > concurrent || disruptive > disruptions {
			return false
		}
	}
	return true
}

// capsOf are how many permits a group may have, and how many for disruptive steps.
func capsOf(spec *v1alpha1.RemediationBudgetSpec, group v1alpha1.BudgetGroup) (concurrent, disruptions int) {
	switch {
	case spec.MaxConcurrent == nil:
	case spec.MaxConcurrent.Type == intstr.Int:
		concurrent = spec.MaxConcurrent.IntValue()
	case group.Limit != nil:
		concurrent = int(*group.Limit)
	}
	switch {
	case group.DisruptionLimit != nil:
		disruptions = int(*group.DisruptionLimit)
	case spec.MaxUnavailable == nil && spec.MinHealthy == nil:
		disruptions = concurrent
	}
	return concurrent, disruptions
}

// plainAction knows that a claim that stays lets an action that has not finished go on.
func plainAction(old, updated *v1alpha1.NodeActionStatus) bool {
	if len(old.Conditions) > 0 || old.Aftermath != nil || updated.Aftermath != nil {
		return false
	}
	if old.Claim != nil && (updated.Claim == nil || *updated.Claim != *old.Claim) {
		return false
	}
	if updated.Claim == nil && (updated.Power != nil || updated.External != nil || updated.Replace != nil) {
		return false
	}
	if was, is := old.Replace, updated.Replace; was != nil && is != nil &&
		(is.Machine != was.Machine || is.Method != was.Method || is.Wanted != was.Wanted) {
		return false
	}
	if p := updated.Power; p != nil && p.Proof != nil {
		apart := p.Proof.Apart.Duration
		return apart >= 0 && apart%time.Millisecond == 0 // the rule knows no µ
	}
	return true
}
