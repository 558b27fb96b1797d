//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/detector"
	"github.com/nodemend/nodemend/checks/remote"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/runner/leader"
)

const remoteDetectorHelp = `

With --remote it is the remote detector, which is not on a node, and sets conditions of
nodes that it looks at from outside, as --config says: whether the API server of each
control-plane node answers (ControlPlaneEndpointUnhealthy), and what alerts say, of an
Alertmanager or a Prometheus. Of several, one leads. docs/checks.md describes it, and
deploy/samples/remote-detector.yaml has all fields. With --once it looks once, prints
what it sees, writes nothing, and exits with 1 for a problem and with 2 if it could not
tell. Its account needs: get, list and watch nodes, patch nodes/status, and get, create
and update leases in its own namespace.`

const remoteDetectorExample = `

  # The remote detector: try a configuration from the desk, then run it in a pod.
  nodemend detector --remote --config=remote-detector.yaml --once
  nodemend detector --remote --config=/config/remote-detector.yaml --health-address=:9107 --metrics-address=:9106`

// leaseOfRemoteDetector is the name of the Lease of the leader election.
const leaseOfRemoteDetector = "nodemend-remote-detector"

// remoteDetector is what the command line says of it.
type remoteDetector struct {
	remote, once, election bool
	namespace              string
	metrics, health        string
}

// remoteDetectorFlags are those that a remote detector takes.
func remoteDetectorFlags() []string {
	return []string{
		"remote", "once", "config", "node-name", "kubeconfig", "leader-election", "leader-election-namespace", "health-address", "metrics-address", "verbosity", "v",
	}
}

// remoteOnlyFlags are those that only a remote detector takes.
func remoteOnlyFlags() []string {
	return []string{"once", "leader-election", "leader-election-namespace", "health-address", "metrics-address"}
}

func (r *remoteDetector) addTo(cmd *cobra.Command) {
	cmd.Long += remoteDetectorHelp
	cmd.Example += remoteDetectorExample
	flags := cmd.Flags()
	flags.BoolVar(&r.remote, "remote", false, "be the remote detector, which sets conditions of nodes that it does not run on")
	flags.BoolVar(&r.once, "once", false, "with --remote: look once, print what is seen, and write nothing")
	flags.BoolVar(&r.election, "leader-election", true, "with --remote: make replicas agree on one that acts; turn it off only where a single one runs")
	flags.StringVar(&r.namespace, "leader-election-namespace", "", "with --remote: `namespace` of the leader election's Lease (default: the pod's own)")
	flags.StringVar(&r.metrics, "metrics-address", "", "with --remote: TCP `address` to serve /metrics on, for example :9106 (default: not served)")
	flags.StringVar(&r.health, "health-address", "", "with --remote: TCP `address` to serve /healthz on, for example :9107 (default: not served)")
}

// wanted reports whether it is meant; the error is that of flags that then mean nothing.
func (r *remoteDetector) wanted(flags *pflag.FlagSet) (bool, error) {
	return r.remote, onlyFlagsOf(flags, r.remote, "detector", remoteDetectorFlags(), remoteOnlyFlags())
}

func (r *remoteDetector) run(cmd *cobra.Command, configFile, node, kubeconfig string) error {
	if configFile == "" {
		return usageError{errors.New("--remote needs a configuration: name one by --config=FILE; deploy/samples/remote-detector.yaml has all fields")}
	}
	c, err := loadRemote(configFile)
	if err != nil {
		return err
	}
	cfg, err := restConfig(kubeconfig, "remote-detector")
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	if err := registerBuildInfo(registry); err != nil {
		return err
	}
	if node == "" {
		node = os.Getenv("NODE_NAME")
	}
	options := remote.Options{
		Config: c, Client: cfg, OwnNode: node, HealthAddress: r.health, MetricsAddress: r.metrics, Registry: registry,
		Lead: leadBy(r.election, leader.Election{Name: leaseOfRemoteDetector, Namespace: r.namespace}, cfg),
	}
	if r.once {
		return lookOnce(cmd.Context(), cmd.OutOrStdout(), options)
	}
	return frugal(cmd.Context(), func(ctx context.Context) error { return remote.Run(ctx, options) })
}

// loadRemote reads the configuration. Conditions of checks are not for alerts: both would write.
func loadRemote(file string) (config.Remote, error) {
	c, err := config.LoadRemote(file)
	if err != nil {
		return c, err
	}
	for _, kind := range detector.Kinds() {
		if slices.Contains(c.Alerts.Types(), kind.ConditionType) {
			return c, fmt.Errorf("%s: alerts.conditions: %s belongs to the check %s, which the detectors of nodes run: accepted is any other name", file, kind.ConditionType, kind.Name)
		}
	}
	return c, nil
}

func lookOnce(ctx context.Context, w io.Writer, options remote.Options) error {
	outcomes, err := remote.LookOnce(ctx, options)
	if err != nil {
		return unknownError{err}
	}
	words := map[checks.Status]string{checks.True: "PROBLEM", checks.False: "healthy", checks.Unknown: "unknown"}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	text := "NODE\tCONDITION\tRESULT\tREASON\tMESSAGE\n"
	of := map[checks.Status][]string{}
	for _, o := range outcomes {
		text += fmt.Sprintf("%s\t%s\t%s\t%s\t%s\n", o.Node, o.Condition, words[o.Status], o.Reason, cell(o.Message))
		of[o.Status] = append(of[o.Status], o.Node+" "+o.Condition)
	}
	if _, err := io.WriteString(table, text); err != nil {
		return unknownError{err}
	}
	if err := table.Flush(); err != nil {
		return unknownError{err}
	}
	switch {
	case len(outcomes) == 0:
		return unknownError{errors.New("no node is looked at: see controlPlaneEndpoint.nodeSelector")}
	case len(of[checks.True]) > 0:
		return fmt.Errorf("there is a problem: %s", checks.Listed(of[checks.True]))
	case len(of[checks.Unknown]) > 0:
		return unknownError{fmt.Errorf("no verdict: %s", checks.Listed(of[checks.Unknown]))}
	}
	return nil
}
