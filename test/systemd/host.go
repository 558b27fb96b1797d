package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	client "github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/test/leftovers"
	"github.com/nodemend/nodemend/test/process"
)

// ErrUnavailable is wrapped by Boot's error where no systemd can be booted at all,
// for lack of rights or programs. The text says what is missing.
var ErrUnavailable = errors.New("no systemd can be booted here")

const (
	pollInterval = 20 * time.Millisecond
	// tailBytes is how much of the log a failed boot shows.
	tailBytes = 4 << 10
	// killedWait is how long a program that was killed may keep its output open.
	killedWait = time.Second
)

// target is all that is started.
const target = `[Unit]
Requires=basic.target dbus.socket dbus.service
After=basic.target dbus.socket dbus.service
AllowIsolate=yes
`

// Host is a systemd that runs as PID 1 of namespaces of its own. It may be used by
// several goroutines.
type Host struct {
	dir    string
	cgroup string
	node   *process.Process
}

// Boot boots a systemd and waits until it has come up, with its message bus, or ctx
// ends. Where that can't work the error wraps ErrUnavailable. Stop it.
func Boot(ctx context.Context) (*Host, error) {
	if err := obstacle(); err != nil {
		return nil, err
	}
	h := &Host{}
	if err := h.boot(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("booting a systemd: %w", err), h.Stop())
	}
	return h, nil
}

func (h *Host) boot(ctx context.Context) error {
	cgroups, err := cgroupMount()
	if err != nil {
		return err
	}
	removeLeftovers(cgroups, leftovers.RemoveCgroup)
	removeLeftovers(os.TempDir(), os.RemoveAll)
	if h.cgroup, err = os.MkdirTemp(cgroups, dirPattern()); err != nil {
		return fmt.Errorf("%w: no control group can be made: %w", ErrUnavailable, err)
	}
	if h.dir, err = os.MkdirTemp("", dirPattern()); err != nil {
		return err
	}
	if err := errors.Join(
		os.MkdirAll(h.unitDir(), 0o755),
		os.Mkdir(filepath.Join(h.dir, "root"), 0o755),
		os.WriteFile(filepath.Join(h.unitDir(), "node.target"), []byte(target), 0o644),
	); err != nil {
		return err
	}
	cgroup, err := os.Open(h.cgroup)
	if err != nil {
		return err
	}
	defer func() { _ = cgroup.Close() }() // the process has it
	log, err := os.Create(h.log())
	if err != nil {
		return err
	}
	if h.node, err = startNode(h.dir, cgroup, log); err != nil {
		return err
	}
	return h.waitUp(ctx)
}

// waitUp waits until systemd says on the bus that all has been started.
func (h *Host) waitUp(ctx context.Context) error {
	last := errors.New("it was not asked yet")
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if h.node.HasExited() {
			return false, errors.Join(errors.New("it has exited"), h.node.Err)
		}
		last = h.isUp(ctx)
		return last == nil, nil
	})
	if err != nil {
		log, logErr := process.Tail(h.log(), tailBytes)
		return errors.Join(err, last, logErr, errors.New("its log: "+log))
	}
	return nil
}

func (h *Host) isUp(ctx context.Context) error {
	conn, err := client.Dialer{Bus: h.Bus()}.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	state, err := conn.GetUnitPropertyContext(ctx, "node.target", "ActiveState")
	if err == nil && state.Value.Value() != "active" {
		err = fmt.Errorf("node.target is %s", state.Value)
	}
	return err
}

func (h *Host) unitDir() string { return filepath.Join(h.RunDir(), "systemd", "system") }

func (h *Host) log() string { return filepath.Join(h.dir, "log") }

// Bus returns the path of the message bus's socket. It can be used from outside.
func (h *Host) Bus() string { return filepath.Join(h.RunDir(), "dbus", "system_bus_socket") }

// RunDir returns the directory outside that is /run inside.
func (h *Host) RunDir() string { return filepath.Join(h.dir, "run") }

// PID returns the process ID of the systemd as seen from outside. Its namespaces and
// its root directory are below /proc/PID.
func (h *Host) PID() int { return h.node.Pid }

// Cgroup returns the directory outside that is /sys/fs/cgroup inside.
func (h *Host) Cgroup() string { return h.cgroup }

// Run runs a program inside, found in the PATH, and returns what it has printed. It
// belongs to no unit and has no input. When ctx ends the program may live on inside.
func (h *Host) Run(ctx context.Context, argv ...string) ([]byte, error) {
	args := append([]string{
		"--target=" + strconv.Itoa(h.PID()), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--",
	}, argv...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.WaitDelay = killedWait
	output, err := cmd.CombinedOutput()
	if err != nil {
		return output, fmt.Errorf("running %q inside: %w: %s", argv, err, output)
	}
	return output, nil
}

// Unit writes a unit file, which replaces one of that name, and makes systemd read it.
func (h *Host) Unit(ctx context.Context, name, content string) error {
	if err := os.WriteFile(filepath.Join(h.unitDir(), name), []byte(content), 0o644); err != nil {
		return err
	}
	_, err := h.Run(ctx, "systemctl", "daemon-reload")
	return err
}

// Stop kills all that runs inside and removes what there is of it. To call it again
// does nothing.
func (h *Host) Stop() error {
	if h.node != nil {
		h.node.Kill() // and with PID 1 all others
	}
	var errs []error
	if h.cgroup != "" {
		errs = append(errs, leftovers.RemoveCgroup(h.cgroup))
	}
	if h.dir != "" {
		errs = append(errs, os.RemoveAll(h.dir))
	}
	return errors.Join(errs...)
}
