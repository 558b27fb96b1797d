//go:build integration

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // the golden files have what people see
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: deploy.CRDs}))
}

// kubeconfig writes one for the shared cluster.
func kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := cluster.WriteKubeconfig(path, clustertest.Shared(t).Config); err != nil {
		t.Fatal(err)
	}
	return path
}

// command runs one command line at this time, and returns what it printed, its error
// last, as a person sees it.
func command(t *testing.T, now time.Time, args ...string) string {
	t.Helper()
	return commandWith(t, clocktesting.NewFakePassiveClock(now), args...)
}

// commandNow is a command whose time goes on.
func commandNow(t *testing.T, args ...string) string {
	t.Helper()
	return commandWith(t, clock.RealClock{}, args...)
}

func commandWith(t *testing.T, clk clock.PassiveClock, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := newRootCommand(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}, clk)
	root.SetArgs(args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		out.WriteString("error: " + err.Error() + "\n")
	}
	return out.String()
}

func TestEveryCommandPrintsWhatItsGoldenFileSays(t *testing.T) {
	s := newScene(t)
	config := "--kubeconfig=" + kubeconfig(t)
	// In this order: commands that change something come last.
	for _, test := range []struct{ name, line string }{
		{"status", "status"},
		{"status-wide", "status -o wide"},
		{"status-json", "status -o json"},
		{"status-yaml", "status -o yaml"},
		{"status-selected", "status -l kubernetes.io/os=linux,pool=none"},
		{"why-blocked", "why worker-17"},
		{"why-blocked-wide", "why worker-17 -o wide"},
		{"why-blocked-json", "why worker-17 -o json"},
		{"why-holds-on", "why worker-18"},
		{"why-approval", "why worker-19"},
		{"why-healthy", "why worker-20"},
		{"history", "history"},
		{"history-wide", "history -o wide"},
		{"history-node", "history worker-16"},
		{"history-none", "history worker-20"},
		{"history-policy", "history --policy hardware --since 1h"},
		{"history-yaml", "history worker-16 -o yaml"},
		{"describe", "describe worker-16"},
		{"describe-json", "describe worker-16 -o json"},
		{"describe-approval", "describe worker-19"},
		{"describe-exhausted", "describe worker-15"},
		{"hardware-report", "hardware report"},
		{"hardware-report-json", "hardware report --since 1h -o json"},
		{"hardware-describe", "hardware describe worker-21"},
		{"hardware-describe-healthy", "hardware describe worker-20"},
		{"hardware-ack-dry", "hardware ack -l kubernetes.io/os=linux --kind Memory --reason known --dry-run"},
		{"hardware-ack", "hardware ack worker-15 --all --reason known"},
		{"hardware-ack-until", "hardware ack -l a=b --reason known --until 0x1a"},
		{"hardware-ack-which", "hardware ack worker-15 --reason known"},
		{"hardware-ack-which-several", "hardware ack -l a=b --reason known"},
		{"hardware-ack-no-reason", "hardware ack worker-15"},
		{"maintenance-status", "maintenance status"},
		{"maintenance-status-node", "maintenance status worker-21"},
		{"maintenance-status-yaml", "maintenance status worker-21 -o yaml"},
		{"run-dry", "run container-runtime worker-18 --dry-run"},
		{"run", "run container-runtime worker-18"},
		{"run-twice", "run container-runtime worker-18"},
		{"run-healthy", "run container-runtime worker-20"},
		{"run-not-selected", "run kubelet worker-20"},
		{"approve", "approve worker-19"},
		{"describe-approved", "describe worker-19"},
		{"approve-not-waiting", "approve worker-17"},
		{"retry", "retry worker-15"},
		{"describe-retry", "describe worker-15"},
		{"retry-not-exhausted", "retry worker-17"},
		{"cancel", "cancel worker-17"},
		{"cancel-again", "cancel worker-17"},
		{"cancel-ended", "cancel worker-16"},
		{"exclude", "exclude worker-20 worker-21"},
		{"exclude-again", "exclude worker-20"},
		{"exclude-reason", "exclude worker-20 --reason rack-move"},
		{"why-excluded", "why worker-20"},
		{"exclude-selected", "exclude -l kubernetes.io/hostname=nosuch"},
		{"exclude-both", "exclude worker-20 -l a=b"},
		{"include", "include worker-20"},
		{"pause", "pause --reason storm"},
		{"pause-no-reason", "pause"},
		{"pause-named", "pause budget/workers policy/hardware --reason move"},
		{"pause-wrong", "pause workers --reason move"},
		{"pause-shown", "status"},
		{"why-paused", "why worker-19"},
		{"describe-paused", "describe worker-15"},
		{"resume", "resume"},
		{"resume-twice", "resume"},
		{"resume-named", "resume budget/workers policy/hardware"},
		{"maintenance-start", "maintenance start worker-20 --reason disk --no-wait --delete-emptydir-data --pod-selector app=web,tier!=db"},
		{"fence-confirm-answers", "fence confirm worker-20 --yes"},
		{"fence-confirm-none", "fence confirm worker-18 --yes"},
		{"fence-confirm-policy", "fence confirm worker-21 --yes"},
		{"maintenance-start-bad", "maintenance start worker-20 --reason disk --on-timeout Never"},
		{"maintenance-start-no-reason", "maintenance start worker-20"},
		{"maintenance-end", "maintenance end worker-20"},
		{"maintenance-end-policy", "maintenance end worker-21"},
		{"maintenance-end-none", "maintenance end worker-18"},
		{"uninstall-shown", "uninstall"},
	} {
		t.Run(test.name, func(t *testing.T) {
			golden(t, test.name, command(t, s.now, append(strings.Fields(test.line), config)...))
		})
	}
}

