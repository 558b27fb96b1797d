package systemstats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
	"k8s.io/node-problem-detector/pkg/systemstatsmonitor"
	ssmtypes "k8s.io/node-problem-detector/pkg/systemstatsmonitor/types"
	"k8s.io/node-problem-detector/pkg/types"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
)

// stopGrace is how long Stop waits for a collector that is at work.
const stopGrace = time.Second

// Options of a monitor. All are required.
type Options struct {
	// Clock bounds how long Stop takes.
	Clock clock.Clock
	// Registerer takes the gauge that tells which collectors are left out. Several
	// monitors may have the same.
	Registerer prometheus.Registerer
}

// Monitor is NPD's system-stats monitor, which only exports metrics, by OpenCensus.
type Monitor struct {
	path  string
	npd   types.Monitor
	clock clock.Clock
}

// New returns a monitor for the configuration file at path, which is in NPD's JSON
// schema. The error holds the mistakes in it. A collector of which New can't read
// what it needs is left out, for as long as the process runs: New logs that once
// and counts it in a gauge. ctx carries the logger.
func New(ctx context.Context, path string, options Options) (*Monitor, error) {
	return newMonitor(ctx, path, options, allProbes())
}

func newMonitor(ctx context.Context, path string, options Options, probes map[string]probe) (*Monitor, error) {
	config, err := loadConfig(path)
	if err != nil {
		return nil, err
	}
	disabled, err := disabledGauge(options.Registerer)
	if err != nil {
		return nil, err
	}
	logger := klog.FromContext(ctx).WithValues("config", path)
	collectors := metricsOf(config)
	for _, name := range slices.Sorted(maps.Keys(collectors)) {
		gauge := disabled.WithLabelValues(name)
		if len(*collectors[name]) == 0 {
			continue
		}
		if err := probes[name](config.ProcPath); err != nil {
			logger.Error(err, "Collector is left out, since what it reads can't be read", "collector", name)
			gauge.Inc()
			*collectors[name] = nil
		}
	}
	npd, err := construct(config)
	if err != nil {
		return nil, fmt.Errorf("%s: handing the configuration to node-problem-detector: %w", path, err)
	}
	return &Monitor{path: path, npd: npd, clock: options.Clock}, nil
}

func disabledGauge(registerer prometheus.Registerer) (*prometheus.GaugeVec, error) {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "nodemend_system_stats_collector_disabled",
		Help: "How many system-stats monitors do without this collector, since what it reads could not be read when they started.",
	}, []string{"collector"})
	err := registerer.Register(gauge)
	if registered := (prometheus.AlreadyRegisteredError{}); errors.As(err, &registered) {
		if existing, ok := registered.ExistingCollector.(*prometheus.GaugeVec); ok {
			return existing, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of the system-stats monitor: %w", err)
	}
	return gauge, nil
}

// construct makes NPD's monitor, which insists on reading a file and ends the
// process if it can't. The file is in memory: a node's disk may be full or
// read-only. It is gone when construct returns.
func construct(config *ssmtypes.SystemStatsConfig) (types.Monitor, error) {
	data, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("system-stats-monitor.json", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file in memory: %w", err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	file := os.NewFile(uintptr(fd), path)
	defer func() { _ = file.Close() }() // it has been read
	if _, err := file.Write(data); err != nil {
		return nil, err
	}
	switch read, err := os.ReadFile(path); {
	case err != nil:
		return nil, err
	case !bytes.Equal(read, data):
		return nil, fmt.Errorf("%s does not hold what was written to it", path)
	}
	return systemstatsmonitor.NewSystemStatsMonitorOrDie(path), nil
}

// String names the monitor in NPD's logs.
func (m *Monitor) String() string { return filepath.Base(m.path) }

// ConditionTypes is empty: the monitor reports no conditions.
func (m *Monitor) ConditionTypes() []string { return nil }

// Trigger does nothing: the monitor reports nothing that could be asked for.
func (m *Monitor) Trigger() {}

// Healthy returns nil: NPD's monitor does not tell whether it still collects. The
// age of its metrics does.
func (m *Monitor) Healthy() error { return nil }

// Run collects until ctx ends, which also carries the logger. It reports nothing. Then
// it waits for a collector that is at work, at most for a second: one that hangs on a
// dead file system is abandoned.
func (m *Monitor) Run(ctx context.Context, _ checks.Send) error {
	klog.FromContext(ctx).Info("System-stats monitor starts", "config", m.path)
	if _, err := m.npd.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.npd.Stop()
	}()
	limit := m.clock.NewTimer(stopGrace)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C():
		klog.FromContext(ctx).Info("System-stats monitor is abandoned at shutdown: a collector hangs", "config", m.path)
	}
	return nil
}
