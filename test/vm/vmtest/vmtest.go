// Package vmtest starts virtual machines for tests, and keeps the logs of those that
// fail:
//
//	func TestSomething(t *testing.T) {
//		machine := vmtest.Start(t, vm.Options{BMC: ipmisim.Start(t)})
//		…
//	}
package vmtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodemend/nodemend/test/process"
	"github.com/nodemend/nodemend/test/vm"
)

// BootTime is how long a machine may take to boot where others are busy; 10 s are usual.
const BootTime = 5 * time.Minute

// shown is how much of the console a failed test shows.
const shown = 4 << 10

// Start starts a machine that ends with the test. The test is skipped where none can be
// started. Logs are in options.Dir, or in a directory of the machine's own, which is
// removed if the test has passed.
func Start(t testing.TB, options vm.Options) *vm.Machine {
	t.Helper()
	if options.Dir == "" {
		var err error
		if options.Dir, err = os.MkdirTemp("", "nodemend-vm-"); err != nil { //nolint:usetesting // it is kept if the test fails
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if !t.Failed() {
				_ = os.RemoveAll(options.Dir) // it is in /tmp
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), BootTime)
	defer cancel()
	begin := time.Now()
	machine, err := vm.Start(ctx, options)
	if errors.Is(err, vm.ErrUnavailable) {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if machine != nil {
			if err := machine.Stop(); err != nil {
				t.Errorf("stopping the machine: %v", err)
			}
		}
		if t.Failed() {
			keepLogs(t, options)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the machine has booted in %s", time.Since(begin).Round(time.Millisecond))
	return machine
}

func keepLogs(t testing.TB, options vm.Options) {
	if options.BMC != nil {
		if err := os.WriteFile(filepath.Join(options.Dir, "bmc.log"), []byte(options.BMC.Log()), 0o644); err != nil {
			t.Errorf("keeping the log of the BMC: %v", err)
		}
	}
	console, err := process.Tail(filepath.Join(options.Dir, "console.log"), shown)
	if err != nil {
		console = err.Error()
	}
	t.Logf("the logs of the machine are in %s; the end of its console:\n%s", options.Dir, console)
}
