package command

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/nodemend/nodemend/runner/remedy"
)

// execStartEx is one command line of ExecStartEx (org.freedesktop.systemd1(5)).
type execStartEx struct {
	Path  string
	Argv  []string
	Flags []string
}

// condition is one entry of Conditions.
type condition struct {
	Name            string
	Trigger, Negate bool
	Parameter       string
}

// exitStatuses is the type of SuccessExitStatus.
type exitStatuses struct{ Codes, Signals []int32 }

func upTo(last int32) []int32 {
	numbers := make([]int32, last)
	for i := range numbers {
		numbers[i] = int32(i) + 1
	}
	return numbers
}

// properties describes an order's transient unit. permit is the path on the host of
// the file without which systemd must not start it, or empty.
//
// No exit status makes the unit a failed one: it stays active until it is stopped,
// and keeps the pipe open for a runner that comes later. (With the flag
// ignore-failure, a program that is not there would have exit status 0.) systemd expands
// neither $ nor % in what arrives this way, except for $ in ExecStart, which is why
// it is ExecStartEx.
func properties(order remedy.Order, timeout time.Duration, inherited []string, write *os.File, permit string) []dbus.Property {
	var list []dbus.Property
	set := func(name string, value any) {
		list = append(list, dbus.Property{Name: name, Value: godbus.MakeVariant(value)})
	}
	words := argv(order)

	set("Description", description(order))
	set("Type", "exec")
	set("ExecStartEx", []execStartEx{{words[0], words, []string{"no-env-expand"}}})
	set("Environment", append([]string{}, order.Env...))
	set("UnsetEnvironment", unwanted(order.Env, inherited))
	set("WorkingDirectory", "/")
	set("IgnoreSIGPIPE", false)
	set("StandardInput", "null")
	set("StandardOutputFileDescriptor", godbus.UnixFD(write.Fd()))
	set("StandardErrorFileDescriptor", godbus.UnixFD(write.Fd()))

	// How it ends.
	set("RemainAfterExit", true)
	set("SuccessExitStatus", exitStatuses{Codes: upTo(255), Signals: upTo(64)})
	set("CollectMode", "inactive")
	set("OOMPolicy", "continue") // what the kernel kills is the command's to cope with
	set("TimeoutStartUSec", uint64(timeout.Microseconds()))
	set("RuntimeMaxUSec", uint64(timeout.Microseconds()))
	set("TimeoutStopUSec", uint64(stopGrace.Microseconds()))
	set("KillMode", "control-group")
	set("KillSignal", int32(syscall.SIGTERM))
	set("SendSIGKILL", true)

	set("TasksMax", uint64(maxTasks))

	// It waits for nothing that may be what is broken, and ends when the node does.
	set("DefaultDependencies", false)
	set("Conflicts", []string{"shutdown.target"})
	set("Before", []string{"shutdown.target"})
	if permit != "" {
		set("Conditions", []condition{{Name: "ConditionPathExists", Parameter: permit}})
	}
	return list
}

// unwanted names the variables that systemd would add to the environment: its own
// (systemd.exec(5)) and those that are configured for all services.
func unwanted(env, inherited []string) []string {
	names := []string{
		"HOME", "INVOCATION_ID", "JOURNAL_STREAM", "LANG", "LOGNAME", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE",
		"PATH", "SHELL", "SYSTEMD_EXEC_PID", "USER",
	}
	for _, entry := range inherited {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
	})
	slices.Sort(names)
	return slices.Compact(names)
}
