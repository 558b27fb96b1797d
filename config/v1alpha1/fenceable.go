package v1alpha1

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// NodeFenceable is the type of the condition of a node that says whether what switches its power from
// outside would do so: True if it was asked, and would. The remote runner asks and writes it. Its
// lastHeartbeatTime is when it was asked last.
const NodeFenceable = "Fenceable"

// Reasons of the condition NodeFenceable. Only the first two are those of True.
const (
	// FenceAnswers: the switch answers, is that of the node's machine, and says that it is on.
	FenceAnswers = "SwitchAnswers"
	// FenceAnswersOff: the same, but it says for two minutes that it is off, of a node that is not Ready.
	FenceAnswersOff = "SwitchAnswersOff"
	// FenceNoSwitch: no entry of remote.yaml names the node.
	FenceNoSwitch = "NoSwitch"
	// FenceNoAnswer: the switch did not answer, twice.
	FenceNoAnswer = "NoAnswer"
	// FenceLoginRefused: it does not let the user in, or do this.
	FenceLoginRefused = "LoginRefused"
	// FenceOtherMachine: it says that it is another machine's.
	FenceOtherMachine = "OtherMachine"
	// FenceMachineUnknown: it does not say whose it is, or the node's systemUUID is none, or that of
	// another node, too.
	FenceMachineUnknown = "MachineUnknown"
	// FenceReadsOff: it said twice that the power is off, of a node that is Ready, or that it is
	// neither on nor off.
	FenceReadsOff = "PowerReadsOff"
	// FenceCheckFailed: it could not be asked, twice, such as for a mistake in remote.yaml, or a
	// password that can't be read.
	FenceCheckFailed = "CheckFailed"
)

// Reasons of a Fence for which there is no condition, or one that is too old, or has a reason that is not
// of this version: whoever has root on a node can write any text, of any length.
const (
	FenceNeverChecked = "NeverChecked"
	FenceNotChecked   = "NotCheckedLately"
	FenceOther        = "Other"
)

// FenceReasons are all that a Fence can have that Nodemend has written, or found missing.
func FenceReasons() []string {
	return []string{
		FenceAnswers, FenceAnswersOff, FenceNoSwitch, FenceNoAnswer, FenceLoginRefused, FenceOtherMachine, FenceMachineUnknown, FenceReadsOff, FenceCheckFailed,
		FenceNeverChecked, FenceNotChecked, FenceOther,
	}
}

// FenceCheckAnnotation on a node asks the remote runner to check its switch now. Its value is the time
// (RFC 3339) at which somebody asks; each new one is heeded once.
const FenceCheckAnnotation = "nodemend.dev/fence-check"

// fenceAge is how old a check may be that went well: they are an hour apart, or a little more. It may be
// ahead by fenceAhead, as clocks differ.
const fenceAge, fenceAhead = 6 * time.Hour, 10 * time.Minute

// Fence is what is known of whether a node's power could be switched from outside.
//
// +kubebuilder:object:generate=false
type Fence struct {
	// Fenceable: its switch was asked lately, and would.
	Fenceable bool
	// Reason is one of those above, Message says more, for people.
	Reason, Message string
	// Checked is when the switch was asked last; zero: never.
	Checked time.Time
}

// FenceOf returns what the node's condition says at this time.
func FenceOf(node *corev1.Node, now time.Time) Fence {
	c := FindNodeCondition(node, NodeFenceable)
	if c == nil {
		return Fence{Reason: FenceNeverChecked, Message: "no remote runner has tried its switch"}
	}
	switch age := now.Sub(c.LastHeartbeatTime.Time); {
	case c.Status == corev1.ConditionTrue && (age > fenceAge || age < -fenceAhead):
		return Fence{Reason: FenceNotChecked, Message: "no remote runner has tried its switch lately; when one did, it answered", Checked: c.LastHeartbeatTime.Time}
	default:
		f := Fence{Fenceable: c.Status == corev1.ConditionTrue, Reason: c.Reason, Message: c.Message, Checked: c.LastHeartbeatTime.Time}
		if !slices.Contains(FenceReasons(), f.Reason) {
			f.Reason = FenceOther
		}
		return f
	}
}

// NeedsSwitch reports whether the step switches power from outside.
func (s *Step) NeedsSwitch() bool {
	return s.Reboot != nil && s.Reboot.Method == RebootPowerCycle || s.Maintenance != nil && s.Maintenance.Power == PowerRequestOff
}
