package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// onPath makes PATH a directory that holds nothing but the given scripts.
func onPath(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, body := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

func runHealthChecker(t *testing.T, args ...string) (output string, status int) {
	t.Helper()
	var out strings.Builder
	root := newRootCommand(newTestLog(t, io.Discard))
	root.SetArgs(append([]string{healthCheckerName}, args...))
	root.SetOut(&out)
	status = exitStatus(root.ExecuteContext(t.Context()))
	return out.String(), status
}

func TestHealthCheckerAnswersAsThatOfNPD(t *testing.T) {
	for name, tc := range map[string]struct {
		scripts    map[string]string
		args       []string
		wantStatus int
		wantOutput string
	}{
		"healthy":                   {map[string]string{"docker": "exit 0"}, []string{"--component=docker"}, 0, ""},
		"unhealthy":                 {map[string]string{"docker": "exit 1"}, []string{"--component=docker"}, 1, "docker:docker was found unhealthy; repair flag : false\n"},
		"unhealthy with a service":  {map[string]string{"docker": "exit 1"}, []string{"--component=docker", "--service=dockerd"}, 1, "docker:dockerd was found unhealthy; repair flag : false\n"},
		"too slow":                  {map[string]string{"docker": "while :; do :; done"}, []string{"--component=docker", "--health-check-timeout=50ms"}, 1, "docker:docker was found unhealthy; repair flag : false\n"},
		"its name for the service":  {map[string]string{"crictl": "exit 1"}, []string{"--component=cri", "--crictl-path=crictl"}, 1, "cri:containerd was found unhealthy; repair flag : false\n"},
		"the flags of its files":    {map[string]string{"crictl": "exit 0"}, []string{"--component=cri", "--crictl-path=crictl", "--enable-repair=true", "--cooldown-time=2m", "--health-check-timeout=60s", "--loopback-time=0", "-v=4", "--v=4", "--vmodule=a=1", "--logtostderr"}, 0, ""},
		"no crictl":                 {nil, []string{"--component=cri", "--crictl-path=/no/such/crictl"}, 2, "error checking cri health: exec: \"/no/such/crictl\""},
		"no docker":                 {nil, []string{"--component=docker"}, 2, "error checking docker health: exec: \"docker\""},
		"no journal":                {map[string]string{"docker": "exit 0", "systemctl": "exit 0"}, []string{"--component=docker", "--log-pattern=10:failed"}, 2, "error checking docker health: exec: \"journalctl\""},
		"an unknown start time":     {map[string]string{"docker": "exit 0", "systemctl": "exit 1", "journalctl": "exit 0"}, []string{"--component=docker", "--log-pattern=10:failed"}, 2, "error checking docker health: exit status 1"},
		"an unknown component":      {nil, []string{"--component=etcd"}, 2, "the component specified is not supported"},
		"an unknown flag":           {nil, []string{"--repair"}, 2, ""},
		"a value without its equal": {nil, []string{"--component=docker", "--enable-repair", "false"}, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			onPath(t, tc.scripts)
			output, status := runHealthChecker(t, tc.args...)
			if status != tc.wantStatus || !strings.HasPrefix(output, tc.wantOutput) || tc.wantOutput == "" && output != "" {
				t.Errorf("exit status %d with %q, want %d with %q", status, output, tc.wantStatus, tc.wantOutput)
			}
		})
	}
}

func TestHealthCheckerRepairsOnlyIfItIsTold(t *testing.T) {
	for flag, want := range map[string]string{
		"--enable-repair=false": "",
		"--cooldown-time=0s":    "", // the default
		"--enable-repair":       "kill --kill-who=main containerd",
	} {
		t.Run(flag, func(t *testing.T) {
			calls := filepath.Join(t.TempDir(), "calls")
			onPath(t, map[string]string{
				"crictl":    "exit 1",
				"systemctl": `echo "$@" >>` + calls + `; echo "InactiveExitTimestamp=Tue 2030-01-01 00:00:00 UTC"`,
			})
			_, status := runHealthChecker(t, "--component=cri", "--crictl-path=crictl", "--cooldown-time=-87600h", flag)
			if status != 1 {
				t.Errorf("exit status %d, want 1", status)
			}
			called, _ := os.ReadFile(calls)
			if !strings.Contains(string(called), want) || want == "" && len(called) > 0 {
				t.Errorf("systemctl was called with %q, want %q", called, want)
			}
		})
	}
}

func TestAProgramNamedHealthCheckerIsThatCommand(t *testing.T) {
	for _, tc := range []struct{ program, want []string }{
		{[]string{"nodemend", "detector", "--v=2"}, []string{"detector", "--v=2"}},
		{[]string{"/home/kubernetes/bin/health-checker", "--component=cri"}, []string{"health-checker", "--component=cri"}},
		{[]string{"nodemend"}, nil},
	} {
		if got := commandLine(tc.program); !slices.Equal(got, tc.want) {
			t.Errorf("%q is run as %q, want %q", tc.program, got, tc.want)
		}
	}
}

func TestHealthCheckerExplainsItself(t *testing.T) {
	output, status := runHealthChecker(t, "--help")
	for _, text := range []string{"Exit status: 0 healthy", "--component", "--crictl-path", "--log-pattern", "--enable-repair "} {
		if !strings.Contains(output, text) {
			t.Errorf("--help does not mention %q:\n%s", text, output)
		}
	}
	if status != 0 || strings.Contains(output, "vmodule") || strings.Contains(output, "(default true)") {
		t.Errorf("exit status %d after:\n%s", status, output)
	}
}
