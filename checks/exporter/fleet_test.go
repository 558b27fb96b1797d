package exporter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// fleet lets so many detectors that start in the same second run for so many
// seconds of a stepped clock, and returns the number of writes and reads in each.
func fleet(size, duration int, status corev1.ConditionStatus) (writes, reads []int) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in every run
	writes, reads = make([]int, duration), make([]int, duration)
	for n := range size {
		s := newState(Options{Heartbeat: 5 * time.Minute, ProblemHeartbeat: 30 * time.Second, Rand: random.Float64, Clock: clocktesting.NewFakeClock(epoch)})
		uid := types.UID(fmt.Sprint("uid-", n))
		nextRun := 0
		for second := range duration {
			now := epoch.Add(time.Duration(second) * time.Second)
			if second == nextRun {
				for _, c := range []corev1.NodeConditionType{runtime, hardware, "PLEGUnhealthy", "KubeletUnhealthy"} {
					s.observe(observation{conditionType: c, status: status, reason: "Reason", at: now})
				}
				nextRun += 9 + random.IntN(2)
			}
			next := s.plan(now)
			if next.read {
				reads[second]++
				var has []corev1.NodeCondition
				for _, e := range s.entries {
					if e.stored != nil {
						has = append(has, *e.stored)
					} else { // before the start
						has = append(has, a(e.latest.conditionType, status, lastWeek, lastWeek))
					}
				}
				s.seed(uid, has, now)
				next = s.plan(now)
			}
			if next.patch != nil {
				writes[second]++
				s.acknowledge(next.patch, now)
			}
		}
	}
	return writes, reads
}

func TestDetectorsThatStartTogetherDoNotWriteTogether(t *testing.T) {
	const size = 300
	writes, _ := fleet(size, 900, corev1.ConditionFalse)
	if writes[0] != size {
		t.Errorf("%d of %d write at once after the start", writes[0], size)
	}
	// On average one a second; all in step would be 300 at once.
	if most := slices.Max(writes[1:]); most > 20 {
		t.Errorf("up to %d writes in a second", most)
	}
}

// BenchmarkFleet prints the load that 5,000 healthy detectors are for the API
// server, by the exporter's own rules and a stepped clock.
func BenchmarkFleet(b *testing.B) {
	const size = 5000
	var writes, reads []int
	for b.Loop() {
		writes, reads = fleet(size, 3600, corev1.ConditionFalse)
	}
	steady := writes[1:]
	sum := 0
	for _, n := range steady {
		sum += n
	}
	sorted := slices.Sorted(slices.Values(steady))
	sumReads := 0
	for _, n := range reads[1:] {
		sumReads += n
	}
	b.ReportMetric(float64(sum)/float64(len(steady)), "writes/s-mean")
	b.ReportMetric(float64(sorted[len(sorted)*99/100]), "writes/s-p99")
	b.ReportMetric(float64(sorted[len(sorted)-1]), "writes/s-max")
	b.ReportMetric(float64(sumReads)/float64(len(steady)), "reads/s-mean")
}
