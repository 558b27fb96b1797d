package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shippedCounters are the rules of node-problem-detector's *-counter.json.
func shippedCounters(t *testing.T) (rules []struct {
	Reason, Path string
	Args         []string
}) {
	t.Helper()
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/node-problem-detector").Output()
	if err != nil {
		t.Skip(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "config", "*-counter.json"))
	if err != nil || len(files) != 3 {
		t.Skip(err, files)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var config struct {
			Rules []struct {
				Reason, Path string
				Args         []string
			}
		}
		if err := json.Unmarshal(data, &config); err != nil {
			t.Fatal(err)
		}
		rules = append(rules, config.Rules...)
	}
	return rules
}

func TestLogCounterRunsTheRulesThatNPDShips(t *testing.T) {
	found := map[string]struct {
		message string
		enough  int
	}{
		"CorruptDockerOverlay2":     {"returned error: readlink /var/lib/docker/overlay2/l: invalid argument", 10},
		"UnregisterNetDevice":       {"unregister_netdevice: waiting for eth0 to become free. Usage count = 2", 3},
		"FrequentKubeletRestart":    {"Started kubelet.service - kubelet.", 5},
		"FrequentDockerRestart":     {"Starting docker.service - Docker Application Container Engine...", 5},
		"FrequentContainerdRestart": {"Starting containerd.service - containerd container runtime...", 5},
	}
	for _, rule := range shippedCounters(t) {
		for more, wantStatus := range map[int]int{-1: 0, 0: 1} {
			t.Run(fmt.Sprintf("%s %d", rule.Reason, more), func(t *testing.T) {
				expected := found[rule.Reason]
				entry := fmt.Sprintf(`echo '{"__REALTIME_TIMESTAMP":"'$now'000000","MESSAGE":%q}'; `, expected.message)
				onPath(t, map[string]string{"journalctl": "now=$(($(/bin/date +%s) - 5)); " + strings.Repeat(entry, expected.enough+more)})
				var out strings.Builder
				args := commandLine(append([]string{rule.Path}, rule.Args...))
				for i, arg := range args { // a machine may have booted just now
					if strings.HasPrefix(arg, "--delay=") {
						args[i] = "--delay=0s"
					}
				}
				status, text := runRoot(t, &out, args...)
				want := ""
				if wantStatus == 1 {
					want = fmt.Sprintf("Found %d matching logs, which meets the threshold of %d\n", expected.enough, expected.enough)
				}
				if status != wantStatus || out.String() != want {
					t.Errorf("exit status %d (%s) with %q, want %d with %q", status, text, out.String(), wantStatus, want)
				}
			})
		}
	}
}

func TestLogCounterThatCannotTellExitsWithTwo(t *testing.T) {
	for name, tc := range map[string]struct {
		journalctl string
		args       []string
		want       string
	}{
		"no source":       {"exit 0", nil, "log-counter: --journald-source: is empty"},
		"no journal":      {"echo broken >&2; exit 1", []string{"--journald-source=kernel"}, `it said "broken"`},
		"nothing at all":  {"exit 0", []string{"--journald-source=kernel", "-v=4", "--vmodule=a=1", "--logtostderr=true"}, "the journal has no entry at all"},
		"an unknown flag": {"exit 0", []string{"--journal=kernel"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			onPath(t, map[string]string{"journalctl": tc.journalctl})
			var out strings.Builder
			status, _ := runRoot(t, &out, append([]string{logCounterName}, tc.args...)...)
			if status != 2 || !strings.Contains(out.String(), tc.want) {
				t.Errorf("exit status %d with %q, want 2 with %q", status, out.String(), tc.want)
			}
		})
	}
	t.Run("no journalctl", func(t *testing.T) {
		onPath(t, nil)
		var out strings.Builder
		if status, _ := runRoot(t, &out, logCounterName, "--journald-source=kernel"); status != 2 || !strings.Contains(out.String(), "needs systemd's journalctl") {
			t.Errorf("exit status %d with %q", status, out.String())
		}
	})
}
