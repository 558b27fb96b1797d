package unit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// ending is all that is known of a restart when it is over, or given up.
type ending struct {
	unit string
	// before is the invocation ID before, empty if the unit was never started, and
	// mainPID the main process. restarts is how often systemd had restarted the unit by itself.
	before   string
	mainPID  int64
	restarts uint32
	// accepted is whether systemd has said that it restarts the unit. Without it,
	// only a changed invocation ID proves that it was asked.
	accepted bool
	// prior is the state right before that, and held is whether systemd had to remember
	// the unit ever since.
	prior state
	held  bool
	// job is the result of systemd's job, empty if it is not known.
	job string
	// overdue: the timeout passed before the restart was over. wedged: the unit was still
	// stopping then. killed and cancelled say what was done about its processes and about
	// systemd's job; they are empty if nothing was done.
	timeout   time.Duration
	overdue   bool
	wedged    bool
	killed    string
	cancelled string
	// seen: systemd has answered at the end. Only then are there states. first is the state
	// when nothing was under way any more. If the unit was active then, last is its state a
	// settling time later.
	seen        bool
	first, last state
	// took is the time until first.
	took time.Duration
}

func (e ending) restarted() bool { return e.last.invocation != "" && e.last.invocation != e.before }

// looped reports whether systemd has restarted the unit by itself since, so that a changed
// invocation proves nothing. A restart that somebody asks for makes it count anew.
func (e ending) looped() bool { return e.last.restarts > e.restarts }

// active reports whether the unit is active again and stays so.
func (e ending) active() bool {
	return e.seen && e.restarted() && e.first.isUp() && e.last.isUp() && e.first.invocation == e.last.invocation
}

// done reports whether the unit is one that has run to its end. systemd may have
// forgotten its invocation by then.
func (e ending) done() bool {
	forgotten := e.accepted && e.last.invocation == "" && (e.job == "" || e.job == jobDone)
	return e.seen && e.last.isDone() && (e.restarted() || forgotten)
}

// unbegun reports whether systemd's job was certainly cancelled before it began: since
// the restart was asked for the unit has not changed its state, which systemd knows
// unless it has forgotten the unit.
func (e ending) unbegun() bool {
	return e.job == jobCancelled && e.last.changed == e.prior.changed && (e.held || e.last.changed != 0)
}

// judge returns the reason and the message of the outcome.
func (e ending) judge() (reason, message string) {
	switch {
	case !e.accepted && e.looped():
		return v1alpha1.ReasonInterrupted, e.unproved()
	case (e.active() || e.done()) && (!e.overdue || e.wedged):
		return v1alpha1.ReasonSucceeded, e.success()
	case !e.accepted && !e.restarted():
		return v1alpha1.ReasonInterrupted, e.unproved()
	case e.overdue || !e.seen:
		return v1alpha1.ReasonTimedOut, e.late()
	case e.unbegun():
		return v1alpha1.ReasonStartFailed, e.withdrawn()
	default:
		return v1alpha1.ReasonFailed, e.failure()
	}
}

func (e ending) success() string {
	text := &strings.Builder{}
	if e.done() {
		fmt.Fprintf(text, "%s has run to its end", e.unit)
	} else {
		fmt.Fprintf(text, "%s is %s again", e.unit, e.last)
	}
	switch {
	case e.mainPID != 0 && e.last.mainPID != 0:
		fmt.Fprintf(text, ": main process %d -> %d", e.mainPID, e.last.mainPID)
	case e.last.mainPID != 0:
		fmt.Fprintf(text, ": main process %d", e.last.mainPID)
	}
	if e.accepted {
		fmt.Fprintf(text, ", after %s", e.took.Round(100*time.Millisecond))
	} else {
		text.WriteString(", proved by a changed invocation ID")
	}
	if e.killed != "" {
		fmt.Fprintf(text, "; it did not stop within %s, and %s", e.timeout, e.killed)
	}
	return text.String()
}

func (e ending) unproved() string {
	const unsure = "the restart of %s may or may not have been asked for: "
	if !e.seen {
		return fmt.Sprintf(unsure+"systemd did not answer within %s; see systemctl status %[1]s", e.unit, e.timeout)
	}
	done := e.escalation()
	if done != "" {
		done = "; " + done
	}
	if e.looped() {
		return fmt.Sprintf(unsure+"it is %s, and systemd has restarted it by itself since%s; see systemctl status %[1]s", e.unit, e.last, done)
	}
	return fmt.Sprintf(unsure+"it is %s and has not been started since%s; see systemctl status %[1]s", e.unit, e.last, done)
}

func (e ending) late() string {
	if !e.seen {
		return fmt.Sprintf("systemd began to restart %s and did not answer any more within %s; see systemctl list-jobs", e.unit, e.timeout)
	}
	doing := "it is"
	if done := e.escalation(); done != "" {
		doing = done + "; then it was"
	}
	return fmt.Sprintf("the restart of %s was not over within %s: %s %s%s", e.unit, e.timeout, doing, e.last, e.because())
}

// escalation says what was done at the timeout, empty if nothing was.
func (e ending) escalation() string {
	texts := slices.DeleteFunc([]string{e.killed, e.cancelled}, func(text string) bool { return text == "" })
	return strings.Join(texts, ", and ")
}

func (e ending) withdrawn() string {
	return fmt.Sprintf("systemd's job to restart %s was cancelled before it began, as by systemctl cancel; nothing was executed: it is %s as before; see systemctl status %[1]s", e.unit, e.last)
}

func (e ending) failure() string {
	switch {
	case e.first.isUp() && e.restarted():
		return fmt.Sprintf("%s was restarted and did not stay active: it is %s%s", e.unit, e.last, e.because())
	case e.last.isUp() && !e.restarted():
		return fmt.Sprintf("%s is %s but was not restarted: %s; see systemctl status %[1]s", e.unit, e.last, e.jobResult())
	}
	return fmt.Sprintf("%s is %s after its restart: %s%s", e.unit, e.last, e.jobResult(), e.because())
}

// because returns how the unit has ended and where to look, to be appended.
func (e ending) because() string {
	text := e.last.failure()
	if text != "" {
		text = ": " + text
	}
	return fmt.Sprintf("%s; see systemctl status %s", text, e.unit)
}

// Results of systemd's jobs.
const (
	jobDone      = "done"
	jobCancelled = "canceled"
)

// jobResult says what became of systemd's job.
func (e ending) jobResult() string {
	switch e.job {
	case "":
		return "what became of systemd's job is not known"
	case jobDone:
		return "systemd's job is done, so it has ended at once or a condition in its unit file is not met"
	case "failed":
		return "it did not start"
	case jobCancelled:
		return "systemd's job was cancelled, as by systemctl cancel or by a stop of the unit"
	case "timeout":
		return "systemd's job took longer than the unit's JobTimeoutSec"
	case "dependency":
		return "a unit that it requires did not start (see systemctl list-dependencies)"
	case "skipped":
		return "systemd skipped the job, since it does not apply to the unit's state"
	case "assert":
		return "an assertion in its unit file (Assert…=) is not met"
	default:
		return fmt.Sprintf("systemd's job ended as %q", e.job)
	}
}
