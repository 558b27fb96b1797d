package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/test/criserver"
)

func TestTheExitStatusOfCheckIsOneForAProblemAlone(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "cri.sock")
	runtime, err := criserver.Start(t.Context(), socket, criserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(runtime.Stop)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubeconfig := func(name, cluster, user string) string {
		return "--kubeconfig=" + file(name, `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
			clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", `+cluster+`}}], users: [{name: u, user: {`+user+`}}]}`)
	}
	var (
		healthy  = "--config=" + file("healthy", "checks: {runtime: {endpoint: 'unix://"+socket+"', timeout: 10s}}\n")
		problem  = "--config=" + file("problem", "checks: {runtime: {endpoint: 'unix://"+file("nobody-listens", "")+"'}}\n")
		noBMC    = "--config=" + file("no-bmc", "checks: {only: [runtime, hardware], runtime: {endpoint: 'unix://"+socket+"'}, hardware: {device: /no/such/device}}\n")
		mistaken = "--config=" + file("mistaken", "checks: {runtime: {endpoints: a}}\n")
	)
	for name, tc := range map[string]struct {
		args []string
		want int
	}{
		"healthy":                            {[]string{"runtime", healthy}, 0},
		"healthy as JSON":                    {[]string{"runtime", healthy, "-o", "json"}, 0},
		"a problem":                          {[]string{"runtime", problem}, 1},
		"a problem as JSON":                  {[]string{"runtime", problem, "-o", "json"}, 1},
		"a check of what is not there":       {[]string{"hardware", noBMC}, 2},
		"and others besides":                 {[]string{"runtime", "hardware", noBMC}, 2},
		"all of what is there":               {[]string{noBMC}, 0},
		"an unknown check":                   {[]string{"disk", problem}, 2},
		"an unknown flag":                    {[]string{"runtime", problem, "--fast"}, 2},
		"a flag without its value":           {[]string{"runtime", "--config"}, 2},
		"an unknown output":                  {[]string{"runtime", problem, "-o", "xml"}, 2},
		"a missing configuration":            {[]string{"runtime", "--config=" + filepath.Join(dir, "missing")}, 2},
		"a mistaken configuration":           {[]string{"runtime", mistaken}, 2},
		"a missing kubeconfig":               {[]string{"runtime", problem, "--kubeconfig=" + filepath.Join(dir, "missing")}, 2},
		"a kubeconfig that is none":          {[]string{"runtime", problem, "--kubeconfig=" + file("none", "{")}, 2},
		"a missing authority":                {[]string{"runtime", problem, kubeconfig("a", "certificate-authority: /missing", "")}, 2},
		"an authority that is none":          {[]string{"runtime", problem, kubeconfig("b", "certificate-authority-data: bm9uZQ==", "")}, 2},
		"an authority that is none, in file": {[]string{"runtime", problem, kubeconfig("c", "certificate-authority: "+file("ca.crt", "none"), "")}, 2},
		"a missing token":                    {[]string{"kubelet", problem, kubeconfig("d", "", "tokenFile: /missing")}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := runCheck(t, t.Context(), io.Discard, tc.args...)
			if status != tc.want {
				t.Errorf("exit status %d (%s), want %d", status, text, tc.want)
			}
		})
	}
	t.Run("output that fails", func(t *testing.T) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		defer func() { _ = full.Close() }() // fails as it should
		for _, args := range [][]string{{"runtime", healthy}, {"runtime", problem}, {"runtime", problem, "-o", "json"}} {
			if status, text := runCheck(t, t.Context(), full, args...); status != 2 || !strings.Contains(text, "no space left") {
				t.Errorf("exit status %d (%s) of %q, want 2", status, text, args)
			}
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		interrupted, cancel := context.WithCancel(t.Context())
		cancel()
		if status, text := runCheck(t, interrupted, io.Discard, "runtime", healthy); status != 2 {
			t.Errorf("exit status %d (%s), want 2", status, text)
		}
	})
}

// What the detector remembers is not a person's to change: a fault that was seen by a person would
// be no new one to it.
func TestACheckByAPersonWritesNoStateFile(t *testing.T) {
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	config := filepath.Join(dir, "detector.yaml")
	if err := os.WriteFile(config, []byte(strings.ReplaceAll(`
stateFile: STATE/detector.json
checks:
  only: [tasks, network, drives, memory, hardware]
  tasks: {enabled: true, stateFile: STATE/tasks.json}
  network: {include: [lo], stateFile: STATE/network.json}
  drives: {stateFile: STATE/drives.json}
  memory: {stateFile: STATE/memory.json}
  hardware: {source: ipmitool, ipmitool: {path: /bin/false}, stateFile: STATE/hardware.json}
`, "STATE", state)), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if status, text := runCheck(t, t.Context(), &out, "--config="+config); status != 2 { // the BMC does not tell
		t.Fatalf("exit status %d (%s), want 2", status, text)
	}
	for _, check := range []string{"tasks ", "network ", "hardware "} {
		if !strings.Contains(out.String(), check) {
			t.Errorf("the check %swas not run:\n%s", check, out.String())
		}
	}
	if files, err := os.ReadDir(state); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("written: %v, %v", files, err)
	}
}

func runCheck(t *testing.T, ctx context.Context, out io.Writer, args ...string) (status int, text string) { //nolint:revive // as testing has it, t is first
	t.Helper()
	root := newRootCommand(newTestLog(t, io.Discard)) //nolint:contextcheck // it gets ctx below
	root.SetArgs(append([]string{"check"}, args...))
	root.SetOut(out)
	err := root.ExecuteContext(ctx)
	if err != nil {
		text = err.Error()
	}
	return exitStatus(err), text
}
