package detector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/customplugin"
	"github.com/nodemend/nodemend/checks/exporter"
	"github.com/nodemend/nodemend/checks/npd"
	"github.com/nodemend/nodemend/checks/systemlog"
	"github.com/nodemend/nodemend/checks/systemstats"
	"github.com/nodemend/nodemend/internal/child"
)

// problemInterval is how often checks run, at least, that do not find health: the
// report of a problem must not become outdated.
const problemInterval = time.Minute

// monitor is what the detector asks of a monitor beyond NPD.
type monitor interface {
	npd.Monitor
	// ConditionTypes are the node conditions that it reports.
	ConditionTypes() []string
	// Healthy returns an error if it makes no progress.
	Healthy() error
	// Trigger makes it look at the node at once. It does not wait for that.
	Trigger()
}

// files are the configuration files of node-problem-detector's monitors.
type files struct {
	customPlugins []customplugin.Config
	systemLogs    []systemlog.Config
}

// loadFiles reads all of them; the error names every mistake in every file.
func loadFiles(ctx context.Context, options Options) (f files, err error) {
	log := klog.FromContext(ctx)
	var errs []error
	for _, path := range options.CustomPlugins {
		c, err := customplugin.Load(path)
		errs = append(errs, err)
		for _, warning := range c.Warnings {
			log.Info("Configuration of custom plugins", "warning", warning)
		}
		f.customPlugins = append(f.customPlugins, c)
	}
	for _, path := range options.SystemLogs {
		c, err := systemlog.Load(path)
		errs = append(errs, err)
		for _, warning := range c.Warnings {
			log.Info("Configuration of a system log", "warning", warning)
		}
		f.systemLogs = append(f.systemLogs, c)
	}
	return f, errors.Join(errs...)
}

// othersReasons are those with which plugins set a condition, and no log does.
func (f files) othersReasons(condition string) (others []string) {
	for _, file := range f.customPlugins {
		for _, reason := range file.Reasons()[condition] {
			if !slices.ContainsFunc(f.systemLogs, func(log systemlog.Config) bool { return slices.Contains(log.Reasons()[condition], reason) }) {
				others = append(others, reason)
			}
		}
	}
	return others
}

// newMonitors makes all monitors, and finds out what the exporter has to know of
// their conditions.
func (d *detector) newMonitors(ctx context.Context) error {
	metrics, err := checks.NewMetrics(d.registry)
	if err != nil {
		return fmt.Errorf("registering the metrics of checks: %w", err)
	}
	f, err := loadFiles(ctx, d.options)
	if err != nil {
		return err
	}
	c := d.options.Config
	if err := d.declareProblems(f); err != nil {
		return err
	}
	groups, err := d.pluginGroups(ctx, f)
	if err != nil {
		return err
	}
	for _, file := range f.customPlugins {
		d.monitors = append(d.monitors, customplugin.New(file, customplugin.Options{
			Clock: clock.RealClock{}, Rand: rand.Float64, Metrics: metrics,
			ProblemInterval: c.CustomPlugins.ProblemInterval.Duration, AllowRepair: c.CustomPlugins.AllowRepair,
			Groups: groups,
		}))
	}
	clearAfter := map[string]time.Duration{}
	for name, condition := range c.Conditions {
		clearAfter[name] = condition.ClearAfter.Duration
	}
	for _, file := range f.systemLogs {
		m := systemlog.New(file, systemlog.Options{Clock: clock.RealClock{}, ClearAfter: clearAfter})
		for _, t := range m.ConditionTypes() {
			d.latches[corev1.NodeConditionType(t)] = exporter.Latch{ClearAfter: clearAfter[t], Others: f.othersReasons(t)}
		}
		d.monitors = append(d.monitors, m)
	}
	for _, path := range d.options.SystemStats {
		m, err := systemstats.New(ctx, path, systemstats.Options{Clock: clock.RealClock{}, Registerer: d.registry})
		if err != nil {
			return err
		}
		d.monitors = append(d.monitors, m)
	}
	for name, condition := range c.Conditions {
		d.thresholds[corev1.NodeConditionType(name)] = exporter.Thresholds{Failure: condition.FailureThreshold, Success: condition.SuccessThreshold}
	}
	if err := refuseKubelets(d.monitors); err != nil {
		return err
	}
	d.monitors = combine(d.monitors)
	if err := d.addChecks(ctx, metrics); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Conditions)) {
		if why := d.vain(name, c.Conditions[name].ClearAfter.Duration > 0); why != "" {
			klog.FromContext(ctx).Info("Settings of a condition are without effect", "condition", name, "why", why)
		}
	}
	if len(d.monitors) == 0 {
		return errors.New("there is nothing to do: no check is enabled and no configuration of a monitor is given")
	}
	return nil
}

