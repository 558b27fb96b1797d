package unit

import (
	"encoding/hex"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// state is what systemd says of a unit at one moment.
type state struct {
	names []string // the primary one first
	// dependents are the units that systemd stops or restarts with it, not those of these.
	dependents []string
	ends       string // why a restart would end the system, "" if it would not
	load       string // loaded, not-found, masked, bad-setting, error
	loadError  string
	active     string // active, reloading, inactive, failed, activating, deactivating …
	sub        string
	// changed is when systemd has last seen the unit begin or end being active or inactive,
	// by the monotonic clock in µs; 0: not since it was loaded. A reload of systemd's
	// configuration is no change, which StateChangeTimestamp takes it for.
	changed uint64
	// job is 0 if none is queued for the unit.
	job uint32
	// invocation is of the last start; systemd forgets that of an inactive unit.
	invocation string
	result     string
	// conditionFailed is whether it was not started for an unmet condition. systemd
	// forgets that as well.
	conditionFailed bool

	// Of services only.
	kind            string // simple, notify, oneshot …
	remainAfterExit bool
	mainPID         int64
	restarts        uint32 // by systemd itself, since somebody has started it
	exitCode        int32  // CLD_EXITED …; 0: no main process has ended
	exitStatus      int32  // exit status or signal
}

// parse reads the properties of a unit, as systemd gives them on D-Bus. Those that
// a unit of its type does not have stay zero.
func parse(properties map[string]any) state {
	s := state{
		load:   get[string](properties, "LoadState"),
		active: get[string](properties, "ActiveState"),
		sub:    get[string](properties, "SubState"),
		changed: max(
			get[uint64](properties, "InactiveExitTimestampMonotonic"), get[uint64](properties, "ActiveEnterTimestampMonotonic"),
			get[uint64](properties, "ActiveExitTimestampMonotonic"), get[uint64](properties, "InactiveEnterTimestampMonotonic"),
		),
		invocation:      hex.EncodeToString(get[[]byte](properties, "InvocationID")),
		result:          get[string](properties, "Result"),
		conditionFailed: get[uint64](properties, "ConditionTimestamp") != 0 && !get[bool](properties, "ConditionResult"),
		kind:            get[string](properties, "Type"),
		remainAfterExit: get[bool](properties, "RemainAfterExit"),
		mainPID:         int64(get[uint32](properties, "MainPID")),
		restarts:        get[uint32](properties, "NRestarts"),
		exitCode:        get[int32](properties, "ExecMainCode"),
		exitStatus:      get[int32](properties, "ExecMainStatus"),
	}
	if id := get[string](properties, "Id"); id != "" {
		others := slices.DeleteFunc(slices.Clone(get[[]string](properties, "Names")), func(name string) bool { return name == id })
		s.names = append([]string{id}, others...)
	}
	s.ends = endsSystem(s.names, properties)
	for _, name := range []string{"RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo"} {
		s.dependents = append(s.dependents, get[[]string](properties, name)...)
	}
	slices.Sort(s.dependents)
	s.dependents = slices.Compact(s.dependents)
	if job := get[[]any](properties, "Job"); len(job) > 0 {
		s.job, _ = job[0].(uint32)
	}
	if failure := get[[]any](properties, "LoadError"); len(failure) > 1 {
		s.loadError, _ = failure[1].(string)
	}
	return s
}

func get[T any](properties map[string]any, name string) T {
	value, _ := properties[name].(T)
	return value
}

// String is the state as `systemctl status` shows it.
func (s state) String() string { return fmt.Sprintf("%s (%s)", s.active, s.sub) }

func (s state) isUp() bool {
	return s.active == "active" || s.active == "reloading" || s.active == "refreshing"
}

// isDone reports whether the unit is a oneshot service that has run to its end.
func (s state) isDone() bool {
	return s.kind == "oneshot" && !s.remainAfterExit && s.active == "inactive" && s.result == "success" && !s.conditionFailed
}

// isMoving reports whether processes are on the way to a stop or a start.
func (s state) isMoving() bool { return s.active == "activating" || s.active == "deactivating" }

// failure describes how the unit has ended, empty if there is nothing to say.
func (s state) failure() string {
	if s.conditionFailed {
		return "a condition in its unit file is not met, so systemd does not start it"
	}
	if s.result == "" || s.result == "success" && s.exitCode == 0 {
		return ""
	}
	text := "result " + s.result
	switch s.exitCode {
	case 0: // the main process did not even start
	case exited:
		text += fmt.Sprintf(", main process exited with status %s", exitStatus(s.exitStatus))
	default:
		text += fmt.Sprintf(", main process killed by signal %s", signalName(s.exitStatus))
	}
	return text
}

// exited is the kernel's CLD_EXITED, the code of a process that was not killed.
const exited = 1

// exitStatus returns an exit status, with its name if it is one by which systemd
// says why it could not execute a program (systemd.exec(5)).
func exitStatus(status int32) string {
	names := map[int32]string{
		200: "CHDIR", 203: "EXEC", 208: "STDIN", 209: "STDOUT", 216: "GROUP", 217: "USER", 218: "CAPABILITIES",
		219: "CGROUP", 226: "NAMESPACE", 228: "SECCOMP", 233: "RUNTIME_DIRECTORY", 238: "STATE_DIRECTORY",
		239: "CACHE_DIRECTORY", 240: "LOGS_DIRECTORY", 241: "CONFIGURATION_DIRECTORY",
	}
	if name, ok := names[status]; ok {
		return fmt.Sprintf("%d/%s", status, name)
	}
	return fmt.Sprint(status)
}

func signalName(number int32) string {
	if name := unix.SignalName(unix.Signal(number)); name != "" {
		return name
	}
	return fmt.Sprint(number)
}
