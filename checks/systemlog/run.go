package systemlog

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks"
)

const (
	// minBackoff and maxBackoff bound how long after a failure a log is opened
	// again. It doubles unless the log could be read in between.
	minBackoff = time.Second
	maxBackoff = time.Minute
	// stopGrace is how long Stop waits for a log to be closed.
	stopGrace = time.Second
)

// Run reads the log, and opens it again and again, until ctx ends, which also carries
// the logger. A log that can't be opened is no error; one that can't be closed within a
// second then is abandoned.
func (m *Monitor) Run(ctx context.Context, send checks.Send) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("monitor", m.config.Source, "plugin", m.config.Plugin))
	if err := m.prepare(ctx); err != nil {
		return err
	}
	m.loop(ctx, send)
	return nil
}

func (m *Monitor) loop(ctx context.Context, send checks.Send) {
	backoff := minBackoff
	for {
		err := m.follow(ctx, send)
		if ctx.Err() != nil {
			return
		}
		m.advance()
		if m.cause == nil {
			backoff = minBackoff
			klog.FromContext(ctx).Error(err, "Log can't be read; until it can be, its conditions are not reported", "retryAfter", backoff.String())
		} else {
			klog.FromContext(ctx).V(2).Info("Log still can't be read", "err", err, "retryAfter", backoff.String())
		}
		m.cause = err
		if !m.backOff(ctx, backoff) {
			return
		}
		m.advance()
		backoff = min(2*backoff, maxBackoff)
	}
}

// backOff returns false if the monitor is being stopped.
func (m *Monitor) backOff(ctx context.Context, d time.Duration) bool {
	timer := m.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-m.triggered:
		m.wanted = m.options.Clock.Now()
	case <-ctx.Done():
		return false
	}
	return true
}

// follow opens the log and reads it until it ends or can't be read, and says why,
// or until the monitor is being stopped.
func (m *Monitor) follow(ctx context.Context, send checks.Send) error {
	entries := make(chan entry)
	ended := make(chan error, 1)
	asked := make(chan struct{}, 1)
	from := m.position.open(m.options.Clock.Now())
	m.backlog = true
	go func() { ended <- m.read(ctx, from, entries, asked) }()
	for {
		select {
		case e := <-entries:
			switch {
			case e.log != nil:
				m.take(ctx, e.log, send)
			case !e.readUpTo.IsZero():
				m.caughtUp(ctx, e.readUpTo, send)
			}
			m.advance()
		case err := <-ended:
			return err
		case <-m.triggered:
			m.wanted = m.options.Clock.Now()
			select {
			case asked <- struct{}{}:
			default: // it has not come to that yet
			}
		case <-ctx.Done():
			return m.leave(ctx, ended)
		}
	}
}

// leave gives the log time to be closed.
func (m *Monitor) leave(ctx context.Context, ended <-chan error) error {
	limit := m.options.Clock.NewTimer(stopGrace)
	defer limit.Stop()
	select {
	case err := <-ended:
		return err
	case <-limit.C():
		klog.FromContext(ctx).Info("Log is abandoned at shutdown: closing it hangs")
		return ctx.Err()
	}
}

// caughtUp takes in that the log has been read up to a time.
func (m *Monitor) caughtUp(ctx context.Context, readUpTo time.Time, send checks.Send) {
	m.position.caughtUp()
	m.backlog = false
	asked := !m.wanted.IsZero() && !readUpTo.Before(m.wanted)
	// A negative age comes from a clock that was set back.
	if age := readUpTo.Sub(m.reported); asked || age < 0 || age >= m.options.Interval {
		if conditions := m.conditions.at(readUpTo); len(conditions) > 0 && !send(&checks.Report{Source: m.config.Source, Observations: conditions}) {
			return
		}
		m.reported, m.wanted = readUpTo, time.Time{}
	}
	if m.cause != nil {
		klog.FromContext(ctx).Info("Log is read again")
		m.cause = nil
	}
}

// take matches the log's next line against all rules.
func (m *Monitor) take(ctx context.Context, log *logLine, send checks.Send) {
	if !m.position.isNew(log.Timestamp) {
		return
	}
	m.buffer.push(log)
	for i, rule := range m.config.Rules {
		message, first, found := m.buffer.match(m.patterns[i])
		if !found {
			continue
		}
		if rule.PatternGeneratedMessageSuffix != "" {
			message += "; " + rule.PatternGeneratedMessageSuffix
		}
		klog.FromContext(ctx).V(2).Info("Log matches a rule", "reason", rule.Reason, "condition", rule.Condition, "message", message)
		report := &checks.Report{Source: m.config.Source}
		if rule.Type == checks.Permanent {
			now := m.options.Clock.Now()
			condition, changed := m.conditions.matched(rule.Condition, match{rule.Reason, message, m.happened(log, now)}, now)
			if !changed {
				continue
			}
			report.Observations = []checks.Observation{condition}
		} else {
			report.Events = []checks.Event{{At: first, Reason: rule.Reason, Message: message}}
			m.countProblem(ctx, rule.Reason, 1)
		}
		send(report)
	}
}

// happened is when a line counts as written. A line that is there when the log is
// opened goes by its own time stamp, but one that comes later is new: stamps may
// be of another time zone, or of a clock that is wrong.
func (m *Monitor) happened(log *logLine, now time.Time) time.Time {
	if m.backlog && log.Timestamp.Before(now) {
		return log.Timestamp
	}
	return now
}

func (m *Monitor) countProblem(ctx context.Context, reason string, n int64) {
	if !m.config.MetricsReporting() {
		return
	}
	if err := m.count(reason, n); err != nil {
		klog.FromContext(ctx).Error(err, "Problem could not be counted", "reason", reason)
	}
}
