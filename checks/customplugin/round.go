package customplugin

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks"
)

// confirmAfter is when a group runs once more after it was triggered: what was
// seen in the very second in which an action ended proves nothing.
const confirmAfter = 2 * time.Second

// loop runs round after round of one group until the monitor ends.
func (m *Monitor) loop(ctx context.Context, g *group, send checks.Send) {
	defer g.busySince.Store(nil)
	triggered := false
	for ctx.Err() == nil {
		select { // what was asked for so far is what begins now
		case <-g.trigger:
			triggered = true
		default:
		}
		started := m.options.Clock.Now()
		g.busySince.Store(&started)
		runs := m.round(ctx, g)
		if ctx.Err() != nil {
			return
		}
		if report := m.conclude(ctx, g, runs); report != nil && !send(report) {
			return
		}
		g.busySince.Store(nil)
		next := g.pace.next(m.options.Clock.Now(), m.options.Rand())
		if triggered {
			next = min(next, confirmAfter)
		}
		triggered = m.pause(ctx, g, next-m.options.Clock.Since(started))
	}
}

// round runs all rules of a group. Rules that were not run have no run.
func (m *Monitor) round(ctx context.Context, g *group) []*run {
	runs := make([]*run, len(g.rules))
	var attempts sync.WaitGroup
	for i := range g.rules {
		attempts.Go(func() { runs[i] = m.attempt(ctx, g, i) })
	}
	attempts.Wait()
	return runs
}

// attempt runs one rule. It returns nil if its previous run has not ended yet or
// the monitor is being stopped.
func (m *Monitor) attempt(ctx context.Context, g *group, i int) *run {
	r, logger := g.rules[i], klog.FromContext(ctx).WithValues("rule", g.labels[i], "plugin", g.rules[i].path)
	if g.stuck[i] != nil {
		select {
		case <-g.stuck[i]:
			g.stuck[i] = nil
			logger.Info("Plugin that could not be killed is gone; its rule is run again")
		default:
			return nil
		}
	}
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return nil
	}
	if ctx.Err() != nil {
		return nil
	}

	started := m.options.Clock.Now()
	ended := m.begin(ctx, r)
	limit := m.options.Clock.NewTimer(r.timeout + checks.Late)
	defer limit.Stop()
	var found result
	select {
	case found = <-ended:
	case <-limit.C():
		found = stuckResult(r)
		g.stuck[i] = ended
		logger.Error(nil, "Plugin can't be killed; its rule is not run again before it is gone", "timeout", r.timeout.String())
	case <-ctx.Done():
		m.leave(ended, logger)
		return nil
	}
	took := m.options.Clock.Since(started)
	m.options.Metrics.Record(g.labels[i], started, took, found.status)
	logger.V(2).Info("Plugin has run", "status", found.status, "took", took.String(), "message", found.message, "stderr", found.stderr)
	return &run{started: started, result: found}
}

// begin executes a rule on a goroutine of its own since the plugin may be one
// that can't be killed. The goroutine ends with the plugin.
func (m *Monitor) begin(ctx context.Context, r rule) <-chan result {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	ended := make(chan result, 1)
	go func() {
		defer cancel()
		ended <- m.execute(ctx, r)
	}()
	return ended
}

// leave waits at shutdown for a plugin that is being killed.
func (m *Monitor) leave(ended <-chan result, logger klog.Logger) {
	limit := m.options.Clock.NewTimer(checks.Grace)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C():
		logger.Info("Plugin is abandoned at shutdown: it can't be killed")
	}
}

// conclude makes of a round what is reported; nil: nothing.
func (m *Monitor) conclude(ctx context.Context, g *group, runs []*run) *checks.Report {
	now := m.options.Clock.Now()
	if g.temporary() {
		if runs[0] == nil || runs[0].result.status == checks.False {
			return nil
		}
		reason := g.rules[0].reason
		m.countProblem(ctx, reason, 1)
		return &checks.Report{Source: m.config.source, Events: []checks.Event{{
			At: now, Reason: reason, Message: runs[0].result.message,
		}}}
	}
	condition, ok := judge(g.healthy, g.rules, runs)
	if !ok {
		return nil
	}
	g.pace.saw(condition.Status, now)
	return &checks.Report{Source: m.config.source, Observations: []checks.Observation{condition}}
}

// pause waits for the next round. It returns whether that was triggered.
func (m *Monitor) pause(ctx context.Context, g *group, d time.Duration) (triggered bool) {
	timer := m.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-g.trigger:
		return true
	case <-timer.C():
	case <-ctx.Done():
	}
	return false
}