func TestEveryCommandExplainsWhatItCanNotDo(t *testing.T) {
	s := newScene(t)
	config := "--kubeconfig=" + kubeconfig(t)
	for _, test := range []struct {
		name, line string
		noNode     bool
	}{
		{"status", "status", false},
		{"why", "why %", true},
		{"history", "history %", true},
		{"describe", "describe %", true},
		{"watch", "watch %", true},
		{"hardware-describe", "hardware describe %", true},
		{"hardware-report", "hardware report", false},
		{"hardware-ack", "hardware ack % --all --reason x", true},
		{"pause", "pause --reason x", false},
		{"pause-budget", "pause budget/% --reason x", true},
		{"resume", "resume policy/%", true},
		{"maintenance-start", "maintenance start % --reason x", true},
		{"maintenance-status", "maintenance status %", true},
		{"maintenance-end", "maintenance end %", true},
		{"fence-confirm", "fence confirm % --yes", true},
		{"run", "run container-runtime %", true},
		{"run-policy", "run % worker-17", true},
		{"approve", "approve %", true},
		{"retry", "retry %", true},
		{"cancel", "cancel %", true},
		{"exclude", "exclude %", true},
		{"include", "include %", true},
		{"uninstall", "uninstall --yes", false},
	} {
		run := func(kind, name string, more ...string) {
			t.Run(test.name+"/"+kind, func(t *testing.T) {
				args := append(strings.Fields(strings.ReplaceAll(test.line, "%", name)), config)
				got := command(t, s.now, append(args, more...)...)
				if !strings.Contains(got, "error: ") {
					t.Errorf("it printed no error:\n%s", got)
				}
				golden(t, "error-"+test.name+"-"+kind, got)
			})
		}
		if test.noNode {
			run("missing", "nosuch")
		}
		run("forbidden", "worker-17", "--as=nobody")
		run("unreachable", "worker-17", "--server=https://127.0.0.1:1", "--tls-server-name=localhost")
	}
	t.Run("a wrong output form", func(t *testing.T) {
		golden(t, "error-output", command(t, s.now, "status", "-o", "table", config))
	})
}
