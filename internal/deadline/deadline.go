// Package deadline says until when what a NodeAction asks for may be begun, and may run, so
// that nothing else is begun on its node meanwhile (invariant I2 of docs/design.md).
//
// A runner begins nothing after the action's expiresAt, or after its claim if that is later,
// and has ended what it has begun by Killed. The controller waits until Claimable before it
// cancels an action that nobody has claimed, and until Over before it gives up one that
// somebody has. Each is later than what the runner keeps, by a grace for clocks that differ
// and for messages on their way: a test here says so, and one of each remedy that it ends
// within EndGrace.
package deadline

import (
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const (
	// ClaimTime is how long after its creation an action may be claimed.
	ClaimTime = time.Minute
	// ClaimGrace is how long after its expiresAt an action is cancelled: time for a claim
	// that is on its way.
	ClaimGrace = 5 * time.Second
	// EndGrace is how long after its timeout a remedy may take to be ended: processes are
	// asked to stop, then killed.
	EndGrace = 30 * time.Second
	// ReportGrace is how long after Killed a report is awaited. It is more than a runner
	// needs after an outage, since it tries every 30 s.
	ReportGrace = time.Minute
)

// Never is when an action is over that another program carries out: its remediator, whose object
// the controller follows, or the owner of a machine, which the remote runner follows. Only that the
// object or the machine is gone ends the action.
var Never = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// Claimable returns until when a claim of the action may arrive.
func Claimable(a *v1alpha1.NodeAction) time.Time { return a.Spec.ExpiresAt.Add(ClaimGrace) }

// Killed returns when the remedy of the action has ended at the latest, since its runner ends
// it after the timeout. A runner may begin up to expiresAt after its claim, when the answer to
// that was late.
func Killed(a *v1alpha1.NodeAction) time.Time {
	if (a.Spec.Executor == v1alpha1.ExecutorExternal || a.Spec.Executor == v1alpha1.ExecutorRemote && a.Status.Replace != nil) && a.Status.Claim != nil && a.Finished() == nil {
		return Never
	}
	start := a.Spec.ExpiresAt.Time
	if a.Status.Claim != nil && a.Status.Claim.Time.After(start) {
		start = a.Status.Claim.Time.Time
	}
	return start.Add(a.Spec.Timeout.Duration).Add(EndGrace)
}

// Over returns when the action is over at the latest, its report included, whoever claims it
// and when.
func Over(a *v1alpha1.NodeAction) time.Time {
	if killed := Killed(a); killed != Never {
		return killed.Add(ReportGrace)
	}
	return Never
}

// RunsUntil returns until when the action may run although nobody says so: Over if it was
// claimed and has not finished, or if nobody knows whether it has. It is the zero time for
// all others.
func RunsUntil(a *v1alpha1.NodeAction) time.Time {
	if !a.MayRun() {
		return time.Time{}
	}
	return Over(a)
}

// RestoreTime is how long after an action is Over what it has switched off is still switched on
// again by whoever goes on with it. People are told when it is Over; later the machine is theirs.
const RestoreTime = time.Hour

// Restorable returns until when the remote runner switches on again what the action has switched
// off.
func Restorable(a *v1alpha1.NodeAction) time.Time { return Over(a).Add(RestoreTime) }

// MayBeOff reports whether the power of a machine may be off by the action, and is to be switched
// on again.
func MayBeOff(a *v1alpha1.NodeAction, now time.Time) bool {
	if a.Finished() != nil || a.Status.Claim == nil || a.Status.Power == nil || now.After(Restorable(a)) {
		return false
	}
	phase := a.Status.Power.Phase
	return phase != "Looking" && phase != "Ended"
}

// LightTime is how long a maintenance that has ended waits for its light to go out.
const LightTime = 5 * time.Minute

// GivenBack returns until when the remote runner switches on again what is off for a maintenance:
// for RestoreTime after it was deleted, or has begun with that. Later the machine is for people.
func GivenBack(m *v1alpha1.NodeMaintenance) time.Time {
	var from time.Time
	if m.DeletionTimestamp != nil {
		from = m.DeletionTimestamp.Time
	}
	if m.Status.Power != nil && m.Status.Power.Since.After(from) {
		from = m.Status.Power.Since.Time
	}
	return from.Add(RestoreTime)
}

// Lost returns until when an action may run that is gone, or whose runner has forgotten it:
// it had this timeout, and could not be begun any more when that was found.
func Lost(found time.Time, timeout time.Duration) time.Time { return found.Add(timeout + ReportGrace) }

// Ended returns when the action of a record of the remediation was over at the latest: when
// it is known to have finished, or else once its runner must have killed it.
func Ended(r *v1alpha1.Remediation, record *v1alpha1.ActionRecord) time.Time {
	if step := r.Step(record.Step); !record.Executed && step != nil {
		return Lost(record.FinishedAt.Time, step.Timeout.Duration)
	}
	return record.FinishedAt.Time
}

// MayRun reports whether the action runs, or may be claimed yet. One that is past its
// deadline runs no more, whatever its runner has said.
func MayRun(a *v1alpha1.NodeAction, now time.Time) bool {
	if a.Status.Claim == nil {
		return a.Finished() == nil && Claimable(a).After(now)
	}
	return RunsUntil(a).After(now)
}
