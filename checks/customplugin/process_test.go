package customplugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/internal/child"
)

// patient is for plugins that must end by themselves, also on a busy machine.
const patient = 20 * time.Second

// script writes a plugin.
func script(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// executed runs a plugin once and fails the test if a child of it is left.
func executed(t *testing.T, path string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	return executedUntil(ctx, t, path)
}

// executedUntilNoted is executed with a time-out that comes when the plugin has written a
// file, however long that takes.
func executedUntilNoted(t *testing.T, path, file string) result {
	t.Helper()
	ctx, timeOut := context.WithCancel(t.Context())
	defer timeOut()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	go func() {
		for ctx.Err() == nil {
			if info, err := os.Stat(file); err == nil && info.Size() > 0 {
				timeOut()
				return
			}
			select {
			case <-poll.C:
			case <-ctx.Done():
			}
		}
	}()
	return executedUntil(ctx, t, path)
}

// executedAtOnce is executed for a plugin that ends by itself, whatever it has written.
func executedAtOnce(t *testing.T, path, _ string) result {
	t.Helper()
	return executed(t, path)
}

func executedUntil(ctx context.Context, t *testing.T, path string) result {
	t.Helper()
	got := execute(ctx, rule{path: path, timeout: patient}, 80, nil)
	noChildren(t)
	return got
}

func noChildren(t *testing.T) {
	t.Helper()
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("a child process is left: wait4 returned %d, %v", pid, err)
	}
}

func TestTheExitCodeIsTheVerdict(t *testing.T) {
	t.Setenv("NODEMEND_TEST", "inherited")
	for name, tc := range map[string]struct {
		body    string
		status  checks.Status
		reason  string
		message string // PATH stands for the plugin's
	}{
		"0 is healthy":                      {"echo fine", checks.False, "", "fine"},
		"1 is a problem":                    {"echo; echo ' disk is bad '; exit 1", checks.True, "", "disk is bad"},
		"1 without a word":                  {"exit 1", checks.True, "", "PATH reports a problem and says nothing about it"},
		"2 could not tell":                  {"echo no disk; exit 2", checks.Unknown, ReasonPluginFailed, "PATH: exit code 2: no disk"},
		"so could any other":                {"exit 42", checks.Unknown, ReasonPluginFailed, "PATH: exit code 42"},
		"a signal":                          {"echo oops; kill -KILL $$", checks.Unknown, ReasonPluginFailed, "PATH: ended by signal 9 (killed): oops"},
		"standard error is no message":      {"echo noise >&2; exit 1", checks.True, "", "PATH reports a problem and says nothing about it"},
		"standard input is empty":           {"read line || echo nothing; exit 1", checks.True, "", "nothing"},
		"the environment is the detector's": {"echo $NODEMEND_TEST; exit 1", checks.True, "", "inherited"},
		"invalid UTF-8":                     {`printf 'a\377b'; exit 1`, checks.True, "", "a\uFFFDb"},
		"too much output":                   {"head -c 100000000 /dev/zero | tr '\\0' x; exit 1", checks.True, "", strings.Repeat("x", 80)},
		"too much on standard error":        {"head -c 100000000 /dev/zero >&2; exit 1", checks.True, "", "PATH reports a problem and says nothing about it"},
	} {
		t.Run(name, func(t *testing.T) {
			path := script(t, "plugin", tc.body)
			got := executed(t, path)
			if want := strings.ReplaceAll(tc.message, "PATH", path); got.status != tc.status || got.reason != tc.reason || got.message != want {
				t.Errorf("got %s %q %q, want %s %q %q", got.status, got.reason, got.message, tc.status, tc.reason, want)
			}
			if len(got.stderr) > maxCaptured {
				t.Errorf("%d bytes of standard error are kept", len(got.stderr))
			}
		})
	}
}

func TestAPluginThatCannotBeStartedIsNoVerdict(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	orphan := filepath.Join(t.TempDir(), "orphan")
	if err := os.WriteFile(orphan, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ path, want string }{
		"not executable": {plain, "permission denied"},
		"a directory":    {t.TempDir(), "permission denied"},
		"no interpreter": {orphan, "the interpreter that its first line names, is missing"},
		"no such file":   {"/no/such/plugin", "no such file or directory"},
		"no path":        {"a\x00b", "invalid argument"},
	} {
		t.Run(name, func(t *testing.T) {
			got := executed(t, tc.path)
			if got.status != checks.Unknown || got.reason != ReasonPluginNotStarted ||
				!strings.HasPrefix(got.message, tc.path+": could not be started: ") || !strings.Contains(got.message, tc.want) {
				t.Errorf("got %s %s %q, want one with %q", got.status, got.reason, got.message, tc.want)
			}
		})
	}
}

