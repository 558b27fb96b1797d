package systemd

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Freeze stops the systemd and its message bus: connections are accepted, nothing is
// answered. The processes of other units go on. It lasts until the returned function
// is called, or the test ends.
func (h *Host) Freeze(t testing.TB) (thaw func()) {
	t.Helper()
	pids, err := h.busProcesses()
	if err != nil {
		t.Fatal("freezing systemd: ", err)
	}
	pids = append(pids, h.PID())
	thaw = sync.OnceFunc(func() {
		if err := signalAll(pids, syscall.SIGCONT); err != nil {
			t.Error("thawing systemd: ", err)
		}
	})
	t.Cleanup(thaw)
	if err := signalAll(pids, syscall.SIGSTOP); err != nil {
		t.Fatal("freezing systemd: ", err)
	}
	return thaw
}

func signalAll(pids []int, signal syscall.Signal) error {
	var errs []error
	for _, pid := range pids {
		errs = append(errs, syscall.Kill(pid, signal))
	}
	return errors.Join(errs...)
}

// busProcesses returns those of the message bus, as seen from outside.
func (h *Host) busProcesses() ([]int, error) {
	list, err := os.ReadFile(filepath.Join(h.cgroup, "system.slice", "dbus.service", "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(string(list)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
