//go:build integration

package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/runner/command"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/process"
	systemdfixture "github.com/nodemend/nodemend/test/systemd"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

// crashRunnerEnv makes the test's program a runner that kills itself, as its JSON
// value says.
const crashRunnerEnv = "NODEMEND_TEST_CRASH_RUNNER"

// crashPatience bounds a crash test, which is long.
const crashPatience = 8 * time.Minute

// crashRunner is a runner in a process of its own.
type crashRunner struct {
	Kubeconfig string
	Node       string
	Dir        string // for its files
	Proc       string
	Systemd    systemd.Dialer
	Execution  command.Mode
	Metrics    string // the address; empty: none
	HostRoot   string // empty: that of process 1 in Proc
	// Point is where it kills itself; empty: nowhere.
	Point string
}

func (r crashRunner) options() runner.Options {
	return runner.Options{
		NodeName:       r.Node,
		Execution:      r.Execution,
		Proc:           r.Proc,
		HostRoot:       r.HostRoot,
		RunDir:         filepath.Join(r.Dir, "run"),
		SysRqPath:      filepath.Join(r.Dir, "sysrq"),
		Systemd:        &r.Systemd,
		DetectorSocket: filepath.Join(r.Dir, "detector.sock"),
		MetricsAddress: r.Metrics,
	}
}

// newCrashRunner returns a runner on a real systemd, to which it is a process of the
// host. What is in Dir is below /run there.
func newCrashRunner(f *fixture) (crashRunner, *systemdfixture.Host) {
	f.Helper()
	host := systemdtest.Shared(f.TB)
	dir := filepath.Join(host.RunDir(), "crash-"+f.node.Name)
	f.must(os.Mkdir(dir, 0o700))
	return crashRunner{
		Kubeconfig: f.cluster.Kubeconfig, Node: f.node.Name, Dir: dir, Proc: fmt.Sprintf("/proc/%d/root/proc", host.PID()),
		Systemd: systemd.Dialer{Bus: host.Bus(), Private: systemdtest.Private(f.TB, host)}, Execution: command.TransientUnit,
	}, host
}

