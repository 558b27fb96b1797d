package kubelet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	systemdbus "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	client "github.com/nodemend/nodemend/internal/systemd"
)

// bus starts a D-Bus of its own, in place of the system's.
func bus(t *testing.T) systemd {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("no dbus-daemon on this machine: ", err)
	}
	socket := filepath.Join(t.TempDir(), "bus.sock")
	config := filepath.Join(t.TempDir(), "bus.conf")
	err = os.WriteFile(config, fmt.Appendf(nil, `<busconfig><type>session</type><listen>unix:path=%s</listen>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`, socket), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	daemon := exec.CommandContext(t.Context(), program, "--config-file="+config, "--nofork", "--print-address")
	output, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil { // its address: it listens
		t.Fatal("dbus-daemon has not started: ", err)
	}
	return systemd{client.Dialer{Bus: socket}}
}

// manager is systemd on a bus.
type manager struct {
	units map[string]systemdbus.UnitStatus
}

// ListUnitsByNames is that of org.freedesktop.systemd1.Manager.
func (m manager) ListUnitsByNames(names []string) (statuses []systemdbus.UnitStatus, _ *dbus.Error) {
	for _, name := range names {
		status, ok := m.units[name]
		if !ok {
			status = systemdbus.UnitStatus{LoadState: "not-found", ActiveState: "inactive", SubState: "dead"}
		}
		status.Name, status.Path, status.JobPath = name, "/unit", "/job"
		statuses = append(statuses, status)
	}
	return statuses, nil
}

// export puts a systemd with two units of k3s on the bus.
func export(t *testing.T, s systemd) {
	t.Helper()
	connection, err := dbus.Connect("unix:path="+s.dialer.Bus, dbus.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	exported := manager{units: map[string]systemdbus.UnitStatus{
		"kubelet.service":   {LoadState: "masked", ActiveState: "inactive", SubState: "dead"},
		"k3s.service":       {LoadState: "loaded", ActiveState: "activating", SubState: "auto-restart"},
		"k3s-agent.service": {LoadState: "loaded", ActiveState: "inactive", SubState: "dead"},
	}}
	if err := connection.Export(exported, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"); err != nil {
		t.Fatal(err)
	}
	_, err = prop.Export(connection, dbus.ObjectPath("/org/freedesktop/systemd1/unit/"+systemdbus.PathBusEscape("k3s.service")), prop.Map{
		"org.freedesktop.systemd1.Service": {"NRestarts": {Value: uint32(3)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = prop.Export(connection, dbus.ObjectPath("/org/freedesktop/systemd1/unit/"+systemdbus.PathBusEscape("-.slice")), prop.Map{
		"org.freedesktop.systemd1.Unit": {"ActiveState": {Value: "active"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connection.RequestName("org.freedesktop.systemd1", dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
}

func TestTheFirstUnitThatIsLoadedIsRead(t *testing.T) {
	s := bus(t)
	export(t, s)
	got, err := s.first(t.Context(), kubeletUnits())
	if err != nil {
		t.Fatal(err)
	}
	if want := (unit{name: "k3s.service", activeState: "activating", subState: "auto-restart", restarts: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAUnitThatIsNotLoadedIsNamed(t *testing.T) {
	s := bus(t)
	export(t, s)
	if _, err := s.first(t.Context(), []string{"my-kubelet.service"}); err == nil || !strings.Contains(err.Error(), "my-kubelet.service") {
		t.Errorf("got %v", err)
	}
}

func TestABusWithoutSystemdIsAnError(t *testing.T) {
	if _, err := bus(t).first(t.Context(), kubeletUnits()); err == nil || !strings.Contains(err.Error(), "connecting to systemd") {
		t.Errorf("got %v", err)
	}
}

func TestConnectionsToTheBusDoNotOutliveTheCall(t *testing.T) {
	s := bus(t)
	export(t, s)
	call := func() {
		if _, err := s.first(t.Context(), kubeletUnits()); err != nil {
			t.Fatal(err)
		}
	}
	call()
	before := runtime.NumGoroutine()
	for range 10 {
		call()
	}
	for deadline := time.Now().Add(5 * time.Minute); runtime.NumGoroutine() > before; {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines before 10 calls, %d after", before, runtime.NumGoroutine())
		}
		runtime.Gosched()
	}
}

func TestABusThatHangsEndsWithTheDeadline(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "bus.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), hasty/5)
	defer cancel()
	if _, err := (systemd{client.Dialer{Bus: socket}}).first(ctx, kubeletUnits()); err == nil {
		t.Error("got a unit")
	}
}

func TestTheSystemOfThisMachine(t *testing.T) {
	if _, err := os.Stat("/run/systemd/private"); errors.Is(err, os.ErrNotExist) {
		t.Skip("systemd does not run on this machine: there is no /run/systemd/private")
	}
	got, err := systemd{client.Dialer{Bus: client.DefaultBus, Private: client.DefaultPrivate}}.first(t.Context(), []string{"systemd-journald.service"})
	if err != nil {
		t.Fatal(err)
	}
	if got.name != "systemd-journald.service" || got.activeState == "" || got.subState == "" {
		t.Errorf("got %+v", got)
	}
}
