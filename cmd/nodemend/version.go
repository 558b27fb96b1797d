package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
)

// newVersionCommand returns `nodemend version`.
func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printVersion(cmd.OutOrStdout()) },
	}
}

func printVersion(w io.Writer) error {
	_, err := fmt.Fprintf(w, "nodemend %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// registerBuildInfo adds the metric that tells which version runs.
func registerBuildInfo(registry prometheus.Registerer) error {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "nodemend_build_info",
		Help:        "1, labelled with the version that runs.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
	info.Set(1)
	return registry.Register(info)
}
