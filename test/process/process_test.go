package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nodemend/nodemend/test/process"
)

func start(t *testing.T, script string) (p *process.Process, logPath string) {
	t.Helper()
	logPath = filepath.Join(t.TempDir(), "log")
	log, err := os.Create(logPath)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Stdout, cmd.SysProcAttr = log, &syscall.SysProcAttr{Setpgid: true}
	if p, err = process.Start(cmd, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p, logPath
}

func TestAGroupIsAskedToEndAndKilledIfItDoesNot(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		killed bool
	}{
		"one that ends":      {"echo begun; exec sleep 1000", false},
		"one that does not":  {"trap '' TERM; echo begun; while :; do sleep 1; done", true},
		"one that has ended": {"echo begun", false},
	} {
		t.Run(name, func(t *testing.T) {
			p, log := start(t, tc.script)
			for begun := ""; begun != "begun"; {
				var err error
				if begun, err = process.Tail(log, 100); err != nil {
					t.Fatal(err)
				}
			}
			grace := time.Minute
			if tc.killed {
				grace = 100 * time.Millisecond
			}
			if killed, err := p.StopGroup(grace); err != nil || killed != tc.killed {
				t.Errorf("killed %t, %v; want %t", killed, err, tc.killed)
			}
			if !p.HasExited() {
				t.Error("it still runs")
			}
		})
	}
}

func TestAProgramThatCanNotBeStartedIsAnError(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := process.Start(exec.Command("/nonexistent"), log); err == nil {
		t.Error("started")
	}
}
