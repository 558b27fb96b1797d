//go:build integration

package runner_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/runner/command"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/runner/systemd"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

// BenchmarkClaimToStart prints how long it takes from the moment before the claim is
// sent, and from that at which it is confirmed, until the command's first
// instruction, which is that of date(1).
func BenchmarkClaimToStart(b *testing.B) {
	for _, mode := range []command.Mode{command.TransientUnit, command.Direct} {
		b.Run(string(mode), func(b *testing.B) {
			f := newFixtureOn(b, clustertest.Shared(b), crashPatience)
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
				o.Execution = mode
				if mode == command.TransientUnit {
					host := systemdtest.Shared(b)
					o.Systemd = &systemd.Dialer{Bus: host.Bus()}
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
