//go:build integration

package runner_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/command"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

// BenchmarkAttacked prints what a runner needs that a local user floods: with 2,000 forged
// signals of 20 KiB each, over the message bus, while it waits for a unit; with 8,000
// connections on which nothing is asked. The program is that of the tests, which is
// larger than a node's: look at the differences.
func BenchmarkAttacked(b *testing.B) {
	for _, attack := range []struct {
		name string
		by   func(ctx context.Context, r crashRunner) error
	}{
		{"nobody", func(context.Context, crashRunner) error { return nil }},
		{"signals", forgeSignals},
		{"connections", connectForNothing},
	} {
		b.Run(attack.name, func(b *testing.B) {
			f := newFixtureOn(b, clustertest.Shared(b), crashPatience)
			r, host := newCrashRunner(f)
			r.Execution, r.Systemd.Private, r.Metrics = command.Auto, "", freeAddress(f)
			unit := "never-ready-" + filepath.Base(r.Dir) + ".service"
			f.must(host.Unit(f.ctx, unit, "[Service]\nType=notify\nTimeoutStartSec=infinity\nExecStart=/bin/sleep 1000\n"))
			f.policy.Spec.Steps[0].Command = nil
			f.policy.Spec.Steps[0].RestartUnit = &v1alpha1.RestartUnitRemedy{Name: unit}
			f.must(f.client.Update(f.ctx, f.policy))
			p := r.start(f)
			f.await(f.newAction(0), func(a *v1alpha1.NodeAction) bool { return a.Status.Claim != nil })
			f.must(wait.PollUntilContextCancel(f.ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
				state, err := host.Run(ctx, "systemctl", "show", "--property=ActiveState", "--value", unit)
				return strings.TrimSpace(string(state)) == "activating", err
			}))
			for b.Loop() {
				f.must(attack.by(f.ctx, r))
			}
			f.usage(b, p.Pid)
		})
	}
}

// usage reports the memory, processor time and file descriptors of a process.
func (f *fixture) usage(b *testing.B, pid int) {
	f.Helper()
	f.reportMemory(b, pid, "VmRSS", "VmHWM")
	_, after, _ := strings.Cut(f.read(fmt.Sprintf("/proc/%d/stat", pid)), ") ")
	ticks := 0.0
	for _, field := range strings.Fields(after)[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.ParseFloat(field, 64)
		f.must(err)
		ticks += n
	}
	b.ReportMetric(ticks/100, "cpu-s")
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	f.must(err)
	b.ReportMetric(float64(len(files)), "files")
}

func freeAddress(f *fixture) string {
	f.Helper()
	listener, err := (&net.ListenConfig{}).Listen(f.ctx, "tcp", "127.0.0.1:0")
	f.must(err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// connectForNothing opens connections, and keeps them until all are open or refused.
func connectForNothing(ctx context.Context, r crashRunner) error {
	var opened []net.Conn
	defer func() {
		for _, conn := range opened {
			_ = conn.Close()
		}
	}()
	for range 8000 {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.Metrics)
		if err != nil {
			return err
		}
		opened = append(opened, conn)
	}
	return nil
}

// forgeSignals sends signals to all clients of the message bus, of whom one is the runner.
func forgeSignals(_ context.Context, r crashRunner) error {
	conn, err := godbus.Connect("unix:path=" + r.Systemd.Bus)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	var names []string
	list := func() error { return conn.BusObject().Call("org.freedesktop.DBus.ListNames", 0).Store(&names) }
	if err := list(); err != nil {
		return err
	}
	victims := slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, ":") || name == conn.Names()[0] })
	var systemd string
	if err := conn.BusObject().Call("org.freedesktop.DBus.GetNameOwner", 0, "org.freedesktop.systemd1").Store(&systemd); err != nil {
		return err
	}
	victims = slices.DeleteFunc(victims, func(name string) bool { return name == systemd })
	body := []any{uint32(1), godbus.ObjectPath("/j"), strings.Repeat("x", 20<<10), "done"}
	for range 2000 {
		for _, victim := range victims {
			message := systemdtest.Signal(victim, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager.JobRemoved", body...)
			if err := conn.Send(message, nil).Err; err != nil {
				return err
			}
		}
	}
	return list() // answered when the bus has taken all
}
