package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodemend/nodemend/checks/npd"
)

const (
	healthCheckerName = "health-checker"
	logCounterName    = "log-counter"
)

const healthCheckerHelp = `Check one component of this node once, as the plugin of that name which
node-problem-detector's health-checker-*.json files run.

  kubelet     answers at http://localhost:10248/healthz
  kube-proxy  answers at http://localhost:10256/healthz
  docker      "docker ps" succeeds
  cri         "crictl pods --latest" succeeds

HOST_ADDRESS, KUBELET_PORT and KUBEPROXY_PORT change the first two. With
--log-pattern the journal of --service is searched as well.

Exit status: 0 healthy, 1 unhealthy, 2 if that could not be found out.

Unlike node-problem-detector's own program, this one repairs nothing unless it
is given --enable-repair, and lacking a program that it needs it could not find
out, rather than the component being unhealthy.

The detector's own checks need no such plugin: ContainerRuntimeUnhealthy and
KubeletUnhealthy tell more, without crictl.`

const healthCheckerExample = `  nodemend health-checker --component=kubelet --health-check-timeout=10s
  nodemend health-checker --component=cri --cri-socket-path=unix:///run/crio/crio.sock

  # Under the name that the files of node-problem-detector use; the detector itself
  # needs no such link.
  ln -s /usr/local/bin/nodemend /home/kubernetes/bin/health-checker`

// commandLine returns the arguments for the root command from those of the
// program. A program that is named as one of node-problem-detector's plugins is that
// command.
func commandLine(program []string) []string {
	if name := filepath.Base(program[0]); name == healthCheckerName || name == logCounterName {
		return append([]string{name}, program[1:]...)
	}
	return program[1:]
}

// newHealthCheckerCommand returns `nodemend health-checker`, which has the flags
// and the output of node-problem-detector's program of that name.
func newHealthCheckerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     healthCheckerName,
		Short:   "Check one component of this node once, as a plugin of node-problem-detector",
		Long:    healthCheckerHelp,
		Example: healthCheckerExample,
		Hidden:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return usageError{fmt.Errorf("%w; values of flags that are true or false need =, such as --enable-repair=false", err)}
			}
			return nil
		},
	}
	checker, err := npd.NewHealthChecker(cmd.Flags())
	if err != nil {
		cmd.RunE = func(*cobra.Command, []string) error { return unknownError{err} }
		return cmd
	}
	ignoredFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		problem, err := checker.Check()
		switch {
		case err != nil:
			err = unknownError{err}
		case problem != "":
			err = errors.New(problem)
		default:
			return nil
		}
		// If nobody reads it, the exit status is the answer all the same.
		_, _ = fmt.Fprintln(cmd.OutOrStdout(), err)
		return err
	}
	return cmd
}

// ignoredFlags are those of klog that node-problem-detector's plugins take.
func ignoredFlags(flags *pflag.FlagSet) {
	flags.String("vmodule", "", "without effect")
	flags.Bool("logtostderr", true, "without effect: all is logged to standard error")
	for _, name := range []string{"vmodule", "logtostderr"} {
		flags.Lookup(name).Hidden = true
	}
}
