package child

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shell is a script. $1 is a directory of the test's.
func shell(t *testing.T, script string) (cmd *exec.Cmd, dir string) {
	t.Helper()
	dir = t.TempDir()
	return &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", script, "sh", dir}}, dir
}

// note has $! noted, and waits for that to be done by others.
const (
	noteChild = `echo $! >$1/pid; `
	awaitNote = `until [ -s $1/pid ]; do sleep 0.01; done; `
)

// alive reports whether the process that a script has noted runs; a zombie does not.
func alive(t *testing.T, dir string) bool {
	t.Helper()
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

func TestAProgramIsRun(t *testing.T) {
	cmd, _ := shell(t, `read line; echo "$line"; exit 3`)
	var out Head
	out.Limit, cmd.Stdout, cmd.Stdin = 80, &out, strings.NewReader("hello\n")
	c, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := c.Wait(t.Context()); !errors.As(err, &exit) || c.State().ExitCode() != 3 || out.String() != "hello\n" {
		t.Errorf("got %v, %v, %q", err, c.State(), out.String())
	}
	if _, err := Start(&exec.Cmd{Path: "/nonexistent"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is not there was started: %v", err)
	}
}

func TestNothingOfTheProcessGroupIsLeft(t *testing.T) {
	cause := errors.New("that is enough")
	for name, tc := range map[string]struct {
		script string
		want   error
	}{
		"when the program has ended": {"sleep 1000 & " + noteChild + "exit 0", nil},
		"at the end of the context":  {"trap '' TERM INT; sleep 1000 & " + noteChild + "wait; sleep 1000", cause},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, dir := shell(t, tc.script)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			c, err := Start(cmd)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want != nil {
				await, _ := shell(t, awaitNote)
				await.Args[4] = dir
				if err := await.Run(); err != nil {
					t.Fatal(err)
				}
				cancel(tc.want)
			}
			if err := c.Wait(ctx); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			gone(t, dir)
		})
	}
}

// gone waits until the process that a script has noted is gone: that of a process group was
// killed, but may take a moment.
func gone(t *testing.T, dir string) {
	t.Helper()
	for alive(t, dir) {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
}
