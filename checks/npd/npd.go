// Package npd is the edge to node-problem-detector (NPD): monitors of this module run in
// NPD's core, and what they report passes through it, without knowing its types.
package npd

import (
	"context"
	"fmt"

	"k8s.io/node-problem-detector/pkg/problemdetector"
	"k8s.io/node-problem-detector/pkg/types"

	"github.com/nodemend/nodemend/checks"
)

// Monitor reports what it sees on this node.
type Monitor interface {
	// Start begins to watch. The channel is closed after Stop; nil: there are no
	// reports.
	Start() (<-chan *checks.Report, error)
	// Stop ends the monitor. It may be called while nobody receives its reports.
	Stop()
}

// Run runs the monitors in NPD's core until ctx ends, and hands each of their reports
// to all who take them, one after the other.
func Run(ctx context.Context, monitors []Monitor, takers ...func(*checks.Report)) error {
	adapted := make([]types.Monitor, len(monitors))
	for i, m := range monitors {
		adapted[i] = monitor{Monitor: m, ctx: ctx}
	}
	exporters := make([]types.Exporter, len(takers))
	for i, take := range takers {
		exporters[i] = exporter(take)
	}
	return problemdetector.NewProblemDetector(adapted, exporters).Run(ctx)
}

// Declared returns the conditions that a file of NPD's declares, as they are without a
// problem. Nobody has seen them yet: they have neither a status nor a time.
func Declared(conditions []types.Condition) []checks.Observation {
	declared := make([]checks.Observation, len(conditions))
	for i, c := range conditions {
		declared[i] = checks.Observation{Type: c.Type, Reason: c.Reason, Message: c.Message}
	}
	return declared
}

// monitor is one as NPD knows it.
type monitor struct {
	Monitor
	ctx context.Context // held since NPD's Start takes none
}

// String names the monitor in NPD's logs.
func (m monitor) String() string { return fmt.Sprint(m.Monitor) }

// Start passes reports on until ctx ends.
func (m monitor) Start() (<-chan *types.Status, error) {
	in, err := m.Monitor.Start()
	if err != nil || in == nil {
		return nil, err
	}
	out := make(chan *types.Status)
	go func() {
		defer close(out)
		for report := range in {
			select {
			case out <- statusOf(report):
			case <-m.ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// exporter is who takes reports, as NPD knows him.
type exporter func(*checks.Report)

// ExportProblems implements types.Exporter.
func (e exporter) ExportProblems(status *types.Status) { e(reportOf(status)) }

// statusOf is a report in NPD's words, in which the time of an observation is a
// transition.
func statusOf(r *checks.Report) *types.Status {
	status := &types.Status{Source: r.Source}
	for _, o := range r.Observations {
		status.Conditions = append(status.Conditions, types.Condition{
			Type: o.Type, Status: types.ConditionStatus(o.Status), Transition: o.At, Reason: o.Reason, Message: o.Message,
		})
	}
	for _, e := range r.Events {
		status.Events = append(status.Events, types.Event{Severity: types.Warn, Timestamp: e.At, Reason: e.Reason, Message: e.Message})
	}
	return status
}

// reportOf undoes statusOf.
func reportOf(s *types.Status) *checks.Report {
	report := &checks.Report{Source: s.Source}
	for _, c := range s.Conditions {
		report.Observations = append(report.Observations, checks.Observation{
			Type: c.Type, Status: checks.Status(c.Status), At: c.Transition, Reason: c.Reason, Message: c.Message,
		})
	}
	for _, e := range s.Events {
		report.Events = append(report.Events, checks.Event{At: e.Timestamp, Reason: e.Reason, Message: e.Message})
	}
	return report
}
