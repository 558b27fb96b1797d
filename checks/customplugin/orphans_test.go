package customplugin

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/nodemend/nodemend/checks"
)

// adopted are the orphans of a test's plugins.
func adopted(t *testing.T) *Orphans {
	t.Helper()
	o, err := AdoptOrphans(prometheus.NewRegistry())
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		o.Close(context.WithoutCancel(t.Context()))
		eventually(t, "no child is left", func() bool {
			o.look(t.Context())
			return len(children()) == 0
		})
	})
	return o
}

func TestWhatEscapesFromAPluginIsKilledReapedAndCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		body   string // PID stands for a file with the ID of what escapes
		killed float64
	}{
		"nothing":                       {"sleep 1000 & echo $! >PID", 0},
		"by a session":                  {"setsid sh -c 'echo $$ >PID; exec sleep 1000' & until [ -s PID ]; do sleep 0.01; done", 1},
		"twice forked, without a trace": {"(env -i setsid sh -c 'cd /; echo $$ >PID; exec sleep 1000 >/dev/null 2>&1' &); until [ -s PID ]; do sleep 0.01; done", 1},
		"that can't be asked to":        {"setsid sh -c 'trap \"\" TERM INT HUP; echo $$ >PID; while :; do sleep 1000; done' & until [ -s PID ]; do sleep 0.01; done", 2},
		"a chain": {"setsid sh -c 'setsid sh -c \"setsid sh -c \\\"echo \\\\\\$\\\\\\$ >PID; exec sleep 1000\\\" & sleep 1000\" & sleep 1000' & " +
			"until [ -s PID ]; do sleep 0.01; done", 5},
		"what has ended by then": {"setsid sh -c 'echo $$ >PID' & wait", 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := adopted(t)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				o.Run(ctx)
			}()
			t.Cleanup(func() { cancel(); <-ended })
			pidFile := filepath.Join(t.TempDir(), "pid")
			body := strings.ReplaceAll(tc.body, "PID", pidFile)
			got := execute(t.Context(), rule{path: script(t, "plugin", body+"; exit 1"), timeout: patient}, 80, o)
			if got.status != checks.True {
				t.Fatalf("got %+v, want a problem", got)
			}
			eventually(t, "what the plugin has left behind is gone", func() bool { return !alive(t, pidFile) && len(children()) == 0 })
			if killed := testutil.ToFloat64(o.killed); killed != tc.killed {
				t.Errorf("%.0f were killed, want %.0f", killed, tc.killed)
			}
		})
	}
}

func TestAnOrphanIsSparedWhileItsRunMayBeUnderWay(t *testing.T) {
	o := adopted(t)
	dir := t.TempDir()
	pidFile := filepath.Join(dir, "pid")
	// The plugin waits for the answer of a process that it is no parent of.
	waiting := script(t, "waiting", fmt.Sprintf("cd %s; (setsid sh -c 'echo $$ >pid; until [ -e go ]; do sleep 0.01; done; echo late >answer' &); "+
		"until [ -s answer ]; do sleep 0.01; done; cat answer; exit 1", dir))
	answer := make(chan result, 1)
	go func() { answer <- execute(t.Context(), rule{path: waiting, timeout: patient}, 80, o) }()
	eventually(t, "the other process is there", func() bool {
		info, err := os.Stat(pidFile)
		return err == nil && info.Size() > 0
	})
	for range 3 {
		o.look(t.Context())
		if got := execute(t.Context(), rule{path: script(t, "plugin", "exit 0"), timeout: patient}, 80, o); got.status != checks.False {
			t.Fatal(got)
		}
	}
	o.look(t.Context())
	if !alive(t, pidFile) {
		t.Error("it was killed while its plugin waits for it")
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got.status != checks.True || got.message != "late" {
		t.Errorf("got %+v", got)
	}
	if killed := testutil.ToFloat64(o.killed); killed != 0 {
		t.Errorf("%.0f were killed, want none", killed)
	}
}

func TestChildrenThatAreNoOrphansAreLeftAlone(t *testing.T) {
	o := adopted(t)
	for name, attributes := range map[string]*syscall.SysProcAttr{
		"of our group":         nil,
		"of a group of theirs": {Setpgid: true},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", "read line; exit 7")
			cmd.SysProcAttr = attributes
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			o.look(t.Context())
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			awaitExit(cmd.Process.Pid)
			o.look(t.Context())
			if _ = cmd.Wait(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 {
				t.Errorf("its exit status is lost: %v", cmd.ProcessState)
			}
		})
	}
}

func TestNothingIsKilledWhileAPluginIsBeingStarted(t *testing.T) {
	o := adopted(t)
	pidFile := filepath.Join(t.TempDir(), "pid")
	execute(t.Context(), rule{path: script(t, "plugin", escape(pidFile)), timeout: patient}, 80, o)
	_, err := o.start(func() (int, error) {
		o.look(t.Context())
		return 0, os.ErrNotExist
	})
	if err == nil || !alive(t, pidFile) {
		t.Errorf("%v: the child, which may be that plugin, was killed", err)
	}
	o.look(t.Context())
	eventually(t, "it is killed afterwards", func() bool { return !alive(t, pidFile) })
}
