package faultydisk

import (
	"os"
	"os/exec"
	"testing"
)

// inside tells a test that it is in namespaces of its own.
const inside = "FAULTYDISK_INSIDE"

// Alone runs the calling test once more in a process with namespaces of its own, of
// mounts and of processes: nobody else sees what it mounts, and it is process 1's child
// there. It returns true in that process; the caller has to return if it is false.
func Alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, for disks and mounts")
	}
	if err := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "true").Run(); err != nil {
		t.Skipf("namespaces can't be made here: unshare (of util-linux): %v", err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", //nolint:gosec // the program is this one
		"sh", "-c", `"$0" "$@"; exit $?`, program, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), inside+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("in namespaces of its own:\n%s", out)
	if err != nil {
		t.Error(err)
	}
	return false
}
