package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nodemend/nodemend/runner"
)

const runnerHelp = `Execute the NodeActions of one node, on that node, as root.

A NodeAction does not say what to execute: it names a step of a RemedyPolicy,
and the runner reads the step from the policy itself. Right before it starts
it looks again whether the policy still has the step, whether this is still
the node, and whether the fault is still there. Then it claims the action,
executes the step once and reports what came of it:

  kubectl get nodeactions

An action is executed at most once. If the runner stops in the middle, the
action ends as Interrupted and is not repeated.

Commands run without a shell, with empty input, in the directory /, and with
no environment but PATH and HOME=/root. The runner sees the processes and
files that it is started among: in a pod, give it the host's.

The account of the runner needs: get, list and watch nodeactions, update
nodeactions/status, get remedypolicies (all nodemend.dev), get nodes.`

const runnerExample = `  # In a pod: the node's name comes from the downward API as NODE_NAME.
  nodemend runner --health-address=:9103 --metrics-address=:9102

  # On a host, as a systemd unit.
  nodemend runner --kubeconfig=/etc/nodemend/runner.kubeconfig

  # On the desk, for the node of a test cluster.
  nodemend runner --node-name=worker-17 --kubeconfig=$HOME/.kube/config`

// newRunnerCommand returns `nodemend runner`. It runs until the command's
// context ends, and then until what it was executing is killed and reported.
func newRunnerCommand() *cobra.Command {
	var (
		opts       runner.Options
		kubeconfig string
	)
	cmd := &cobra.Command{
		Use:     "runner",
		Short:   "Execute the NodeActions of this node",
		Long:    runnerHelp,
		Example: runnerExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if opts.NodeName, err = nodeName(opts.NodeName); err != nil {
				return err
			}
			cfg, err := restConfig(kubeconfig, "runner")
			if err != nil {
				return err
			}
			return trimmed(cmd.Context(), func(ctx context.Context) error { return runner.Run(ctx, cfg, opts) })
		},
	}
	flags := cmd.Flags()
	nodeNameFlag(flags, &opts.NodeName)
	kubeconfigFlag(flags, &kubeconfig)
	addressFlags(flags, &opts.MetricsAddress, &opts.HealthAddress)
	return cmd
}
