package systemlog

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/npd"
)

const (
	defaultInterval = 30 * time.Second
	// maxSilence is for how long at least a monitor may do nothing. Between two
	// attempts to open a log it does nothing for maxBackoff.
	maxSilence = 2 * maxBackoff
)

// Options of a monitor.
type Options struct {
	// Clock measures all times. Required.
	Clock clock.Clock
	// Interval between two reports of the conditions; 30 s if zero.
	Interval time.Duration
	// ClearAfter is how long after its last match a condition becomes False again,
	// by its type; without an entry, or with zero, it stays True. That counts from
	// when the line was seen or, for a line that the log had when it was opened,
	// from the line's time stamp.
	ClearAfter map[string]time.Duration
	// Journalctl is the command that the plugin journald runs; journalctl from the
	// PATH if empty.
	Journalctl string
}

// Monitor watches one log.
//
// A line that matches a permanent rule is reported at once, with the condition
// True and, as At, the time at which the monitor saw it. Besides, all
// conditions are reported at an interval while the log can be read. Their
// At is then a time at which all that had been written to the log was
// read. The first such report waits until the lines of the lookback have been.
//
// A line that matches a temporary rule is reported as an event with the time
// stamp of the first line that is part of the match.
type Monitor struct {
	config  Config
	options Options
	read    readFunc
	uptime  func() (time.Duration, error)
	count   func(reason string, n int64) error

	triggered chan struct{}
	// progress is when the monitor last got on; nil before Run.
	progress atomic.Pointer[time.Time]

	// What follows belongs to Run.
	buffer     *buffer
	patterns   []*pattern // of the rules
	conditions *conditions
	position   position
	backlog    bool      // the log has not been read up to its end since it was opened
	cause      error     // why the log can't be read; nil: it can, as far as is known
	reported   time.Time // At of the latest report
	wanted     time.Time // a report of this time or later was asked for
}

// New returns a monitor for config, which is one that [Load] or [Parse] has
// returned.
func New(config Config, options Options) *Monitor {
	if options.Interval == 0 {
		options.Interval = defaultInterval
	}
	if options.Journalctl == "" {
		options.Journalctl = "journalctl"
	}
	patterns := make([]*pattern, len(config.Rules))
	for i, rule := range config.Rules {
		patterns[i] = newPattern(rule.Pattern)
	}
	return &Monitor{
		config:     config,
		options:    options,
		read:       newReader(config, options),
		uptime:     npd.Uptime,
		count:      npd.CountProblem,
		triggered:  make(chan struct{}, 1),
		buffer:     newBuffer(config.BufferSize),
		patterns:   patterns,
		conditions: newConditions(checks.WithoutProblem(config.Conditions), options.ClearAfter),
	}
}

// String names the monitor in NPD's logs.
func (m *Monitor) String() string { return m.config.Source }

// ConditionTypes are the types of the conditions that the monitor reports.
func (m *Monitor) ConditionTypes() []string {
	all := make([]string, len(m.config.Conditions))
	for i, c := range m.config.Conditions {
		all[i] = c.Type
	}
	return all
}

// Trigger asks for a report of all conditions as soon as the log has been read up
// to now, which takes about two seconds at most. A log that could not be read is
// tried again at once. Trigger never blocks.
func (m *Monitor) Trigger() {
	select {
	case m.triggered <- struct{}{}:
	default:
	}
}

// Healthy returns an error if the monitor has made no progress for two minutes or
// three intervals, whichever is longer. That a log is missing or can't be read is
// no reason for one: it is logged, and the heartbeats of its conditions age.
func (m *Monitor) Healthy() error {
	last := m.progress.Load()
	if last == nil {
		return nil
	}
	if age := m.options.Clock.Since(*last); age > max(maxSilence, 3*m.options.Interval) {
		return fmt.Errorf("log monitor %s has made no progress for %s: reading its log hangs, or its reports are not taken",
			m.config.Source, age.Round(time.Second))
	}
	return nil
}

func (m *Monitor) advance() {
	now := m.options.Clock.Now()
	m.progress.Store(&now)
}

func (m *Monitor) prepare(ctx context.Context) error {
	now := m.options.Clock.Now()
	uptime, err := m.uptime()
	if err != nil {
		return fmt.Errorf("log monitor %s: %w", m.config.Source, err)
	}
	start, err := npd.StartTime(now, uptime, m.config.Lookback, m.config.Delay)
	if err != nil {
		return fmt.Errorf("log monitor %s: %w", m.config.Source, err)
	}
	m.position.begin(start, now)
	m.advance()
	for _, rule := range m.config.Rules {
		m.countProblem(ctx, rule.Reason, 0)
	}
	return nil
}
