package command

import (
	"syscall"
	"time"
)

// state is what systemd says about a transient unit.
type state struct {
	active, sub, result string
	waiting             bool // a job for it has not been done yet
	// code and status are those of waitid(2) for the main process.
	code, status int32
	started      time.Time
	// Times of the monotonic clock; 0: not yet.
	startedAt, exitedAt, activeAt time.Duration
	// handoffAt is when the command was executed. systemd tells it since version 256.
	handoffAt    time.Duration
	tellsHandoff bool
	group        string
}

// Values of state.code: the main process exited. All others are signals.
const codeExited = 1

// Exit statuses of systemd's own child when it fails to execute a command
// (systemd.exec(5)): the lowest, and that for a refusal by the kernel.
const (
	firstSetupStatus = 200
	statusExec       = 203
)

// stateOf reads properties of org.freedesktop.systemd1.Unit and .Service.
func stateOf(properties map[string]any) state {
	micros := func(name string) time.Duration {
		return time.Duration(get[uint64](properties, name)) * time.Microsecond
	}
	s := state{
		active:    get[string](properties, "ActiveState"),
		sub:       get[string](properties, "SubState"),
		result:    get[string](properties, "Result"),
		code:      get[int32](properties, "ExecMainCode"),
		status:    get[int32](properties, "ExecMainStatus"),
		started:   time.UnixMicro(int64(get[uint64](properties, "ExecMainStartTimestamp"))),
		startedAt: micros("ExecMainStartTimestampMonotonic"),
		exitedAt:  micros("ExecMainExitTimestampMonotonic"),
		activeAt:  micros("ActiveEnterTimestampMonotonic"),
		handoffAt: micros("ExecMainHandoffTimestampMonotonic"),
		group:     get[string](properties, "ControlGroup"),
	}
	_, s.tellsHandoff = properties["ExecMainHandoffTimestampMonotonic"]
	if job := get[[]any](properties, "Job"); len(job) > 0 {
		id, _ := job[0].(uint32)
		s.waiting = id != 0
	}
	return s
}

func get[T any](properties map[string]any, name string) T {
	value, _ := properties[name].(T)
	return value
}

// absent: systemd has no such unit, or one that was not started and will not be. (One
// that runs stays, whatever systemd thinks of its file after a reload.)
func (s state) absent() bool {
	return s.active == "inactive" && !s.waiting && s.exitedAt == 0
}

// ended: nothing will change any more, except that what the main process has left
// behind may still run.
func (s state) ended() bool {
	switch s.active {
	case "active":
		return s.sub == "exited"
	case "failed":
		return true
	case "inactive":
		return !s.waiting && s.exitedAt != 0
	default:
		return false
	}
}

// executed tells whether the command itself has run. sure is false where systemd does
// not tell its own failure to execute it from an exit status of the command.
func (s state) executed() (yes, sure bool) {
	switch {
	case s.startedAt == 0:
		return false, true
	case s.exitedAt == 0 || s.code != codeExited || s.status < firstSetupStatus:
		return true, true
	case s.tellsHandoff:
		return s.handoffAt != 0, true
	default:
		// A unit becomes active when its command is executed, but systemd may see
		// its end first.
		return true, s.activeAt != 0 && s.activeAt < s.exitedAt
	}
}

// ending is how a command that was executed and has ended did so.
func (s state) ending(now time.Time) ending {
	e := ending{started: s.started, took: s.exitedAt - s.startedAt}
	if s.result == "timeout" {
		e.cause = timedOut
	}
	switch {
	case s.exitedAt == 0:
		e.cause, e.stuck, e.took = timedOut, true, now.Sub(s.started)
	case s.code == codeExited:
		e.status = int(s.status)
	default:
		e.signal = syscall.Signal(s.status)
	}
	return e
}
