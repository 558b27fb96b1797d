//go:build integration

package perf

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const (
	// rounds is how many round trips a bare client makes.
	rounds = 100
	// flips is how many conditions flip that concern no policy.
	flips = 20
	// burst is how many nodes of a thousand fall sick at once.
	burst = 500
	// pace is the time from one fault to the next.
	pace = 250 * time.Millisecond
	// history is how many ended remediations of each node are kept by default.
	history = 10
	// idle is how long a controller with nothing to do is watched.
	idle = 10 * time.Second
)

// BenchmarkFleet runs the controller with fleets of several sizes. It needs
// -benchtime=<n>x, at most 100x: every round is a fault on a node of its own.
func BenchmarkFleet(b *testing.B) {
	s := newScene(b)
	for _, size := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s.b = b
			s.grow(size)
			s.measure(b, 0)
			s.heal(s.nodes[max(0, size-burst):])
		})
	}
	b.Run(fmt.Sprintf("%d/history", len(s.nodes)), func(b *testing.B) {
		s.b = b
		s.measure(b, history)
	})
}

// measure measures all, with so many ended remediations of each node.
func (s *scene) measure(b *testing.B, history int) {
	stopHeartbeats := s.heartbeats()
	bare := s.bareRoundTrips()
	s.remember(history)
	p, start := s.firstDecision()
	defer s.stop(p)
	s.pause(s.ctx, idle) // the start is over
	beating := s.load(p)
	s.faults(b, p, beating, bare)
	b.ReportMetric(start.Seconds(), "s-to-first-decision")
	b.ReportMetric(beating*1000, "cpu-ms/s")
	if len(s.nodes) == 1000 {
		s.burst(b)
	}
	b.ReportMetric(s.memory(p, "VmRSS"), "rss-MiB")
	b.ReportMetric(s.memory(p, "VmHWM"), "rss-peak-MiB")
	stopHeartbeats()
	s.unrelated(b, p)
}

// firstDecision starts the controller with a node that is sick already.
func (s *scene) firstDecision() (p program, start time.Duration) {
	sickNode := s.nodes[len(s.nodes)-1]
	if err := s.patch(s.ctx, sickNode, sick, "True", time.Now()); err != nil {
		s.b.Fatal(err)
	}
	remediations, stopWatch := s.watchRemediations(false)
	defer stopWatch()
	_, stopRunners := s.runners()
	defer stopRunners()
	ended, stopEnded := s.watchRemediations(true)
	defer stopEnded()
	began := time.Now()
	p = s.start()
	first := s.await(remediations, 1, sickNode)[sickNode]
	s.await(ended, 1, sickNode)
	return p, first.Sub(began)
}

// load returns which part of a processor the controller takes with nothing to do.
func (s *scene) load(p program) float64 {
	before, began := s.cpu(p), time.Now()
	s.pause(s.ctx, idle)
	return float64(s.cpu(p)-before) / float64(time.Since(began))
}

// bareRoundTrips measures what a client takes for the least that is needed: it is
// shown a condition, and creates an object that a watch shows. No controller runs.
func (s *scene) bareRoundTrips() []time.Duration {
	nodes, stopNodes := s.watchNodes()
	defer stopNodes()
	objects, stopObjects := s.watchRemediations(false)
	defer stopObjects()
	times := make([]time.Duration, rounds)
	for i := range rounds {
		name, began := s.nodes[i], time.Now()
		if err := s.patch(s.ctx, name, other, "True", began); err != nil {
			s.b.Fatal(err)
		}
		s.await(nodes, i+1, name)
		s.create(&v1alpha1.Remediation{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bare-%d-%d", len(s.nodes), i)},
			Spec: v1alpha1.RemediationSpec{
				NodeName: name, NodeUID: "none", Policy: v1alpha1.PolicyReference{Name: "none", UID: "none"},
				Trigger: v1alpha1.Trigger{Type: other, Status: "True", LastTransitionTime: metav1.Now()},
				Match:   []v1alpha1.ConditionMatch{{Type: other, Status: "True"}},
				Steps:   []v1alpha1.Step{{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/true"}}}},
			},
		})
		times[i] = s.await(objects, i+1, name)[name].Sub(began)
		s.pause(s.ctx, pace/5)
	}
	s.heal(nil)
	return times
}

// faults lets nodes fall sick and be healed, one after the other.
func (s *scene) faults(b *testing.B, p program, beating float64, bare []time.Duration) {
	actions, stopRunners := s.runners()
	defer stopRunners()
	ended, stopEnded := s.watchRemediations(true)
	defer stopEnded()
	s.pause(s.ctx, time.Second)
	cpu, logged, asked, started := s.cpu(p), s.logged(p), s.requests(), time.Now()
	var times []time.Duration
	for i := 0; b.Loop(); i++ {
		name, began := s.nodes[i], time.Now()
		if err := s.patch(s.ctx, name, sick, "True", began); err != nil {
			b.Fatal(err)
		}
		times = append(times, s.await(actions, i+1, name)[name].Sub(began))
		s.pause(s.ctx, pace)
	}
	s.await(ended, len(times), s.nodes[:len(times)]...)
	s.keepOne()
	s.pause(s.ctx, time.Second)
	spent := s.cpu(p) - cpu - time.Duration(beating*float64(time.Since(started)))
	count := float64(len(times))
	s.tellRequests(b, asked, s.requests(), len(times))
	b.ReportMetric(float64(spent.Microseconds())/1000/count, "cpu-ms/fault")
	b.ReportMetric((s.logged(p)-logged)/count, "log-KiB/fault")
	for _, percent := range []int{50, 99} {
		action, least := percentile(times, percent), percentile(bare, percent)
		b.ReportMetric(action, fmt.Sprintf("ms-to-action-p%d", percent))
		b.ReportMetric(least, fmt.Sprintf("ms-bare-p%d", percent))
		b.ReportMetric(action/least, fmt.Sprintf("x-bare-p%d", percent))
	}
}

// percentile is in milliseconds.
func percentile(times []time.Duration, percent int) float64 {
	sorted := slices.Sorted(slices.Values(times))
	return float64(sorted[(len(sorted)-1)*percent/100].Microseconds()) / 1000
}

// burst lets half of the nodes fall sick at once.
func (s *scene) burst(b *testing.B) {
	remediations, stop := s.watchRemediations(false)
	defer stop()
	began := time.Now()
	nodes := s.nodes[len(s.nodes)-burst:]
	s.parallel(nodes, func(ctx context.Context, name string) error { return s.patch(ctx, name, sick, "True", began) })
	written := time.Since(began)
	s.await(remediations, burst, nodes...)
	whole := time.Since(began)
	b.ReportMetric(written.Seconds(), "s-to-write-burst")
	b.ReportMetric(whole.Seconds(), "s-burst")
	b.ReportMetric((whole - written).Seconds(), "s-burst-beyond-writing")
}

// unrelated flips conditions that no policy names, without heartbeats.
func (s *scene) unrelated(b *testing.B, p program) {
	s.pause(s.ctx, idle) // the burst is over
	quiet := s.load(p)
	before, began := s.cpu(p), time.Now()
	for i := range flips {
		if err := s.patch(s.ctx, s.nodes[i], other, "False", time.Now()); err != nil {
			b.Fatal(err)
		}
	}
	s.pause(s.ctx, time.Second)
	spent := s.cpu(p) - before - time.Duration(quiet*float64(time.Since(began)))
	b.ReportMetric(float64(spent.Microseconds())/1000, "cpu-ms/20-flips")
	b.ReportMetric(quiet*1000, "quiet-ms/s")
}
