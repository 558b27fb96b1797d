package main

import (
	"errors"

	"github.com/spf13/pflag"
	npd "k8s.io/node-problem-detector/cmd/options"
	"k8s.io/node-problem-detector/pkg/problemdaemon"
	"k8s.io/node-problem-detector/pkg/types"
)

// Monitors that have a configuration file, as node-problem-detector names them.
const (
	customPluginMonitor types.ProblemDaemonType = "custom-plugin-monitor"
	systemLogMonitor    types.ProblemDaemonType = "system-log-monitor"
	systemStatsMonitor  types.ProblemDaemonType = "system-stats-monitor"
)

// newNPDOptions returns the options of node-problem-detector's own command line.
func newNPDOptions() *npd.NodeProblemDetectorOptions {
	for _, name := range []types.ProblemDaemonType{customPluginMonitor, systemLogMonitor, systemStatsMonitor} {
		// For the flag alone: the detector makes monitors itself.
		problemdaemon.Register(name, types.ProblemDaemonHandler{CmdOptionDescription: "Comma-separated paths of its configuration files."})
	}
	return npd.NewNodeProblemDetectorOptions()
}

// addNPDFlags adds the flags of node-problem-detector v1.36.
func addNPDFlags(f *detectorFlags) {
	theirs := pflag.NewFlagSet("node-problem-detector", pflag.ContinueOnError)
	if err := f.npd.AddFlags(theirs); err != nil {
		return // can't be: it fails for a flag that does not exist
	}
	var ignored struct {
		vmodule     string
		logtostderr bool
	}
	theirs.StringVar(&f.stackdriver, "exporter.stackdriver", "", "not supported")
	theirs.StringVar(&ignored.vmodule, "vmodule", "", "without effect")
	theirs.BoolVar(&ignored.logtostderr, "logtostderr", true, "without effect: all is logged to standard error")
	for _, name := range []string{
		"exporter.stackdriver", "vmodule", "logtostderr", "hostname-override", "apiserver-wait-timeout", "apiserver-wait-interval",
	} {
		theirs.Lookup(name).Hidden = true
	}
	theirs.Lookup("apiserver-override").Usage = "`URI` of the API server with options, such as https://HOST:PORT?inClusterConfig=false&auth=KUBECONFIG (default: see --kubeconfig)"
	f.set.AddFlagSet(theirs)
}

// validate refuses what can't be meant.
func (f *detectorFlags) validate() error {
	var errs []error
	if f.stackdriver != "" {
		errs = append(errs, errors.New("--exporter.stackdriver is not supported: let Google's agent scrape /metrics at --prometheus-port instead"))
	}
	if len(f.npd.CustomPluginMonitorConfigPaths) > 0 && f.set.Changed("config."+string(customPluginMonitor)) {
		errs = append(errs, errors.New("--custom-plugin-monitors is the old name of --config.custom-plugin-monitor: give one of them"))
	}
	if len(f.npd.SystemLogMonitorConfigPaths) > 0 && f.set.Changed("config."+string(systemLogMonitor)) {
		errs = append(errs, errors.New("--system-log-monitors is the old name of --config.system-log-monitor: give one of them"))
	}
	if f.npd.ApiServerOverride != "" && f.kubeconfig != "" {
		errs = append(errs, errors.New("--apiserver-override and --kubeconfig both say how to reach the API server: give one of them"))
	}
	if len(errs) > 0 {
		return usageError{errors.Join(errs...)}
	}
	return nil
}

// monitors returns the configuration files given for a monitor, by its flag or
// by the old name of the flag.
func (f *detectorFlags) monitors(name types.ProblemDaemonType, old []string) []string {
	return append(*f.npd.MonitorConfigPaths[name], old...)
}
