package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks/detector"
	"github.com/nodemend/nodemend/checks/npd"
	config "github.com/nodemend/nodemend/config/detector"
)

// detectorHelp has a place for a line of each check.
const detectorHelp = `Run the checks of one node, on that node, and set the node's conditions.

A condition is True while there is a problem, False while there is none, and
Unknown while its check could not tell:

  kubectl get node NAME -o yaml

The checks:

%s
A condition is set only after its check has run; neither a restart of the
detector nor a reboot changes a status or a lastTransitionTime that no check has
seen change. lastHeartbeatTime is when the latest run of the check started, so a
check that hangs is seen by it.

Everything has a default. To change something, write a file with it:

  checks:
    runtime:
      endpoint: unix:///var/run/crio/crio.sock

All mistakes in the file are reported, each with its line. To change it later,
restart the detector: that changes no condition.

The detector stands in for node-problem-detector v1.36: it takes the same flags
and the same configuration files of system-log, system-stats and custom-plugin
monitors. Where such a file sets a condition that a check above owns, the file
wins and the check is off.

The account of the detector needs: get nodes, patch nodes/status, create and
patch events; for the checks pleg and kubelet, get nodes/metrics and
nodes/healthz (nodes/proxy before Kubernetes 1.33).`

const detectorExample = `  # In a pod: the node's name comes from the downward API as NODE_NAME; the
  # sockets, /var/lib/kubelet/pki and the configuration files are mounted.
  nodemend detector --config=/etc/nodemend/detector.yaml --address=0.0.0.0

  # In the place of node-problem-detector, with its configuration.
  nodemend detector --config.system-log-monitor=/config/kernel-monitor.json \
    --config.custom-plugin-monitor=/config/ntp.json

  # On a host, as a systemd unit.
  nodemend detector --kubeconfig=/etc/nodemend/detector.kubeconfig

  # Look at it.
  curl http://127.0.0.1:20256/healthz
  curl http://127.0.0.1:20256/conditions
  curl http://127.0.0.1:20257/metrics

  # Run all checks now.
  curl --unix-socket /run/nodemend/detector.sock -X POST http://detector/v1/run-checks`

// listChecks says, two lines each, what checks there are.
func listChecks() string {
	var list strings.Builder
	for _, kind := range detector.Kinds() {
		fmt.Fprintf(&list, "  %-10s%s\n            %s\n", kind.Name, kind.ConditionType, kind.Help)
	}
	return list.String()
}

// detectorFlags is the command line of the detector.
type detectorFlags struct {
	configFile, node, kubeconfig string
	npd                          func() npd.Options // once parsed
	stackdriver                  string
	set                          *pflag.FlagSet
}

// newDetectorCommand returns `nodemend detector`. It runs until the command's
// context ends.
func newDetectorCommand() *cobra.Command {
	f := &detectorFlags{}
	var remote remoteDetector
	cmd := &cobra.Command{
		Use:     "detector",
		Short:   "Run the checks of this node and set its conditions",
		Long:    fmt.Sprintf(detectorHelp, listChecks()),
		Example: detectorExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.npd().PrintVersion {
				return printVersion(cmd.OutOrStdout())
			}
			if outside, err := remote.wanted(cmd.Flags()); err != nil {
				return err
			} else if outside {
				return remote.run(cmd, f.configFile, f.node, f.kubeconfig)
			}
			options, err := f.options(cmd.Context())
			if err != nil {
				return err
			}
			return lasting(cmd.Context(), detectorsOwn(), func(ctx context.Context, fetch func()) error {
				checked := time.Now().Add(settled) // each has run once by then
				options.Rehearsed = func() {
					select {
					case <-ctx.Done():
					case <-time.After(time.Until(checked)):
						ask(ctx, options.HealthAddress, "/healthz", "/conditions")
						ask(ctx, options.MetricsAddress, "/metrics")
						fetch()
					}
				}
				return detector.Run(ctx, options)
			})
		},
	}
	f.set = cmd.Flags()
	f.set.StringVar(&f.configFile, "config", "",
		"YAML `file` with the detector's configuration (default: every value has a default)")
	nodeNameFlag(f.set, &f.node)
	kubeconfigFlag(f.set, &f.kubeconfig)
	addNPDFlags(f)
	remote.addTo(cmd)
	return cmd
}

// detectorsOwn is the code of this program that reports a problem: see lasting.
func detectorsOwn() []string {
	const module = "github.com/nodemend/nodemend/"
	return []string{module + "checks", module + "internal/bounded.", module + "internal/serverclock."}
}

// options makes of the command line what the detector runs with.
func (f *detectorFlags) options(ctx context.Context) (o detector.Options, err error) {
	if err := f.validate(); err != nil {
		return o, err
	}
	theirs := f.npd()
	o = detector.Options{
		Config:           config.Default(),
		CustomPlugins:    slices.Concat(theirs.CustomPlugins, theirs.OldCustomPlugins),
		SystemLogs:       slices.Concat(theirs.SystemLogs, theirs.OldSystemLogs),
		SystemStats:      theirs.SystemStats,
		EventNamespace:   theirs.EventNamespace,
		WithoutAPIServer: !theirs.KubernetesExporter,
		WithoutStatus:    !theirs.WriteStatus,
		WithoutEvents:    !theirs.WriteEvents,
		Registry:         prometheus.NewRegistry(),
	}
	if err := registerBuildInfo(o.Registry); err != nil {
		return o, err
	}
	if f.configFile != "" {
		if o.Config, err = config.Load(f.configFile); err != nil {
			return o, err
		}
	}
	f.heartbeat(ctx, &o.Config)
	name := f.node
	if theirs.NodeName != "" {
		name = theirs.NodeName
	}
	if o.NodeName, err = nodeName(name); err != nil {
		return o, err
	}
	if o.Client, err = f.client(); err != nil {
		return o, err
	}
	if o.Client != nil {
		if o.Client, err = mirrored(ctx, o.Client); err != nil {
			return o, err
		}
	}
	o.HealthAddress = address(theirs.HealthHost, theirs.HealthPort)
	o.MetricsAddress = address(theirs.MetricsHost, theirs.MetricsPort)
	return o, nil
}

// client says how to reach the API server; nil without one.
func (f *detectorFlags) client() (cfg *rest.Config, err error) {
	theirs := f.npd()
	switch {
	case !theirs.KubernetesExporter && f.kubeconfig == "":
		return nil, nil
	case theirs.APIServerOverride != "":
		cfg, err = overriddenConfig(theirs.APIServerOverride)
	default:
		cfg, err = restConfig(f.kubeconfig, "detector")
	}
	if err == nil {
		cfg.QPS, cfg.Burst = theirs.QPS, theirs.Burst
	}
	return cfg, err
}

// heartbeat lets the flag of node-problem-detector set the heartbeat.
func (f *detectorFlags) heartbeat(ctx context.Context, c *config.Config) {
	const flag, most = "k8s-exporter-heartbeat-period", 5 * time.Minute
	if !f.set.Changed(flag) {
		return
	}
	asked := f.npd().Heartbeat
	period := min(asked, most)
	if period != asked {
		klog.FromContext(ctx).Info("Heartbeat is more often than asked for: conditions would count as outdated",
			"flag", flag, "asked", asked.String(), "used", period.String())
	}
	c.Heartbeat.Interval.Duration = max(period, time.Second)
}

// address is empty if port is zero, which means not to serve.
func address(host string, port int) string {
	if port <= 0 {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}
