package command

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/runner/remedy"
)

// uptime returns the monotonic clock that systemd uses as well.
func uptime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // fails for unknown clocks only
	return time.Duration(now.Nano())
}

// state is what systemd says about a transient unit.
type state struct {
	active, sub, result string
	load, description   string
	transient           bool
	waiting             bool // a job for it has not been done yet
	// code and status are those of waitid(2) for the main process.
	code, status int32
	started      time.Time
	// Times of the monotonic clock; 0: not yet.
	startedAt, exitedAt, activeAt time.Duration
	// handoffAt is when systemd's child was about to execute the command. systemd tells
	// it since version 256.
	handoffAt    time.Duration
	tellsHandoff bool
	group        string
}

// Values of state.code: the main process exited. All others are signals.
const codeExited = 1

// Exit statuses of systemd's own child when it fails to execute a command
// (systemd.exec(5)): the lowest, that for a refusal by the kernel, and the highest with
// room for new ones.
const (
	firstSetupStatus = 200
	statusExec       = 203
	lastSetupStatus  = 254
)

// stateOf reads properties of org.freedesktop.systemd1.Unit and .Service.
func stateOf(properties map[string]any) state {
	micros := func(name string) time.Duration {
		return time.Duration(get[uint64](properties, name)) * time.Microsecond
	}
	s := state{
		active:      get[string](properties, "ActiveState"),
		sub:         get[string](properties, "SubState"),
		result:      get[string](properties, "Result"),
		load:        get[string](properties, "LoadState"),
		description: get[string](properties, "Description"),
		transient:   get[bool](properties, "Transient"),
		code:        get[int32](properties, "ExecMainCode"),
		status:      get[int32](properties, "ExecMainStatus"),
		started:     time.UnixMicro(int64(get[uint64](properties, "ExecMainStartTimestamp"))),
		startedAt:   micros("ExecMainStartTimestampMonotonic"),
		exitedAt:    micros("ExecMainExitTimestampMonotonic"),
		activeAt:    micros("ActiveEnterTimestampMonotonic"),
		handoffAt:   micros("ExecMainHandoffTimestampMonotonic"),
		group:       get[string](properties, "ControlGroup"),
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
// that runs stays, whatever systemd thinks of its file after a reload. One that was still
// waiting to be started is lost in a reload, without having been executed: systemd, seen with
// version 252, writes ExecStartEx to the unit's file and can't read that.)
func (s state) absent() bool {
	return s.active == "inactive" && !s.waiting && s.exitedAt == 0
}

// strange: there is a unit of this name that is not the order's.
func (s state) strange(order remedy.Order) bool {
	return s.load != "not-found" && (!s.transient || s.description != description(order))
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
//
// A unit becomes active when its command is executed. systemd sees that before it sees
// that the time for it is over, but perhaps after it has seen the command's end.
func (s state) executed() (yes, sure bool) {
	ended := s.exitedAt != 0 && s.code == codeExited
	switch {
	case s.startedAt == 0, s.endlessStart():
		return false, true
	case !ended || s.status < firstSetupStatus || s.status > lastSetupStatus:
		return true, true
	case s.tellsHandoff && s.handoffAt == 0:
		return false, true
	default:
		return true, s.activeAt != 0 && s.activeAt < s.exitedAt
	}
}

// endlessStart: execve(2) did not come to an end before the timeout, after which the
// process was killed.
func (s state) endlessStart() bool {
	return s.result == "timeout" && s.startedAt != 0 && s.activeAt == 0 && (s.exitedAt == 0 || s.code != codeExited)
}

// left returns how much of its timeout a command that was started has at a time of the
// monotonic clock, not less than nothing.
func (s state) left(timeout, uptime time.Duration) time.Duration {
	return min(max(s.startedAt+timeout-uptime, 0), timeout)
}

// ending is how a command that was executed and has ended did so. If systemd has not
// seen its end it is taken as stuck.
func (s state) ending(uptime time.Duration) ending {
	e := ending{started: s.started, took: s.exitedAt - s.startedAt}
	if s.result == "timeout" {
		e.cause = timedOut
	}
	switch {
	case s.exitedAt == 0:
		e.cause, e.stuck, e.took = timedOut, true, uptime-s.startedAt
	case s.code == codeExited:
		e.status = int(s.status)
	default:
		e.signal = syscall.Signal(s.status)
	}
	return e
}
