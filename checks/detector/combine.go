package detector

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodemend/nodemend/checks"
)

// combiner makes one condition of those that several monitors report by the same
// type, as configurations of node-problem-detector do: it is True if any of them
// says so, and False only when all of them do. Otherwise each would overwrite
// what the others have found.
type combiner struct {
	// mu is held until a report is handed over: reports must not overtake each
	// other after they were combined.
	mu sync.Mutex
	// latest are the latest reports by type and by monitor; nil: none yet.
	latest map[string][]*checks.Observation
	// reported is what was last made of them.
	reported map[string]checks.Observation
}

// combine lets monitors that share a type of condition report it together. The
// others are returned as they are.
func combine(monitors []monitor) []monitor {
	owners := map[string][]int{}
	for i, m := range monitors {
		for _, t := range m.ConditionTypes() {
			owners[t] = append(owners[t], i)
		}
	}
	c := &combiner{latest: map[string][]*checks.Observation{}, reported: map[string]checks.Observation{}}
	shares := map[int]map[string]int{} // by monitor: which of the reports of a type is its
	for t, indexes := range owners {
		if len(indexes) < 2 {
			continue
		}
		c.latest[t] = make([]*checks.Observation, len(indexes))
		for place, i := range indexes {
			if shares[i] == nil {
				shares[i] = map[string]int{}
			}
			shares[i][t] = place
		}
	}
	combined := slices.Clone(monitors)
	for i, places := range shares {
		combined[i] = &sharing{monitor: monitors[i], combiner: c, places: places}
	}
	return combined
}

// report takes in what the monitor at place has found and returns what all have;
// ok is false if that is nothing new. The mutex is held.
func (c *combiner) report(place int, condition checks.Observation) (combined checks.Observation, ok bool) {
	reports := c.latest[condition.Type]
	reports[place] = &condition
	combined, ok = judge(reports)
	if !ok {
		return checks.Observation{}, false
	}
	before, reported := c.reported[condition.Type]
	if reported && before.Status == combined.Status && !combined.At.After(before.At) {
		return checks.Observation{}, false // it would count as one more run that has seen it
	}
	c.reported[condition.Type] = combined
	return combined, true
}

// judge combines reports; ok is false while it is too early for that.
func judge(reports []*checks.Observation) (combined checks.Observation, ok bool) {
	var of [3][]*checks.Observation // problems, unknown, healthy
	for _, r := range reports {
		switch {
		case r == nil:
		case r.Status == checks.True:
			of[0] = append(of[0], r)
		case r.Status == checks.Unknown:
			of[1] = append(of[1], r)
		default:
			of[2] = append(of[2], r)
		}
	}
	switch {
	case len(of[0]) > 0:
		problem := join(of[0])
		problem.At = newest(of[0]) // each of them is enough
		return problem, true
	case len(of[0])+len(of[1])+len(of[2]) < len(reports):
		return checks.Observation{}, false
	case len(of[1]) > 0:
		unknown := join(of[1])
		unknown.At = newest(of[1])
		return unknown, true
	default:
		healthy := *of[2][0]
		healthy.At = oldest(of[2])
		return healthy, true
	}
}

// join returns one condition with every reason and message.
func join(conditions []*checks.Observation) checks.Observation {
	joined := *conditions[0]
	var reasons, messages []string
	for _, c := range conditions {
		if !slices.Contains(reasons, c.Reason) {
			reasons = append(reasons, c.Reason)
		}
		if !slices.Contains(messages, c.Message) {
			messages = append(messages, c.Message)
		}
	}
	joined.Reason, joined.Message = strings.Join(reasons, ","), strings.Join(messages, "; ")
	return joined
}

func newest(conditions []*checks.Observation) time.Time {
	return slices.MaxFunc(conditions, func(a, b *checks.Observation) int { return a.At.Compare(b.At) }).At
}

func oldest(conditions []*checks.Observation) time.Time {
	return slices.MinFunc(conditions, func(a, b *checks.Observation) int { return a.At.Compare(b.At) }).At
}

// sharing is a monitor that has conditions in common with others.
type sharing struct {
	monitor
	combiner *combiner
	places   map[string]int
}

// Run runs the monitor, and reports what its reports mean together with the others'.
func (s *sharing) Run(ctx context.Context, send checks.Send) error {
	return s.monitor.Run(ctx, func(report *checks.Report) bool {
		s.combiner.mu.Lock()
		defer s.combiner.mu.Unlock()
		return send(s.translate(report))
	})
}

// String names the monitor.
func (s *sharing) String() string { return fmt.Sprint(s.monitor) }

func (s *sharing) translate(report *checks.Report) *checks.Report {
	translated := &checks.Report{Source: report.Source, Events: report.Events}
	for _, condition := range report.Observations {
		if place, shared := s.places[condition.Type]; shared {
			var ok bool
			if condition, ok = s.combiner.report(place, condition); !ok {
				continue
			}
		}
		translated.Observations = append(translated.Observations, condition)
	}
	return translated
}
