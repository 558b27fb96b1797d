// Package systemdtest lets the tests of a package share one booted systemd:
//
//	func TestMain(m *testing.M) {
//		os.Exit(systemdtest.Run(m))
//	}
//
//	func TestSomething(t *testing.T) {
//		host := systemdtest.Shared(t)
//		…
//	}
package systemdtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nodemend/nodemend/test/systemd"
)

// bootTime is how long a boot may take on a busy machine; 2 s are usual.
const bootTime = 2 * time.Minute

// shared is the systemd of this test binary. It is a package variable since TestMain
// can hand nothing to tests.
var shared struct {
	sync.Mutex
	running bool // inside Run
	host    *systemd.Host
	err     error
}

// Beside lets eight tests of the package run beside each other, unless the command line
// says how many: for tests that mostly wait. TestMain calls it first.
func Beside() {
	_ = flag.Set("test.parallel", "8") // testing has made that flag
}

// Run runs the tests and returns their exit status for os.Exit. The systemd is booted
// by the first test that asks for it, so that a run without such a test costs nothing,
// and stopped after the last.
func Run(m interface{ Run() int }) int {
	if socket := os.Getenv(relayEnv); socket != "" {
		fmt.Fprintln(os.Stderr, runRelay(socket))
		return 1
	}
	shared.Lock()
	shared.running = true
	shared.Unlock()

	status := m.Run()

	shared.Lock()
	defer shared.Unlock()
	shared.running = false
	if shared.host == nil {
		return status
	}
	if err := shared.host.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the shared systemd:", err)
		return max(status, 1)
	}
	return status
}

// Own boots a systemd for one test, and stops it when that ends. The test is skipped where
// none can be booted.
func Own(t testing.TB) *systemd.Host {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bootTime)
	defer cancel()
	host, err := systemd.Boot(ctx)
	if errors.Is(err, systemd.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal("booting a systemd: ", err)
	}
	t.Cleanup(func() {
		if err := host.Stop(); err != nil {
			t.Error("stopping a systemd: ", err)
		}
	})
	return host
}

// Shared returns the systemd that the tests of this package share. The test is skipped
// where none can be booted, and fails at once if the boot fails or if TestMain does not
// call Run. Units that a test makes are there for the tests after it, so give them
// names of their own.
func Shared(t testing.TB) *systemd.Host {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.running {
		t.Fatal("systemdtest.Shared needs a TestMain that calls systemdtest.Run")
	}
	if shared.host == nil && shared.err == nil {
		// It outlives this test, whose context must not end its boot.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), bootTime)
		defer cancel()
		shared.host, shared.err = systemd.Boot(ctx)
	}
	if errors.Is(shared.err, systemd.ErrUnavailable) {
		t.Skip(shared.err)
	}
	if shared.err != nil {
		t.Fatal("booting the shared systemd: ", shared.err)
	}
	return shared.host
}
