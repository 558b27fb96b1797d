package systemstats

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.opencensus.io/stats/view"
	ssmtypes "k8s.io/node-problem-detector/pkg/systemstatsmonitor/types"
	"k8s.io/node-problem-detector/pkg/util/metrics"
)

// maxName is how long the name of a metric may be in OpenCensus.
const maxName = 255

// loadConfig reads the configuration file at path and finds all mistakes that NPD would
// end the process for. Paths in what it returns are absolute.
func loadConfig(path string) (*ssmtypes.SystemStatsConfig, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of a system-stats monitor: %w", err)
	}
	config := &ssmtypes.SystemStatsConfig{}
	if err := json.Unmarshal(data, config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := config.ApplyConfiguration(); err != nil {
		return nil, fmt.Errorf("%s: %w; a duration such as 60s is accepted", path, err)
	}
	if err := errors.Join(config.Validate(), validateNames(config), validateNet(config.NetConfig.MetricsConfigs)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if known := &config.OsFeatureConfig.KnownModulesConfigPath; !filepath.IsAbs(*known) {
		if *known, err = filepath.Abs(filepath.Join(filepath.Dir(path), *known)); err != nil {
			return nil, err
		}
	}
	return config, nil
}

// metricsOf are the metrics of each collector, by its name in the configuration.
func metricsOf(c *ssmtypes.SystemStatsConfig) map[string]*map[string]ssmtypes.MetricConfig {
	return map[string]*map[string]ssmtypes.MetricConfig{
		"cpu":       &c.CPUConfig.MetricsConfigs,
		"disk":      &c.DiskConfig.MetricsConfigs,
		"host":      &c.HostConfig.MetricsConfigs,
		"memory":    &c.MemoryConfig.MetricsConfigs,
		"net":       &c.NetConfig.MetricsConfigs,
		"osFeature": &c.OsFeatureConfig.MetricsConfigs,
	}
}

// validateNames refuses names of metrics that OpenCensus refuses. It takes each name
// once in a process, even for the same metric.
func validateNames(c *ssmtypes.SystemStatsConfig) error {
	var mistakes []error
	used := map[string]string{}
	collectors := metricsOf(c)
	for _, collector := range slices.Sorted(maps.Keys(collectors)) {
		configs := *collectors[collector]
		for _, metric := range slices.Sorted(maps.Keys(configs)) {
			name := configs[metric].DisplayName
			if name == "" {
				continue
			}
			field := fmt.Sprintf("%s.metricsConfigs[%q].displayName: %q", collector, metric, name)
			switch {
			case len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }):
				mistakes = append(mistakes, fmt.Errorf("%s is not accepted, up to %d printable ASCII characters are", field, maxName))
			case used[name] != "":
				mistakes = append(mistakes, fmt.Errorf("%s is that of %s, too; choose another", field, used[name]))
			case view.Find(name) != nil:
				mistakes = append(mistakes, fmt.Errorf("%s is that of another metric of the process, which may come from another configuration file; choose another", field))
			}
			used[name] = metric
		}
	}
	return errors.Join(mistakes...)
}

// validateNet refuses a network collector that lacks one of its metrics or its
// name: NPD can't run it.
func validateNet(configs map[string]ssmtypes.MetricConfig) error {
	if len(configs) == 0 {
		return nil
	}
	var mistakes []error
	for _, metric := range netMetrics() {
		if configs[string(metric)].DisplayName == "" {
			mistakes = append(mistakes, fmt.Errorf("net.metricsConfigs[%q].displayName: is missing; the network collector needs all of its metrics, or none", metric))
		}
	}
	return errors.Join(mistakes...)
}

func netMetrics() []metrics.MetricID {
	return []metrics.MetricID{
		metrics.NetDevRxBytes, metrics.NetDevRxPackets, metrics.NetDevRxErrors, metrics.NetDevRxDropped,
		metrics.NetDevRxFifo, metrics.NetDevRxFrame, metrics.NetDevRxCompressed, metrics.NetDevRxMulticast,
		metrics.NetDevTxBytes, metrics.NetDevTxPackets, metrics.NetDevTxErrors, metrics.NetDevTxDropped,
		metrics.NetDevTxFifo, metrics.NetDevTxCollisions, metrics.NetDevTxCarrier, metrics.NetDevTxCompressed,
	}
}
