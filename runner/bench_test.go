//go:build integration

package runner_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/runner/command"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/process"
)

// BenchmarkClaimToStart prints how long it takes from the moment before the claim is
// sent, and from that at which it is confirmed, until the command's first
// instruction, which is that of date(1).
func BenchmarkClaimToStart(b *testing.B) {
	for _, mode := range []command.Mode{command.TransientUnit, command.Direct} {
		b.Run(string(mode), func(b *testing.B) {
			cluster := clustertest.Shared(b)
			b.Setenv("TMPDIR", "/dev/shm") // like /run, where a node has the ledger and systemd its units
			f := newFixtureOn(b, cluster, crashPatience)
			f.policy = f.newPolicy("exec date +%s%N")
			var sent, confirmed time.Time
			ctx := remedy.WithPoints(f.ctx, func(point string) {
				switch point {
				case "before-claim":
					sent = time.Now()
				case "after-claim":
					confirmed = time.Now()
				}
			})
			f.startWithin(ctx, nil, func(o *runner.Options) {
				if mode == command.TransientUnit {
					r, _ := newCrashRunner(f)
					*o = r.options()
				}
			})
			f.finished(f.newAction(0)) // the first one waits for the start
			var fromSent, fromConfirmed []time.Duration
			b.ResetTimer()
			for range b.N {
				action := f.finished(f.newAction(0))
				if reason := action.Finished().Reason; reason != v1alpha1.ReasonSucceeded {
					b.Fatalf("it ended as %s", reason)
				}
				ns, err := strconv.ParseInt(strings.TrimSpace(action.Status.Result.Output), 10, 64)
				f.must(err)
				started := time.Unix(0, ns)
				fromSent = append(fromSent, started.Sub(sent))
				fromConfirmed = append(fromConfirmed, started.Sub(confirmed))
			}
			report(b, "claim-sent", fromSent)
			report(b, "claim-confirmed", fromConfirmed)
		})
	}
}

func report(b *testing.B, name string, durations []time.Duration) {
	slices.Sort(durations)
	ms := func(p int) float64 { return float64(durations[(len(durations)-1)*p/100].Microseconds()) / 1000 }
	b.ReportMetric(ms(50), name+"-p50-ms")
	b.ReportMetric(ms(95), name+"-p95-ms")
}

// BenchmarkMemory prints what an idle runner needs, 40 s after its first action: the
// program that is built for nodes, which locks what it has used of itself, and gives its
// garbage back after 15 s and then every minute.
func BenchmarkMemory(b *testing.B) {
	const settled = 40 * time.Second
	f := newFixtureOn(b, clustertest.Shared(b), crashPatience)
	agent := filepath.Join(f.dir, "nodemend-agent")
	buildAgent(f, agent)
	proc, err := process.OwnProc(f.dir)
	f.must(err)
	log, err := os.Create(filepath.Join(f.dir, "runner.log"))
	f.must(err)
	p, err := process.Start(exec.CommandContext(f.ctx, agent, "runner", "--node-name="+f.node.Name, "--kubeconfig="+f.cluster.Kubeconfig,
		"--execution=Direct", "--host-proc="+proc, "--run-dir="+filepath.Join(f.dir, "run")), log)
	f.must(err)
	defer p.Kill()
	f.finished(f.newAction(0))
	for b.Loop() {
		wait := time.NewTimer(settled)
		<-wait.C
		f.reportMemory(b, p.Pid, "VmRSS", "RssAnon")
	}
}

// reportMemory reports fields of a process's status (proc_pid_status(5)) that are in kB.
func (f *fixture) reportMemory(b *testing.B, pid int, fields ...string) {
	f.Helper()
	for line := range strings.Lines(f.read(fmt.Sprintf("/proc/%d/status", pid))) {
		if name, value, _ := strings.Cut(line, ":"); slices.Contains(fields, name) {
			kB, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			f.must(err)
			b.ReportMetric(kB/1000, name+"-MB")
		}
	}
}
