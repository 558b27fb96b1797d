package customplugin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/npd"
	"github.com/nodemend/nodemend/internal/child"
)

// Options of a monitor. All but ProblemInterval, AllowRepair and Groups are required.
type Options struct {
	// Clock says when rounds are due and when runs have started.
	Clock clock.Clock
	// Rand returns random numbers in [0, 1), by which intervals are up to a
	// tenth shorter than configured.
	Rand func() float64
	// ProblemInterval is how often, at least, the rules of a condition run
	// while it is not False and for ten minutes after it has become so.
	ProblemInterval time.Duration
	// AllowRepair lets NPD's health-checker repair what it finds, as it does by
	// default. Otherwise it is run with --enable-repair=false.
	AllowRepair bool
	// Metrics records every run of every rule, as "<source>/<reason>" or
	// "<source>/<condition>/<reason>".
	Metrics *checks.Metrics
	// Groups end what plugins leave behind outside their process groups; nil: nobody
	// does.
	Groups *child.Groups
}

// Monitor runs the rules of one configuration file.
//
// All rules of one condition are a group, and so is each temporary rule by
// itself. Groups run at the file's interval, independently but for its limit of
// concurrent plugins. Each round of a group ends with at most one report: the
// condition, or for a temporary rule that did not succeed an event.
type Monitor struct {
	config  Config
	options Options
	execute func(context.Context, rule) result
	count   func(reason string, n int64) error
	groups  []*group
	// slots limits how many plugins run at once.
	slots chan struct{}
}

// New returns a monitor for config.
func New(config Config, options Options) *Monitor {
	return &Monitor{
		config:  config,
		options: options,
		execute: func(ctx context.Context, r rule) result {
			if !options.AllowRepair && repairs(r) {
				r.args = withoutRepair(r.args)
			}
			return execute(ctx, r, config.maxOutput, options.Groups)
		},
		count:  npd.CountProblem,
		groups: newGroups(config, options),
		slots:  make(chan struct{}, max(1, min(config.concurrency, len(config.rules)))),
	}
}

// String names the monitor in NPD's logs.
func (m *Monitor) String() string { return "custom-plugin-monitor " + m.config.name }

// ConditionTypes are the conditions that the monitor reports: those with a
// permanent rule, in the order of the file.
func (m *Monitor) ConditionTypes() []string {
	var all []string
	for _, g := range m.groups {
		if !g.temporary() {
			all = append(all, g.healthy.Type)
		}
	}
	return all
}

// Run runs every group at its interval, the first time at once, until ctx ends, which
// also carries the logger. Plugins that run are killed then, and waited for, at most for
// [checks.Grace].
func (m *Monitor) Run(ctx context.Context, send checks.Send) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("config", m.config.name))
	m.prepare(ctx)
	var groups sync.WaitGroup
	for _, g := range m.groups {
		groups.Go(func() { m.loop(ctx, g, send) })
	}
	groups.Wait()
	return nil
}

// prepare shows what is known before the first run.
func (m *Monitor) prepare(ctx context.Context) {
	for i, r := range m.config.rules {
		if repairs(r) && !m.options.AllowRepair {
			klog.FromContext(ctx).Info("health-checker is run with --enable-repair=false: repairs are the controller's; "+
				"customPlugins.allowRepair in the detector's configuration lets it repair", "rule", i, "args", r.args)
		}
		if r.own {
			klog.FromContext(ctx).Info("Plugin of node-problem-detector is run by this program: there is none at its path", "rule", i, "path", r.path)
		}
		m.countProblem(ctx, r.reason, 0)
	}
}

// Trigger makes every group run at once, or right after the round that is under
// way, and once more soon afterwards. It does not wait for that, and several calls
// may have the effect of one.
func (m *Monitor) Trigger() {
	for _, g := range m.groups {
		select {
		case g.trigger <- struct{}{}:
		default:
		}
	}
}

// Healthy returns an error if a round has been under way for much longer than
// its plugins' time-outs explain, most likely since nobody takes its report. A
// plugin that can't be killed is no such error: a restart would not help.
func (m *Monitor) Healthy() error {
	// At worst all rules wait for each other.
	var explained time.Duration
	for _, r := range m.config.rules {
		explained += r.timeout + checks.Late
	}
	limit := max(time.Minute, 3*explained)
	for _, g := range m.groups {
		since := g.busySince.Load()
		if since == nil {
			continue
		}
		if age := m.options.Clock.Since(*since); age > limit {
			return fmt.Errorf("%s: a round of %s is under way for %s, although all time-outs together are %s: its reports are not taken",
				m.config.name, g, age.Round(time.Second), explained)
		}
	}
	return nil
}

func (m *Monitor) countProblem(ctx context.Context, reason string, n int64) {
	if !m.config.metricsReporting {
		return
	}
	if err := m.count(reason, n); err != nil {
		klog.FromContext(ctx).Error(err, "Problem is missing in the metric problem_counter", "reason", reason)
	}
}
