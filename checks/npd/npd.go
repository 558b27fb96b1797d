// Package npd is the edge to node-problem-detector (NPD). All that this module uses of NPD
// comes through it, in the module's own types: NPD's core, in which monitors run and
// through which their reports pass; its metrics; the flags of its programs; and its
// plugin health-checker. The exception is package systemstats, which guards a monitor of
// NPD's.
//
// Two packages decode NPD's configuration files into types of their own, customplugin and
// systemlog. Tests here compare these with NPD's.
package npd

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	"k8s.io/node-problem-detector/pkg/problemdetector"
	"k8s.io/node-problem-detector/pkg/types"

	"github.com/nodemend/nodemend/checks"
)

// Monitor reports what it sees on this node.
type Monitor interface {
	// Run reports until ctx ends, and returns within a second or so then: what hangs
	// is abandoned. It is called once. An error means that it could not begin.
	Run(ctx context.Context, send checks.Send) error
}

// Run runs the monitors in NPD's core until ctx ends, and hands each of their reports
// to all who take them, one after the other.
func Run(ctx context.Context, monitors []Monitor, takers ...func(*checks.Report)) error {
	adapted := make([]types.Monitor, len(monitors))
	for i, m := range monitors {
		adapted[i] = newMonitor(ctx, m)
	}
	exporters := make([]types.Exporter, len(takers))
	for i, take := range takers {
		exporters[i] = exporter(take)
	}
	return problemdetector.NewProblemDetector(adapted, exporters).Run(ctx)
}

// monitor is one as NPD knows it.
type monitor struct {
	Monitor
	ctx    context.Context // held since NPD's Start takes none
	cancel context.CancelFunc
	out    chan *types.Status
	done   chan struct{}
}

func newMonitor(ctx context.Context, m Monitor) *monitor {
	ctx, cancel := context.WithCancel(ctx)
	return &monitor{Monitor: m, ctx: ctx, cancel: cancel, out: make(chan *types.Status), done: make(chan struct{})}
}

// String names the monitor in NPD's logs.
func (m *monitor) String() string { return fmt.Sprint(m.Monitor) }

// Start implements types.Monitor.
func (m *monitor) Start() (<-chan *types.Status, error) {
	go func() {
		defer close(m.done)
		defer close(m.out)
		if err := m.Run(m.ctx, m.send); err != nil {
			klog.FromContext(m.ctx).Error(err, "Monitor can't begin", "monitor", m.String())
		}
	}()
	return m.out, nil
}

func (m *monitor) send(report *checks.Report) bool {
	if m.ctx.Err() != nil { // NPD takes one more, and hands it to nobody
		return false
	}
	select {
	case m.out <- statusOf(report):
		return true
	case <-m.ctx.Done():
		return false
	}
}

// Stop implements types.Monitor: it waits until the monitor has ended. NPD calls it
// after Start.
func (m *monitor) Stop() {
	m.cancel()
	<-m.done
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
