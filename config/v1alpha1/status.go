package v1alpha1

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Finished returns the Finished condition of an action that has ended in
// whatever way, and nil for one that has not.
func (a *NodeAction) Finished() *metav1.Condition {
	c := meta.FindStatusCondition(a.Status.Conditions, ActionFinished)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return c
}

// Executed reports whether an action that ended for this reason is known to
// have executed its remedy, whatever the result. Only then may the next
// attempt or step follow.
func Executed(reason string) bool {
	switch reason {
	case ReasonSucceeded, ReasonFailed, ReasonTimedOut, ReasonNotBack, ReasonReplaced, ReasonNotReplaced:
		return true
	default:
		return false
	}
}

// MayHaveExecuted reports whether an action that ended for this reason has executed
// its remedy, or may have since nobody knows.
func MayHaveExecuted(reason string) bool {
	switch reason {
	case ReasonInterrupted, ReasonRebootNotObserved, ReasonPowerStillOn, ReasonLost:
		return true
	default:
		return Executed(reason)
	}
}

// MayRun reports whether the action's remedy may be running, until its deadline: it was
// claimed and has not finished, or nobody knows whether it has.
func (a *NodeAction) MayRun() bool {
	finished := a.Finished()
	return a.Status.Claim != nil && (finished == nil || MayHaveExecuted(finished.Reason) && !Executed(finished.Reason))
}

// Acted reports whether the action was executed, or may have been.
func (r *ActionRecord) Acted() bool { return r.Executed || MayHaveExecuted(r.Outcome) }

// LastActed returns the record of the last action that was executed, or may have been; nil
// if there is none.
func (s *RemediationStatus) LastActed() *ActionRecord {
	for i := len(s.History) - 1; i >= 0; i-- {
		if s.History[i].Acted() {
			return &s.History[i]
		}
	}
	return nil
}

// HandedOver reports whether another program has worked on the node for the remediation, or may
// have, the owner of its machine included. It may have deleted the Node, to bring it back.
func (r *Remediation) HandedOver() bool {
	for i := range r.Status.History {
		if record := &r.Status.History[i]; record.Acted() {
			if kind := RemedyNamed(record.Remedy); kind.Executor == ExecutorExternal || kind.Replaces {
				return true
			}
		}
	}
	return false
}

// Untouched reports whether nothing was done to the node for the remediation yet.
func (r *Remediation) Untouched() bool {
	return r.Status.Phase() == PhaseNext && r.Status.LastActed() == nil
}

// State returns where the remediation stands: the reason of its Progressing
// condition, "" before the controller has seen it.
func (r *Remediation) State() string { return r.Status.state() }

func (s *RemediationStatus) state() string {
	if c := meta.FindStatusCondition(s.Conditions, RemediationProgressing); c != nil {
		return c.Reason
	}
	return ""
}

// BlockedBy returns the reason that holds the remediation back, "" if none does.
func (r *Remediation) BlockedBy() string {
	if c := meta.FindStatusCondition(r.Status.Conditions, RemediationBlocked); c != nil && c.Status == metav1.ConditionTrue {
		return c.Reason
	}
	return ""
}

// Summarize writes into state and blockedBy, for people to select by, what the conditions
// say. Nothing is decided by those: a controller that does not know them leaves them as
// they were.
func (s *RemediationStatus) Summarize() {
	s.State, s.BlockedBy = s.state(), (&Remediation{Status: *s}).BlockedBy()
}

// TriesOfAnApproval is how often what acts on a machine from outside and a person has approved
// is tried without anything being done: what they have looked at is long ago by then.
const TriesOfAnApproval = 5

// Unexecuted returns how often the present attempt was tried and not executed.
func (s *RemediationStatus) Unexecuted() (tries int) {
	for i := len(s.History) - 1; i >= 0; i-- {
		record := &s.History[i]
		if record.Executed || record.Former || record.Step != s.Step || record.Attempt != s.Attempt {
			break
		}
		tries++
	}
	return tries
}

