package main

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/nodemend/nodemend/checks/npd"
)

// addNPDFlags adds the flags of node-problem-detector v1.36.
func addNPDFlags(f *detectorFlags) {
	theirs := pflag.NewFlagSet("node-problem-detector", pflag.ContinueOnError)
	parsed, err := npd.AddFlags(theirs)
	f.npd = parsed
	if err != nil {
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
	theirs := f.npd()
	var errs []error
	if f.stackdriver != "" {
		errs = append(errs, errors.New("--exporter.stackdriver is not supported: let Google's agent scrape /metrics at --prometheus-port instead"))
	}
	if len(theirs.OldCustomPlugins) > 0 && f.set.Changed(npd.CustomPluginsFlag) {
		errs = append(errs, errors.New("--custom-plugin-monitors is the old name of --config.custom-plugin-monitor: give one of them"))
	}
	if len(theirs.OldSystemLogs) > 0 && f.set.Changed(npd.SystemLogsFlag) {
		errs = append(errs, errors.New("--system-log-monitors is the old name of --config.system-log-monitor: give one of them"))
	}
	if theirs.APIServerOverride != "" && f.kubeconfig != "" {
		errs = append(errs, errors.New("--apiserver-override and --kubeconfig both say how to reach the API server: give one of them"))
	}
	if len(errs) > 0 {
		return usageError{errors.Join(errs...)}
	}
	return nil
}