// runCrashRunner is the process.
func runCrashRunner(config string) int {
	err := func() error {
		var r crashRunner
		if err := json.Unmarshal([]byte(config), &r); err != nil {
			return err
		}
		cfg, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
		if err != nil {
			return err
		}
		//nolint:forbidigo // this is a main
		ctx := remedy.WithPoints(context.Background(), func(point string) {
			if point == r.Point {
				_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
				select {} // until it has arrived
			}
		})
		return runner.Run(ctx, cfg, r.options())
	}()
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// start starts the process. Exited is closed when it has ended.
func (r crashRunner) start(f *fixture) *process.Process {
	f.Helper()
	config, err := json.Marshal(r)
	f.must(err)
	log, err := os.OpenFile(filepath.Join(r.Dir, "runner.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	f.must(err)
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: os.Args[:1], Stdout: log, Stderr: log,
		Env: append(os.Environ(), crashRunnerEnv+"="+string(config)),
	}
	p, err := process.Start(cmd, log)
	f.must(err)
	f.Cleanup(p.Kill)
	return p
}

// The points of every remedy, and those of single ones.
var (
	claimPoints  = []string{"before-claim", "after-claim", "after-ledger"}
	reportPoints = []string{"before-outcome", "after-outcome", "after-clean", "before-report", "after-report"}
)

// crashUnit is the file of crash@DIR.service, which tells a file in /run/DIR of its starts.
const crashUnit = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sh -c 'echo start >>/run/%i/executions; exec sleep 1000'\n"

var crashUnitInstalled sync.Once

// installCrashUnit is called before anything is executed: systemd loses a command that waits
// to be started while it reloads its units (see command.state.absent).
func installCrashUnit(t *testing.T) {
	t.Helper()
	crashUnitInstalled.Do(func() {
		if err := systemdtest.Shared(t).Unit(t.Context(), "crash@.service", crashUnit); err != nil {
			t.Error(err)
		}
	})
}

// crashing returns a runner for a policy whose first step, a command or the restart of a
// unit, notes in a file that it was executed.
func crashing(f *fixture, mode command.Mode, unit bool) (r crashRunner, executions string) {
	f.Helper()
	r, host := newCrashRunner(f)
	r.Execution = mode
	name := filepath.Base(r.Dir)
	f.policy = f.newPolicy(`echo "$NODEMEND_ACTION" >>/run/` + name + `/executions; sleep 0.1`)
	if unit {
		unit := "crash@" + name + ".service"
		_, err := host.Run(f.ctx, "systemctl", "start", unit)
		f.must(err)
		f.policy.Spec.Steps[0].Command = nil
		f.policy.Spec.Steps[0].RestartUnit = &v1alpha1.RestartUnitRemedy{Name: unit}
		f.must(f.client.Update(f.ctx, f.policy))
	}
	return r, filepath.Join(r.Dir, "executions")
}

func TestARunnerThatIsKilledAtAnyStepExecutesAtMostOnce(t *testing.T) {
	t.Parallel()
	installCrashUnit(t)
	for _, test := range []struct {
		name   string
		mode   command.Mode
		points []string
		rounds int
		unit   bool // restartUnit instead of a command
		// reasons by the point where the first runner was killed, where they are
		// certain; Succeeded if not named.
		reasons map[string]string
	}{
		{
			name: "transient unit", mode: command.TransientUnit, rounds: 8,
			points:  slices.Concat(claimPoints, []string{"before-start", "after-start", "ended", "outcome"}, reportPoints),
			reasons: map[string]string{"after-claim": v1alpha1.ReasonNotStarted, "after-ledger": v1alpha1.ReasonInterrupted, "before-start": v1alpha1.ReasonInterrupted},
		},
		{
			name: "direct", mode: command.Direct, rounds: 5,
			points: slices.Concat(claimPoints, []string{"before-start", "after-start", "ended", "outcome"}, reportPoints),
			reasons: map[string]string{
				"after-claim": v1alpha1.ReasonNotStarted, "after-ledger": v1alpha1.ReasonInterrupted, "before-start": v1alpha1.ReasonInterrupted,
				"after-start": v1alpha1.ReasonInterrupted, "ended": v1alpha1.ReasonInterrupted, "outcome": v1alpha1.ReasonInterrupted,
				"before-outcome": v1alpha1.ReasonInterrupted,
			},
		},
		{
			name: "restartUnit", mode: command.Auto, rounds: 5, unit: true,
			points:  slices.Concat(claimPoints, []string{"before-restart", "after-restart"}, reportPoints),
			reasons: map[string]string{"after-claim": v1alpha1.ReasonNotStarted, "after-ledger": v1alpha1.ReasonInterrupted, "before-restart": v1alpha1.ReasonInterrupted},
		},
	} {
		for round := range test.rounds {
			t.Run(fmt.Sprintf("%s, round %d", test.name, round+1), func(t *testing.T) {
				t.Parallel()
				f := newFixtureOn(t, clustertest.Shared(t), crashPatience)
				r, executions := crashing(f, test.mode, test.unit)
				for _, point := range test.points {
					r.Point = point
					p := r.start(f)
					action := f.newAction(0)
					select {
					case <-p.Exited:
					case <-f.ctx.Done():
						f.Fatalf("the runner did not come to %s; its log: %s", point, f.read(filepath.Join(r.Dir, "runner.log")))
					}
					// The next one, which does not die, brings it to its end.
					r.Point = ""
					p = r.start(f)
					got := f.finished(action).Finished()
					p.Kill()
					want, certain := test.reasons[point]
					if !certain {
						want = v1alpha1.ReasonSucceeded
					}
					if got.Reason != want {
						t.Errorf("killed at %s, the action ended as %s (%s), want %s", point, got.Reason, got.Message, want)
					}
				}
				f.checkExecutions(executions, test.unit)
			})
		}
	}
}

// checkExecutions compares what was executed with what was reported.
func (f *fixture) checkExecutions(file string, unit bool) {
	f.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(f.read(file)) {
		counts[strings.TrimSpace(line)]++
	}
	var actions v1alpha1.NodeActionList
	f.must(f.client.List(f.ctx, &actions, client.MatchingFields{"spec.nodeName": f.node.Name}))
	succeeded, uncertain := 0, 0
	for i := range actions.Items {
		action := &actions.Items[i]
		executed := counts[action.Name]
		c := action.Finished()
		if c == nil {
			f.Errorf("action %s has not ended", action.Name)
			continue
		}
		switch c.Reason {
		case v1alpha1.ReasonSucceeded:
			succeeded++
			if executed != 1 && !unit {
				f.Errorf("action %s ended as %s and was executed %d times", action.Name, c.Reason, executed)
			}
		case v1alpha1.ReasonInterrupted:
			uncertain++
			if executed > 1 {
				f.Errorf("action %s ended as %s and was executed %d times", action.Name, c.Reason, executed)
			}
		default:
			if executed > 0 {
				f.Errorf("action %s ended as %s and was executed %d times", action.Name, c.Reason, executed)
			}
		}
	}
	// A unit does not know for which action it is started; the test started it once.
	if starts := counts["start"] - 1; unit && (starts < succeeded || starts > succeeded+uncertain) {
		f.Errorf("the unit was restarted %d times by %d actions that succeeded and %d that may have", starts, succeeded, uncertain)
	}
}

func TestAnAPIServerThatStopsAtAnyStepDelaysAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	for name, points := range map[string][]string{
		"at first":   slices.Concat(claimPoints, []string{"before-start"}),
		"at the end": slices.Concat([]string{"ended"}, reportPoints),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stopAPIServerAt(t, points)
		})
	}
}

// stopAPIServerAt lets the API server of a cluster of its own stop at each point, one after
// the other.
func stopAPIServerAt(t *testing.T, points []string) {
	own, err := cluster.Start(t.Context(), cluster.Options{CRDs: deploy.CRDs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	f := newFixtureOn(t, own, crashPatience)
	for i, point := range points {
		t.Run(point, func(t *testing.T) {
			var once sync.Once
			stopped := make(chan error, 1)
			within := remedy.WithPoints(f.ctx, func(reached string) {
				if reached == point {
					once.Do(func() { stopped <- own.KillAPIServer() })
				}
			})
			p := f.startWithin(within, nil)
			action := f.newAction(0)
			select {
			case err := <-stopped:
				if err != nil {
					t.Fatal(err)
				}
			case <-f.ctx.Done():
				t.Fatal(f.ctx.Err())
			}
			if err := own.StartAPIServer(f.ctx); err != nil {
				t.Fatal(err)
			}
			f.expect(action, v1alpha1.ReasonSucceeded, i+1)
			f.must(p.stop())
		})
	}
}

func (f *fixture) read(file string) string {
	f.Helper()
	data, err := os.ReadFile(file)
	f.must(err)
	return string(data)
}