// ApprovalUsedUp reports whether the present attempt is of the remote runner, a person has
// approved it, and it was tried so often in vain that a person has to look again.
func (r *Remediation) ApprovalUsedUp() bool {
	step := r.Step(r.Status.Step)
	return step != nil && step.RequireApproval && step.Executor() == ExecutorRemote && r.Status.Unexecuted() >= TriesOfAnApproval
}

// Approved reports whether a person has approved the step of this number, counted from 1,
// or a later one.
func (r *Remediation) Approved(step int32) bool {
	approved := r.ApprovedStep()
	return approved > 0 && approved >= step
}

// ApprovedStep returns the number of the step, counted from 1, up to which a person has
// approved the steps; 0: none is approved.
func (r *Remediation) ApprovedStep() int32 {
	// As many bits as the number of a step has.
	approved, err := strconv.ParseUint(r.Annotations[ApprovedStepAnnotation], 10, 31)
	if err != nil {
		return 0
	}
	return int32(approved)
}

// LastDecision returns the record of the latest decision of this kind, nil if there is none.
func (s *RemediationStatus) LastDecision(what string) *PersonsDecision {
	for i := len(s.Decisions) - 1; i >= 0; i-- {
		if s.Decisions[i].What == what {
			return &s.Decisions[i]
		}
	}
	return nil
}

// Covers reports whether the trigger, a condition of the same node matched by the
// same policy, is of the remediation's own incident. One that a person has deleted
// covers all that was there when it ended, and one whose node a person has given back what had
// started it, if it was there then: it may have been gone in between. One that ended since another
// one was open covers nothing: the other one does.
//
// Of an entry with debounce, lastTransitionTime says little: the incident of one that a person
// has ended lasts until the condition was seen healthy, and one that the controller has seen
// since before another one ended is the same. What one debounce calls one incident may be two
// for another one: then the two are not compared.
func (r *Remediation) Covers(t *Trigger, debounce Duration) bool {
	if r.Ended() && r.State() == ReasonDuplicate {
		return false
	}
	if own := DebounceOf(r.Spec.Match, t); own.Duration > 0 && r.Ended() {
		switch {
		case slices.Contains(r.AwaitedHealthy(), t.Type):
			return true
		case t.SeenSince != nil && own == debounce && r.endedAfter(t.SeenSince):
			return true
		case slices.Contains(r.Status.SeenHealthy, t.Type):
			return false
		}
	}
	own := &r.Spec.Trigger
	same := own.Type == t.Type && own.Status == t.Status
	if r.Ended() {
		then := !t.LastTransitionTime.After(r.Status.EndTime.Time)
		switch r.State() {
		case ReasonDeleted:
			return then && slices.ContainsFunc(r.Spec.Match, func(m ConditionMatch) bool { return m.Type == t.Type && m.Status == t.Status })
		case ReasonReleased:
			return then && same
		}
	}
	return same && own.LastTransitionTime.Equal(&t.LastTransitionTime)
}

// endedAfter reports whether what is seen since then was so when the remediation ended. One that
// ended as recovered has seen all of its conditions healthy in that very second.
func (r *Remediation) endedAfter(since *metav1.Time) bool {
	if state := r.State(); state == ReasonRecovered || state == ReasonRecoveredByItself {
		return since.Before(r.Status.EndTime)
	}
	return !r.Status.EndTime.Before(since)
}

// Since returns since when the condition was so: as the controller has seen it, or else as the
// condition says.
func (t *Trigger) Since() metav1.Time {
	if t.SeenSince != nil {
		return *t.SeenSince
	}
	return t.LastTransitionTime
}

// DebounceOf returns the debounce of the first entry with one that matches the type and status
// of the trigger, 0 if there is none.
func DebounceOf(match []ConditionMatch, t *Trigger) Duration {
	for i := range match {
		if m := &match[i]; m.Type == t.Type && m.Status == t.Status && m.Debounces() {
			return m.Debounce
		}
	}
	return Duration{}
}

