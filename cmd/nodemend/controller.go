//go:build !agent

package main

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodemend/nodemend/checks/detector"
	"github.com/nodemend/nodemend/controller"
)

const controllerHelp = `Map node conditions to steps, by the policies that people write.

The controller watches nodes, RemedyPolicies and RemediationBudgets. When a
condition has held for its time it starts a Remediation, and takes it from
step to step until the node has recovered:

  kubectl get remediations

It executes nothing on a node itself: it writes NodeActions, which the runner on
the node executes. What a NodeMaintenance takes out of service, a person's or a
step's, it cordons, drains and gives back:

  kubectl get nodemaintenances

NodeHealthCheck and MachineHealthCheck start Remediations, too, by NodemendRemediations
(docs/others.md).

Several replicas may run; one of them leads.

The account of the controller needs: get, list and watch nodes, remedypolicies,
remediationbudgets, remediations, nodeactions, nodemaintenances and
nodemendremediations; patch nodes and nodemendremediations; list pods and create evictions; create, patch and delete remediations and
nodemaintenances; create and delete nodeactions; patch the status of
remedypolicies, remediations, remediationbudgets, nodeactions, nodemaintenances
and nodemendremediations; get leases, and what else may have a node: list daemonsets,
get machines.cluster.x-k8s.io, nodeclaims.karpenter.sh and
clusterversions.config.openshift.io; create and patch events in default; and for
the leader election create and update leases and create events in its own
namespace; with --medik8s-leases, create, patch and delete leases in medik8s-leases.
All of it is in deploy/chart/templates/rbac-controller.yaml.`

const controllerExample = `  # In a pod.
  nodemend controller --health-address=:9103 --metrics-address=:9102

  # On the desk, against a test cluster.
  nodemend controller --kubeconfig=$HOME/.kube/config --leader-election=false`

// newControllerCommand returns `nodemend controller`.
func newControllerCommand() *cobra.Command {
	var kubeconfig string
	opts := controller.Options{Registry: metrics.Registry}
	for _, kind := range detector.Kinds() {
		opts.Checked = append(opts.Checked, kind.ConditionType)
	}
	cmd := &cobra.Command{
		Use:     "controller",
		Short:   "Decide what is done about a sick node",
		Long:    controllerHelp,
		Example: controllerExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctrl.SetLogger(logr.FromContextOrDiscard(cmd.Context())) // where it finds no other
			cfg, err := restConfig(kubeconfig, "controller")
			if err != nil {
				return err
			}
			if opts.HistoryLimit < 1 || opts.HistoryAge <= 0 {
				return errors.New("--history-limit must be at least 1, and --history-age longer than 0s")
			}
			if err := registerBuildInfo(opts.Registry); err != nil {
				return err
			}
			return frugal(cmd.Context(), func(ctx context.Context) error { return controller.Run(ctx, cfg, opts) })
		},
	}
	flags := cmd.Flags()
	kubeconfigFlag(flags, &kubeconfig)
	flags.BoolVar(&opts.LeaderElection, "leader-election", true,
		"make replicas agree on one that acts; turn it off only where a single one runs")
	flags.StringVar(&opts.LeaderElectionNamespace, "leader-election-namespace", "",
		"`namespace` of the leader election's Lease (default: the pod's own)")
	flags.IntVar(&opts.HistoryLimit, "history-limit", controller.DefaultHistoryLimit,
		"how `many` ended remediations of a node are kept, and more if a gate or a lasting incident needs them; the latest one of each policy always is")
	flags.DurationVar(&opts.HistoryAge, "history-age", controller.DefaultHistoryAge,
		"how long an ended remediation is kept")
	flags.BoolVar(&opts.Medik8sLeases, "medik8s-leases", false,
		"take the Lease in the namespace medik8s-leases of each node that is taken out of service, so that NodeHealthCheck and node-maintenance-operator leave it alone")
	addressFlags(flags, &opts.MetricsAddress, &opts.HealthAddress)
	return cmd
}
