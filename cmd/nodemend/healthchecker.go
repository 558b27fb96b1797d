package main

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	npd "k8s.io/node-problem-detector/cmd/healthchecker/options"
	"k8s.io/node-problem-detector/pkg/healthchecker"
	npdtypes "k8s.io/node-problem-detector/pkg/healthchecker/types"
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
	options := npd.NewHealthCheckerOptions()
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			healthy, err := checkHealth(options)
			switch {
			case err != nil:
				err = unknownError{err}
			case !healthy:
				err = fmt.Errorf("%v:%v was found unhealthy; repair flag : %v", options.Component, options.Service, options.EnableRepair)
			default:
				return nil
			}
			// If nobody reads it, the exit status is the answer all the same.
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), err)
			return err
		},
	}
	flags := cmd.Flags()
	if err := options.AddFlags(flags); err != nil {
		cmd.RunE = func(*cobra.Command, []string) error { return unknownError{err} }
		return cmd
	}
	options.EnableRepair = false
	flags.Lookup("enable-repair").DefValue = "false"
	ignoredFlags(flags)
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

func checkHealth(options *npd.HealthCheckerOptions) (healthy bool, err error) {
	options.SetDefaults()
	if err := options.IsValid(); err != nil {
		return false, err
	}
	for _, program := range neededPrograms(options) {
		// Without it, a healthy component would be found unhealthy, or a log full
		// of failures empty.
		if _, err := exec.LookPath(program); err != nil {
			return false, fmt.Errorf("error checking %v health: %w; install it where this runs", options.Component, err)
		}
	}
	checker, err := healthchecker.NewHealthChecker(options)
	if err != nil {
		return false, err
	}
	healthy, err = checker.CheckHealth()
	if err != nil {
		return false, fmt.Errorf("error checking %v health: %w", options.Component, err)
	}
	return healthy, nil
}

// neededPrograms are those without which nothing can be said.
func neededPrograms(options *npd.HealthCheckerOptions) (needed []string) {
	switch options.Component {
	case npdtypes.CRIComponent:
		needed = append(needed, options.CriCtlPath)
	case npdtypes.DockerComponent:
		needed = append(needed, "docker")
	}
	if len(options.LogPatterns.GetLogPatternCountMap()) > 0 {
		needed = append(needed, "systemctl", "journalctl")
	}
	return needed
}
