//go:build integration

package exhaustion_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/exhaustion"
	"github.com/nodemend/nodemend/test/faultydisk"
)

// look is what a check finds that has just started, as after a restart of the detector.
func look(t *testing.T, programs ...string) checks.Result {
	t.Helper()
	got := exhaustion.New(exhaustion.Options{MaxUsed: 90, Programs: programs}).Run(t.Context())
	t.Logf("%s %s: %s", got.Status, got.Reason, got.Message)
	return got
}

// lookTwice is what two checks find.
func lookTwice(t *testing.T, reason, words string, programs ...string) {
	t.Helper()
	for range 2 {
		if got := look(t, programs...); got.Status != checks.True || got.Reason != reason || !strings.Contains(got.Message, words) {
			t.Errorf("got %+v, want %s with %q", got, reason, words)
		}
	}
}

// healthy is what a check finds before and after the fault.
func healthy(t *testing.T, programs ...string) {
	t.Helper()
	if got := look(t, programs...); got.Status != checks.False {
		t.Errorf("got %+v", got)
	}
}

func TestARealProgramThatOpensAllThatItMayIsNamed(t *testing.T) {
	if !faultydisk.Alone(t) { // this machine's own limits count, too, but nobody else's programs
		return
	}
	healthy(t, "exhausting")
	sh, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "exhausting") // the kernel names a process by its file
	if err := os.WriteFile(program, sh, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-c",
		`exec 4</dev/null 5</dev/null 6</dev/null 7</dev/null 8</dev/null 9</dev/null; ulimit -n 10; echo open; read line`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	lookTwice(t, exhaustion.ReasonOpenFiles, fmt.Sprintf("exhausting (process %d): ", cmd.Process.Pid), "exhausting")
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // its line never came
	healthy(t, "exhausting")
}

// Since Linux 6.14 a namespace of processes has a limit of its own.
func TestARealKernelThatRunsOutOfProcessesIsSeen(t *testing.T) {
	if !faultydisk.Alone(t) {
		return
	}
	const least = 301 // that the kernel accepts
	if err := os.WriteFile("/proc/sys/kernel/pid_max", []byte(fmt.Sprint(least)), 0o600); err != nil {
		t.Skip("kernel.pid_max can't be lowered here: ", err)
	}
	if outside, err := os.ReadFile("/proc/loadavg"); err != nil || look(t).Status != checks.False {
		t.Skipf("this machine has too many processes for so low a limit: %s (%v)", outside, err)
	}
	var started []*exec.Cmd
	defer func() {
		for _, cmd := range started {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()
		}
	}()
	begin := func() {
		for range 10 {
			cmd := exec.CommandContext(t.Context(), "sleep", "infinity")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			started = append(started, cmd)
		}
	}
	for look(t).Status == checks.False {
		begin()
	}
	begin() // others may end meanwhile
	lookTwice(t, exhaustion.ReasonProcesses, "of 301 processes and threads (kernel.pid_max)")
	for _, cmd := range started {
		_ = cmd.Process.Kill() // as above
		_ = cmd.Wait()
	}
	healthy(t)
}

// A namespace of users has limits of its own.
func TestAUserWithoutInotifyInstancesIsSeen(t *testing.T) {
	if os.Getenv("EXHAUSTION_USER") == "" {
		cmd := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", //nolint:gosec // the program is this one
			"sh", "-c", `"$0" "$@"; exit $?`, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "EXHAUSTION_USER=1")
		out, err := cmd.CombinedOutput()
		t.Logf("as a user of its own:\n%s", out)
		if err != nil && !strings.Contains(string(out), "=== RUN") {
			t.Skipf("a namespace of users can't be made here: unshare (of util-linux): %v", err)
		}
		if err != nil {
			t.Error(err)
		}
		return
	}
	if err := os.WriteFile("/proc/sys/user/max_inotify_instances", []byte("3"), 0o600); err != nil {
		t.Skip("the limit can't be lowered here: ", err)
	}
	healthy(t)
	var held []int
	for {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if errors.Is(err, unix.EMFILE) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, fd)
	}
	lookTwice(t, exhaustion.ReasonInotify, "inotify instances")
	for _, fd := range held {
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	}
	healthy(t)
}