func TestAPluginThatSomebodyElseReapsIsNoVerdict(t *testing.T) {
	signal.Ignore(syscall.SIGCHLD) // the kernel reaps
	t.Cleanup(func() {             // Reset alone leaves it ignored
		signal.Notify(make(chan os.Signal, 1), syscall.SIGCHLD)
		signal.Reset(syscall.SIGCHLD)
	})
	got := executed(t, script(t, "plugin", "echo fine"))
	if got.status != checks.Unknown || got.reason != ReasonPluginFailed || !strings.Contains(got.message, "its exit code is lost: ") {
		t.Errorf("got %+v", got)
	}
}

func TestAPluginIsKilledWithItsGroup(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	note := fmt.Sprintf("echo $! >%s; ", pidFile)
	for name, tc := range map[string]struct {
		body    string
		execute func(t *testing.T, path, file string) result
		status  checks.Status
		reason  string
	}{
		"at its time-out":            {"echo waiting; sleep 1000 & " + note + "wait", executedUntilNoted, checks.Unknown, ReasonPluginTimeout},
		"whatever signals it blocks": {"trap '' TERM INT; sleep 1000 & " + note + "while :; do :; done", executedUntilNoted, checks.Unknown, ReasonPluginTimeout},
		"when it has ended":          {"sleep 1000 & " + note + "exit 0", executedAtOnce, checks.False, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(pidFile) // of another one
			got := tc.execute(t, script(t, "plugin", tc.body), pidFile)
			if got.status != tc.status || got.reason != tc.reason {
				t.Errorf("got %+v, want %s %s", got, tc.status, tc.reason)
			}
			eventually(t, "the plugin's child is gone", func() bool { return !alive(t, pidFile) })
		})
	}
}

func TestAnEscapedChildThatHoldsTheOutputDelaysNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		body    string
		execute func(t *testing.T, path, file string) result
		status  checks.Status
		reason  string
	}{
		"when the plugin has ended":    {"exit 1", executedAtOnce, checks.True, ""},
		"when the plugin is timed out": {"sleep 1000", executedUntilNoted, checks.Unknown, ReasonPluginTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			pidFile := filepath.Join(t.TempDir(), "pid")
			got := tc.execute(t, script(t, "plugin", "echo bad disk; "+escape(pidFile)+tc.body), pidFile)
			t.Cleanup(func() { _ = syscall.Kill(readPID(t, pidFile), syscall.SIGKILL) })
			if got.status != tc.status || got.reason != tc.reason || !strings.Contains(got.message, "bad disk") {
				t.Errorf("got %+v, want %s %s with the output so far", got, tc.status, tc.reason)
			}
			if !alive(t, pidFile) { // nobody has waited for its end, then
				t.Error("the child has not escaped: this shows nothing")
			}
		})
	}
}

// escape is the beginning of a script that goes on when a child of its that holds
// its output has left its process group and noted its own ID.
func escape(pidFile string) string {
	return fmt.Sprintf("setsid sh -c 'echo $$ >%[1]s; exec sleep 1000' & until [ -s %[1]s ]; do sleep 0.01; done; ", pidFile)
}

func TestAnEscapedChildIsKilledWhereThereAreControlGroups(t *testing.T) {
	killed := 0
	groups, err := child.NewGroups(func(count int) { killed += count })
	if err != nil {
		t.Skip("no control groups can be made here: ", err)
	}
	t.Cleanup(groups.Close)
	pidFile := filepath.Join(t.TempDir(), "pid")
	config := Config{maxOutput: 80, rules: []rule{{path: script(t, "plugin", escape(pidFile)+"echo bad disk; exit 1"), timeout: patient}}}
	got := New(config, Options{Groups: groups}).execute(t.Context(), config.rules[0])
	if got.status != checks.True || got.message != "bad disk" {
		t.Errorf("got %+v", got)
	}
	eventually(t, "it is gone", func() bool { return !alive(t, pidFile) })
	if killed != 1 {
		t.Errorf("%d were counted", killed)
	}
}

// The first process of a container inherits the children of every plugin that it
// has killed.
func TestOrphansThatBecomeOurChildrenAreReaped(t *testing.T) {
	subreaper(t, 1)
	t.Cleanup(func() { subreaper(t, 0) })
	for range 20 {
		executed(t, script(t, "plugin", "for i in 1 2 3 4 5; do sleep 1000 & done; exit 0"))
	}
}

func subreaper(t *testing.T, on uintptr) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
}

func readPID(t *testing.T, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		t.Fatalf("%s holds no process ID: %q", file, data)
	}
	return pid
}

// alive reports whether the process named by file is running: zombies, which are
// somebody else's to reap, are not.
func alive(t *testing.T, file string) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", readPID(t, file)))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(patient)
	for !holds() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("after %s it still does not hold that %s", patient, what)
		}
	}
}
