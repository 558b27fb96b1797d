package npd

import (
	"time"

	"github.com/spf13/pflag"
	npd "k8s.io/node-problem-detector/cmd/options"
	"k8s.io/node-problem-detector/pkg/problemdaemon"
	"k8s.io/node-problem-detector/pkg/types"
)

// Flags that name the configuration files of a monitor.
const (
	CustomPluginsFlag = "config.custom-plugin-monitor"
	SystemLogsFlag    = "config.system-log-monitor"
	SystemStatsFlag   = "config.system-stats-monitor"
)

// Options are what NPD's command line says, as far as it has an effect.
type Options struct {
	PrintVersion bool
	// NodeName is that of --hostname-override; empty: not given.
	NodeName string

	// CustomPlugins, SystemLogs and SystemStats are paths of configuration files, those
	// with Old in the name by the old names of their flags.
	CustomPlugins, OldCustomPlugins []string
	SystemLogs, OldSystemLogs       []string
	SystemStats                     []string

	// KubernetesExporter: it writes to the API server at all.
	KubernetesExporter       bool
	WriteEvents, WriteStatus bool
	EventNamespace           string
	Heartbeat                time.Duration
	APIServerOverride        string
	QPS                      float32
	Burst                    int
	HealthHost, MetricsHost  string
	HealthPort, MetricsPort  int
}

// AddFlags adds the flags of NPD's own command line to set. What it returns says what
// they are, once set has been parsed.
func AddFlags(set *pflag.FlagSet) (func() Options, error) {
	monitor := func(flag string) types.ProblemDaemonType { return types.ProblemDaemonType(flag[len("config."):]) }
	const paths = "Comma-separated paths of its configuration files"
	for flag, description := range map[string]string{
		CustomPluginsFlag: paths + ".",
		SystemLogsFlag:    paths + "; builtin:NAME is one of the program, see nodemend log-rules.",
		SystemStatsFlag:   paths + ".",
	} {
		// For the flag alone: the detector makes monitors itself.
		problemdaemon.Register(monitor(flag), types.ProblemDaemonHandler{CmdOptionDescription: description})
	}
	o := npd.NewNodeProblemDetectorOptions()
	return func() Options {
		return Options{
			PrintVersion:       o.PrintVersion,
			NodeName:           o.HostnameOverride,
			CustomPlugins:      *o.MonitorConfigPaths[monitor(CustomPluginsFlag)],
			OldCustomPlugins:   o.CustomPluginMonitorConfigPaths,
			SystemLogs:         *o.MonitorConfigPaths[monitor(SystemLogsFlag)],
			OldSystemLogs:      o.SystemLogMonitorConfigPaths,
			SystemStats:        *o.MonitorConfigPaths[monitor(SystemStatsFlag)],
			KubernetesExporter: o.EnableK8sExporter,
			WriteEvents:        o.K8sExporterWriteEvents,
			WriteStatus:        o.K8sExporterUpdateNodeConditions,
			EventNamespace:     o.EventNamespace,
			Heartbeat:          o.K8sExporterHeartbeatPeriod,
			APIServerOverride:  o.ApiServerOverride,
			QPS:                o.QPS,
			Burst:              o.Burst,
			HealthHost:         o.ServerAddress,
			HealthPort:         o.ServerPort,
			MetricsHost:        o.PrometheusServerAddress,
			MetricsPort:        o.PrometheusServerPort,
		}
	}, o.AddFlags(set)
}
