//go:build !agent

package main

import (
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodemend/nodemend/controller"
)

const controllerHelp = `Map node conditions to steps, by the policies that people write.

The controller watches nodes, RemedyPolicies and RemediationBudgets. When a
condition has held for its time it starts a Remediation, and takes it from
step to step until the node has recovered:

  kubectl get remediations

It never touches a node itself: it writes NodeActions, which the runner on the
node executes. Several replicas may run; one of them leads.

The account of the controller needs: get, list and watch nodes, remedypolicies,
remediationbudgets, remediations and nodeactions; create remediations; create
and delete nodeactions; patch the status of the last three; get leases in
kube-node-lease; and for the leader election get, create and update leases and
create events in its own namespace.`

const controllerExample = `  # In a pod.
  nodemend controller --health-address=:9103 --metrics-address=:9102

  # On the desk, against a test cluster.
  nodemend controller --kubeconfig=$HOME/.kube/config --leader-election=false`

// newControllerCommand returns `nodemend controller`.
func newControllerCommand() *cobra.Command {
	var kubeconfig string
	opts := controller.Options{Registry: metrics.Registry}
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
			return controller.Run(cmd.Context(), cfg, opts)
		},
	}
	flags := cmd.Flags()
	kubeconfigFlag(flags, &kubeconfig)
	flags.BoolVar(&opts.LeaderElection, "leader-election", true,
		"make replicas agree on one that acts; turn it off only where a single one runs")
	flags.StringVar(&opts.LeaderElectionNamespace, "leader-election-namespace", "",
		"`namespace` of the leader election's Lease (default: the pod's own)")
	addressFlags(flags, &opts.MetricsAddress, &opts.HealthAddress)
	return cmd
}
