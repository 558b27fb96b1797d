//go:build !agent

package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/metal3"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/runner/leader"
	"github.com/nodemend/nodemend/runner/machines"
)

const remoteRunnerHelp = `

With --remote it is the remote runner, which is not on a node: it executes the
actions that switch the power of a machine off and on, reboot: {method: PowerCycle},
by the switches that --config names: a remote.yaml (docs/fencing.md). It lights the lamps
of machines in maintenance that ask for it, and, with --maintenance-power, shuts down
those with power: Off. It executes those that have a machine replaced, replace: {}, where
that file allows it (docs/others.md). Each hour it tries the switches, and sets the
condition Fenceable of nodes. Of several, one leads. Its account needs: get, list and
watch nodeactions, update nodeactions/status, get remediations, remedypolicies and
nodemendremediations, get and list remediationbudgets, list and watch nodemaintenances,
update nodemaintenances/status (all nodemend.dev), get, list and watch nodes, patch
nodes/status, get leases in kube-node-lease, create and patch events in the namespace
default, and get, create and update leases in its own namespace; for switches that are
BareMetalHosts of Metal3, also get and patch these.`

const remoteRunnerExample = `

  # The remote runner, in a pod.
  nodemend runner --remote --config=/config/remote.yaml --health-address=:9103 --metrics-address=:9102`

// leaseOfRemoteRunner is the name of the Lease of the leader election.
const leaseOfRemoteRunner = "nodemend-remote-runner"

// remoteRunner is what the command line says of it.
type remoteRunner struct {
	remote, election, maintenancePower bool
	namespace                          string
}

// remoteFlags are those that a remote runner takes.
func remoteFlags() []string {
	return []string{
		"remote", "config", "maintenance-power", "dry-run", "kubeconfig", "leader-election", "leader-election-namespace", "health-address", "metrics-address", "verbosity",
	}
}

func (r *remoteRunner) addTo(cmd *cobra.Command) {
	cmd.Long += remoteRunnerHelp
	cmd.Example += remoteRunnerExample
	flags := cmd.Flags()
	flags.BoolVar(&r.remote, "remote", false, "be the remote runner, which switches the power of machines from outside")
	flags.BoolVar(&r.maintenancePower, "maintenance-power", false, "with --remote: shut down, and switch off, the machines of drained nodes whose maintenance says power: Off; what is off is switched on again without it, too")
	flags.BoolVar(&r.election, "leader-election", true, "with --remote: make replicas agree on one that acts; turn it off only where a single one runs")
	flags.StringVar(&r.namespace, "leader-election-namespace", "", "with --remote: `namespace` of the leader election's Lease (default: the pod's own)")
}

// wanted reports whether it is meant; the error is that of flags that then mean nothing.
func (r *remoteRunner) wanted(flags *pflag.FlagSet) (bool, error) {
	return r.remote, onlyFlagsOf(flags, r.remote, "runner", remoteFlags(), []string{"maintenance-power", "leader-election", "leader-election-namespace"})
}

func (r *remoteRunner) run(cmd *cobra.Command, kubeconfig string, o runner.Options) error {
	if o.Config == "" {
		return usageError{errors.New("--remote needs a configuration: name remote.yaml by --config=FILE")}
	}
	file := &remote.File{Path: o.Config}
	if _, err := file.Load(); err != nil {
		return err
	}
	cfg, err := restConfig(kubeconfig, "remote-runner")
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	if err := registerBuildInfo(registry); err != nil {
		return err
	}
	clusters := clustersOf(cfg, "remote-runner")
	lead := leadBy(r.election, leader.Election{Name: leaseOfRemoteRunner, Namespace: r.namespace}, cfg)
	return runner.RunRemote(cmd.Context(), cfg, runner.RemoteOptions{
		Switch: switchesOf(file, clusters), Host: hostsOf(clusters), Needed: neededOf(file), Machines: machinesOf(file, cfg), Lead: lead,
		MaintenancePower: r.maintenancePower, DryRun: o.DryRun, Registry: registry,
		MetricsAddress: o.MetricsAddress, HealthAddress: o.HealthAddress, Logger: logr.FromContextOrDiscard(cmd.Context()),
	})
}

// leadBy returns what leads while it holds the Lease of an election, or at once without one.
func leadBy(elected bool, election leader.Election, cfg *rest.Config) func(ctx context.Context, id string, lead func(context.Context) error) error {
	if !elected {
		return func(ctx context.Context, _ string, lead func(context.Context) error) error { return lead(ctx) }
	}
	return func(ctx context.Context, id string, lead func(context.Context) error) error {
		return election.Lead(ctx, cfg, id, lead)
	}
}

// machinesOf returns what has machines replaced, as a file allows it, which is read anew each time. So
// is the kubeconfig of another cluster: it may be a Secret that is renewed.
func machinesOf(file *remote.File, cfg *rest.Config) *machines.Machines {
	return machines.New(machines.Options{
		Config: func() (*remote.Replace, error) {
			config, err := file.Load()
			return config.Replace, err
		},
		Here:      func() (client.Client, error) { return client.New(timely(cfg), client.Options{}) },
		Elsewhere: clustersOf(cfg, "remote-runner"),
	})
}

// clustersOf returns what returns a client for the cluster of a kubeconfig, which is read anew each time;
// "": the cluster of cfg.
func clustersOf(cfg *rest.Config, userAgent string) func(kubeconfig string) (client.Client, error) {
	return func(kubeconfig string) (client.Client, error) {
		there := cfg
		if kubeconfig != "" {
			var err error
			if there, err = restConfig(kubeconfig, userAgent); err != nil {
				return nil, err
			}
		}
		return client.New(timely(there), client.Options{})
	}
}

// requestTime is how long an API server may take with a request of such a client.
const requestTime = 15 * time.Second

// timely bounds each request. A client asks first what the API server serves, whatever the time of who calls it:
// one that never answers would keep all workers, those for other machines included.
func timely(cfg *rest.Config) *rest.Config {
	bounded := rest.CopyConfig(cfg)
	bounded.Timeout = requestTime
	return bounded
}

// switchesOf returns what finds the switch of a node in a file, which is read anew each time.
func switchesOf(file *remote.File, cluster func(kubeconfig string) (client.Client, error)) func(*corev1.Node) (power.Switch, error) {
	return func(node *corev1.Node) (power.Switch, error) {
		config, err := file.Load()
		if err != nil {
			return nil, err
		}
		config.Cluster = cluster
		return config.Switch(remote.NodeOf(node))
	}
}

// hostsOf returns what returns the switch that is a BareMetalHost.
func hostsOf(cluster func(kubeconfig string) (client.Client, error)) func(v1alpha1.BareMetalHostReference) (power.Switch, error) {
	return func(host v1alpha1.BareMetalHostReference) (power.Switch, error) {
		api, err := cluster(host.Kubeconfig)
		if err != nil {
			return nil, err
		}
		return metal3.New(api, host), nil
	}
}

// neededOf returns what reduces a node to what its switch is found by.
func neededOf(file *remote.File) func(*corev1.Node) (*corev1.Node, error) {
	return func(node *corev1.Node) (*corev1.Node, error) {
		config, err := file.Load()
		if err != nil {
			return nil, err
		}
		needed := config.Needed(remote.NodeOf(node))
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: needed.Name, Labels: needed.Labels, Annotations: needed.Annotations},
			Spec:       corev1.NodeSpec{ProviderID: needed.ProviderID},
			Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: needed.SystemUUID}},
		}, nil
	}
}
