// Package bmctest runs ipmitool against the BMC of package bmc.
package bmctest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nodemend/nodemend/test/bmc"
)

// Program returns the path of an ipmitool that takes b for the BMC of this machine: it wants
// "-I open" first. It skips the test if ipmitool is not installed.
func Program(t testing.TB, b *bmc.BMC) string {
	t.Helper()
	program, socket := serve(t, b)
	path := filepath.Join(t.TempDir(), "ipmitool")
	script := fmt.Sprintf("#!/bin/sh\nshift 2\nIPMI_DUMMY_SOCK='%s' exec '%s' -I dummy \"$@\"\n", socket, program)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve serves b on a socket, for that program.
func serve(t testing.TB, b *bmc.BMC) (program, socket string) {
	t.Helper()
	program, err := exec.LookPath("ipmitool")
	if err != nil {
		t.Skip("needs ipmitool: apt-get install ipmitool")
	}
	socket = filepath.Join(t.TempDir(), "ipmi")
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
	return program, socket
}

// IPMItool returns a function that runs ipmitool, with its arguments, against b and
// returns what it writes to stdout. It skips the test if ipmitool is not installed.
func IPMItool(t testing.TB, b *bmc.BMC) func(args ...string) string {
	t.Helper()
	program, socket := serve(t, b)
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