// AwaitedHealthy returns the types of the conditions with debounce whose incident lasts until
// they are seen healthy: all of a remediation that a person has deleted, and that which has
// started one whose node a person has given back.
func (r *Remediation) AwaitedHealthy() []string {
	state := r.State()
	if !r.Ended() || state != ReasonReleased && state != ReasonDeleted {
		return nil
	}
	var awaited []string
	for i := range r.Spec.Match {
		m := &r.Spec.Match[i]
		if own := &r.Spec.Trigger; state == ReasonReleased && (m.Type != own.Type || m.Status != own.Status) {
			continue
		}
		if m.Debounces() && !slices.Contains(r.Status.SeenHealthy, m.Type) && !slices.Contains(awaited, m.Type) {
			awaited = append(awaited, m.Type)
		}
	}
	return awaited
}

// StartedAt returns when the remediation was created, or, of a tombstone, the one in whose
// place it is. What cannot be read, or is later than the object itself, is not believed.
func (r *Remediation) StartedAt() metav1.Time {
	started, err := time.Parse(time.RFC3339, r.Annotations[TombstoneStartedAnnotation])
	if _, isTombstone := r.Annotations[TombstoneAnnotation]; err != nil || !isTombstone || started.After(r.CreationTimestamp.Time) {
		return r.CreationTimestamp
	}
	return metav1.NewTime(started)
}

// Ended reports whether the remediation is over.
func (r *Remediation) Ended() bool { return r.Status.EndTime != nil }

// Concurrent returns spec.maxConcurrent, or its default where the API server
// has not filled it in.
func (s *RemediationBudgetSpec) Concurrent() intstr.IntOrString {
	return ptr.Deref(s.MaxConcurrent, intstr.FromInt32(1))
}

// Condition returns the maintenance's condition of this type if it is about the spec
// as it is now, else nil.
func (m *NodeMaintenance) Condition(conditionType string) *metav1.Condition {
	c := meta.FindStatusCondition(m.Status.Conditions, conditionType)
	if c == nil || c.ObservedGeneration != m.Generation {
		return nil
	}
	return c
}

// Drained reports whether nothing is to be waited for any more.
func (m *NodeMaintenance) Drained() bool {
	c := m.Condition(MaintenanceDrained)
	return c != nil && c.Status == metav1.ConditionTrue
}

// WasCordoned reports whether the node was cordoned since the maintenance holds it, by
// whomever.
func (m *NodeMaintenance) WasCordoned() bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, MaintenanceCordoned)
}

// Holds reports whether the maintenance keeps the node out: it is not being deleted,
// and means this node and not one of the same name.
func (m *NodeMaintenance) Holds(node *corev1.Node) bool {
	return m.DeletionTimestamp == nil && m.Spec.NodeName == node.Name && (m.Spec.NodeUID == "" || m.Spec.NodeUID == node.UID)
}

// MayShine reports whether the lamp of the machine may shine for the maintenance.
func (m *NodeMaintenance) MayShine() bool {
	s := m.Status.Identify
	return s != nil && s.State != LightOff
}

// MayBeOff reports whether the power of the machine may be off by the maintenance, and is to be
// switched on again when it ends. Until it has booted then, it is no machine that has died.
func (m *NodeMaintenance) MayBeOff() bool {
	s := m.Status.Power
	if s == nil {
		return false
	}
	switch s.Phase {
	case PowerShuttingDown, PowerCutting, PowerOff, PowerStillOn, PowerRestoring:
		return true
	default:
		return false
	}
}

// KeepsOutOfService reports whether the taint out-of-service that we have set stays: it is for this
// maintenance, which has not ended.
func (m *NodeMaintenance) KeepsOutOfService(node *corev1.Node) bool {
	mark, ok := OutOfServiceMarkOf(node)
	name, is := mark.Maintenance()
	p, word := m.Status.Power, m.Spec.MachineOff
	proved := p != nil && p.Proof != nil && p.Proof.BootID == mark.BootID || word != nil && word.BootID == mark.BootID
	return ok && is && name == m.Name && m.DeletionTimestamp == nil && proved
}

// KeepsActionsFrom reports whether no action may begin on the node: the maintenance holds it, or
// has ended, and its machine is not known to be back.
func (m *NodeMaintenance) KeepsActionsFrom(node *corev1.Node) bool {
	return m.Holds(node) || m.DeletionTimestamp != nil && m.Spec.NodeName == node.Name && m.MayBeOff()
}
