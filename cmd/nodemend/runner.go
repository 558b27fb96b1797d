package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.opencensus.io/stats/view"

	runnerconfig "github.com/nodemend/nodemend/config/runner"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/runner/command"
)

const runnerHelp = `Execute the NodeActions of one node, on that node, as root.

A NodeAction does not say what to execute: it names a step of a RemedyPolicy,
and the runner reads the step from the policy itself. Right before it starts
it looks again whether the policy still has the step, whether this is still
the node, and whether the fault is still there. Then it claims the action,
executes the step once and reports what came of it:

  kubectl get nodeactions

An action is executed at most once. A command runs as a transient unit of the
node's systemd; if the runner stops in the middle, the next one adopts it and
reports its true end. Where systemd does not answer, the command runs as a
child of the runner in the node's namespaces, and ends with it.

What the node's owner wants nobody to do here, such as a command, the restart
of a unit or a reboot, can be denied in ` + runnerconfig.Path + `.

Commands run in the directory /, with empty input, and with no environment but
PATH, HOME, LANG and what they may want to know:

  NODEMEND_NODE, NODEMEND_CONDITION, NODEMEND_CONDITION_STATUS,
  NODEMEND_CONDITION_REASON, NODEMEND_POLICY, NODEMEND_REMEDIATION,
  NODEMEND_ACTION, NODEMEND_STEP, NODEMEND_ATTEMPT

In a pod, the runner needs hostPID, a privileged container, and the host's /run.
Where it may not look at the root directory of process 1, or at --host-root, it
refuses everything, since it can't know what the node's owner denies. If it is
process 1 itself, it does not start without --host-root.
Its account needs: get, list and watch nodeactions, update nodeactions/status,
get remediations, remedypolicies, nodemendremediations and remediationbudgets (all
nodemend.dev), get nodes, and create and patch events in the namespace default.`

const runnerExample = `  # In a pod: the node's name comes from the downward API as NODE_NAME.
  nodemend runner --health-address=:9103 --metrics-address=:9102

  # On a host, as a systemd unit.
  nodemend runner --kubeconfig=/etc/nodemend/runner.kubeconfig --host-root=/

  # Answer every action with what would be done, and do nothing.
  nodemend runner --dry-run

  # On the desk, for the node of a test cluster, as any user.
  nodemend runner --node-name=worker-17 --kubeconfig=$HOME/.kube/config --run-dir=/tmp/nodemend-runner --host-root=/`

// newRunnerCommand returns `nodemend runner`. It runs until the command's
// context ends, and then until what it was executing is ended or left to be
// adopted, and reported.
func newRunnerCommand() *cobra.Command {
	var (
		opts       runner.Options
		kubeconfig string
		execution  string
		remote     remoteRunner
	)
	cmd := &cobra.Command{
		Use:     "runner",
		Short:   "Execute the NodeActions of this node",
		Long:    runnerHelp,
		Example: runnerExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if outside, err := remote.wanted(cmd.Flags()); err != nil {
				return err
			} else if outside {
				return remote.run(cmd, kubeconfig, opts)
			}
			var err error
			if opts.Execution, err = executionMode(execution); err != nil {
				return err
			}
			if opts.NodeName, err = nodeName(opts.NodeName); err != nil {
				return err
			}
			cfg, err := restConfig(kubeconfig, "runner")
			if err != nil {
				return err
			}
			if cfg, err = mirrored(cmd.Context(), cfg); err != nil {
				return err
			}
			opts.Logger = logr.FromContextOrDiscard(cmd.Context())
			opts.Registry = prometheus.NewRegistry()
			if err := registerBuildInfo(opts.Registry); err != nil {
				return err
			}
			view.Stop() // what the detector counts by looks up every ten seconds
			return lasting(cmd.Context(), runnersOwn(), func(ctx context.Context, fetch func()) error {
				opts.Rehearsed = func() {
					ask(ctx, opts.HealthAddress, "/healthz", "/readyz")
					ask(ctx, opts.MetricsAddress, "/metrics")
					fetch()
				}
				return runner.Run(ctx, cfg, opts)
			})
		},
	}
	flags := cmd.Flags()
	remote.addTo(cmd)
	nodeNameFlag(flags, &opts.NodeName)
	kubeconfigFlag(flags, &kubeconfig)
	addressFlags(flags, &opts.MetricsAddress, &opts.HealthAddress)
	flags.BoolVar(&opts.DryRun, "dry-run", false, "answer every action with what would be done, and do nothing")
	flags.StringVar(&execution, "execution", string(command.Auto),
		"how commands are executed: "+strings.Join(executionModes(), ", ")+"; Auto is TransientUnit unless systemd does not answer")
	flags.StringVar(&opts.Config, "config", "", "`file` of what may not be done, besides the node's own "+runnerconfig.Path+"; both are read before each action")
	flags.StringVar(&opts.Proc, "host-proc", runner.DefaultProc,
		"`directory` of a proc file system in which process 1 is the node's, not the container's")
	flags.StringVar(&opts.HostRoot, "host-root", "",
		"the node's root `directory`, in which its own "+runnerconfig.Path+" is read (default that of process 1)")
	flags.StringVar(&opts.RunDir, "run-dir", runner.DefaultRunDir,
		"`directory` that remembers what was executed; the same for all runners of the node, and empty after a boot")
	return cmd
}

// runnersOwn is the code of this program that a runner is there for: see lasting.
func runnersOwn() []string {
	const module = "github.com/nodemend/nodemend/"
	return []string{module + "runner", module + "config/v1alpha1."}
}

func executionModes() []string {
	return []string{string(command.Auto), string(command.TransientUnit), string(command.Direct)}
}

func executionMode(name string) (command.Mode, error) {
	if !slices.Contains(executionModes(), name) {
		return "", usageError{fmt.Errorf("--execution=%s: accepted are %s", name, strings.Join(executionModes(), ", "))}
	}
	return command.Mode(name), nil
}