// vain says why settings of a condition have no effect; "" if they have. clears is whether they
// say when it clears.
func (d *detector) vain(condition string, clears bool) string {
	_, latched := d.latches[corev1.NodeConditionType(condition)]
	_, checked := d.absences[corev1.NodeConditionType(condition)]
	switch {
	case checked:
		return "those of its check count"
	case !slices.ContainsFunc(d.monitors, func(m monitor) bool { return slices.Contains(m.ConditionTypes(), condition) }):
		return "nothing reports it: no configuration file of a monitor has it"
	case clears && !latched:
		return "clearAfter is for conditions that a log sets, and none sets this"
	default:
		return ""
	}
}

// pluginGroups returns what ends processes that plugins leave behind. Where control groups
// can't be made plugins run all the same.
func (d *detector) pluginGroups(ctx context.Context, f files) (*child.Groups, error) {
	if len(f.customPlugins) == 0 {
		return nil, nil
	}
	killed := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "nodemend_plugin_orphans_killed_total",
		Help: "Processes that custom plugins have left behind outside their process groups, and that were killed.",
	})
	groups, err := child.NewGroups(func(count int) { killed.Add(float64(count)) })
	if err != nil {
		klog.FromContext(ctx).Info("Processes that plugins leave behind outside their process groups go on", "why", err.Error())
		return nil, nil
	}
	d.close = append(d.close, groups.Close)
	if err := d.registry.Register(killed); err != nil {
		return nil, fmt.Errorf("registering the metric of what plugins leave behind: %w", err)
	}
	return groups, nil
}

// refuseKubelets returns an error for monitors that would write a condition of
// the kubelet's: both would overwrite each other.
func refuseKubelets(monitors []monitor) error {
	var errs []error
	for _, m := range monitors {
		for _, t := range m.ConditionTypes() {
			switch corev1.NodeConditionType(t) {
			case corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable:
				errs = append(errs, fmt.Errorf("%s: condition %s belongs to Kubernetes itself; choose another name", m, t))
			}
		}
	}
	return errors.Join(errs...)
}

// addChecks adds a monitor for each check that is enabled, unless the monitor of
// a file already reports its condition.
func (d *detector) addChecks(ctx context.Context, metrics *checks.Metrics) error {
	server := d.serverClock
	if d.core == nil {
		server = nil
	}
	enabled, err := newChecks(d.options, d.core, server, d.registry)
	if err != nil {
		return err
	}
	for _, off := range enabled.off {
		klog.FromContext(ctx).Info("Check is off", "why", off.String())
	}
	d.close = append(d.close, enabled.close)
	d.ready = enabled.ready
	for _, c := range enabled.list {
		t, run := c.ConditionType, c.Settings(&d.options.Config.Checks)
		if slices.ContainsFunc(d.monitors, func(m monitor) bool { return slices.Contains(m.ConditionTypes(), t) }) {
			klog.FromContext(ctx).Info("Check is off: a configuration file of another monitor sets its condition", "check", c.Name, "condition", t)
			continue
		}
		d.absences[corev1.NodeConditionType(t)] = c.Absences
		d.milder[corev1.NodeConditionType(t)] = c.Milder
		d.thresholds[corev1.NodeConditionType(t)] = exporter.Thresholds{Failure: run.FailureThreshold, Success: run.SuccessThreshold}
		d.monitors = append(d.monitors, checks.NewMonitor(c.Kind, c.check, checks.MonitorOptions{
			Interval: run.Interval.Duration, ProblemInterval: problemInterval,
			StartupGrace: run.StartupGrace.Duration, Boot: d.booted,
			Rand: rand.Float64, Clock: clock.RealClock{}, Metrics: metrics,
		}))
	}
	return nil
}

// named are the types of condition that the configuration names: also those of
// checks that have nothing to check on this node for now.
func (d *detector) named() []corev1.NodeConditionType {
	all := []corev1.NodeConditionType{}
	for _, m := range d.monitors {
		for _, t := range m.ConditionTypes() {
			all = append(all, corev1.NodeConditionType(t))
		}
	}
	for _, kind := range Kinds() {
		if d.options.Config.Checks.Runs(kind.Name) {
			all = append(all, corev1.NodeConditionType(kind.ConditionType))
		}
	}
	return all
}
