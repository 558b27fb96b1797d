// Package bmctest runs ipmitool against the BMC of package bmc.
package bmctest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nodemend/nodemend/test/bmc"
)

// IPMItool returns a function that runs ipmitool, with its arguments, against b and
// returns what it writes to stdout. It skips the test if ipmitool is not installed.
func IPMItool(t testing.TB, b *bmc.BMC) func(args ...string) string {
	t.Helper()
	program, err := exec.LookPath("ipmitool")
	if err != nil {
		t.Skip("ipmitool is not installed")
	}
	socket := filepath.Join(t.TempDir(), "ipmi")
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- b.ServeIPMItool(listener) }()
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Errorf("closing the socket: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serving ipmitool: %v", err)
		}
	})
	return func(args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), program, append([]string{"-I", "dummy"}, args...)...)
		command.Env = append(os.Environ(), "IPMI_DUMMY_SOCK="+socket, "TZ=UTC")
		output, err := command.Output()
		if err != nil {
			t.Fatalf("ipmitool %q: %v", args, err)
		}
		return string(output)
	}
}
