package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/nodemend/nodemend/internal/hostunits"
	"github.com/nodemend/nodemend/internal/systemd"
)

const hostUnitsHelp = `Have the detector or the runner run as a systemd unit of the host, not in a pod.

The container runtime and the kubelet may be what is broken. A unit needs neither
of them: it starts with the host, and goes on whatever becomes of its pods.

This needs a host with systemd, and a privileged pod with the host's PID namespace
(hostPID) and its root directory mounted at --host-root, which the Helm chart has
with hostUnits.enabled. Run a role as a pod or as a unit, not both.`

const hostUnitsInstallHelp = `Install a role as a systemd unit of the host, and stay to keep it so.

On the host there are then:

  /opt/nodemend/bin/nodemend-ROLE           this program (see --bin-dir)
  /etc/systemd/system/nodemend-ROLE.service
  /etc/nodemend/ROLE.kubeconfig
  /var/lib/nodemend/ROLE.token, ROLE.ca.crt copied from the pod's service account

Every 30 s all of it is looked at. A token that the kubelet has renewed is copied,
what was removed or changed is put back, a unit that was stopped is started. The unit
is started anew only if program, unit file or kubeconfig changed. To keep a role off
one host, mask its unit file there: it is left alone then.

The first installation fails with an error if the unit does not stay running. When
this program ends, all stays in place, and the unit goes on with the last token.

What is given after -- is given to the role; paths in it are the host's.

The API server has to be reached from the host: without a ClusterIP if kube-proxy may
be broken. Give --server the URL that the kubelet uses, or set KUBERNETES_SERVICE_HOST
and KUBERNETES_SERVICE_PORT to its host and port. Without either the unit uses the
ClusterIP that every pod has in KUBERNETES_SERVICE_HOST.`

const hostUnitsRemoveHelp = `Stop a role's systemd unit and remove all that was installed for it on the host.

It does not matter if some of that is missing. What was done is printed. What the role
itself remembers stays, such as which actions it has executed. While an installer runs
on the host nothing is done, since it would install everything again: delete its
DaemonSet first.`

const hostUnitsInstallExample = `  # In a pod: the node's name comes from the downward API as NODE_NAME.
  nodemend host-units install --role=runner --server=https://api.example.org:6443

  # With flags for the role.
  nodemend host-units install --role=detector --server=https://10.0.0.2:6443 -- \
    --config=/etc/nodemend/detector.yaml --prometheus-address=0.0.0.0`

const hostUnitsRemoveExample = `  nodemend host-units remove --role=runner

  # On the host itself.
  nodemend host-units remove --role=runner --host-root=/`

// newHostUnitsCommand returns `nodemend host-units`.
func newHostUnitsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "host-units",
		Short: "Run the detector or the runner as a systemd unit of the host",
		Long:  hostUnitsHelp,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q; accepted are install and remove", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newHostUnitsInstallCommand(), newHostUnitsRemoveCommand())
	return cmd
}

func newHostUnitsInstallCommand() *cobra.Command {
	options := hostunits.Options{Executable: hostunits.DefaultExecutable}
	var role string
	cmd := &cobra.Command{
		Use:     "install --role=ROLE [-- FLAGS OF THE ROLE]",
		Short:   "Install a role as a systemd unit of the host and keep it so",
		Long:    hostUnitsInstallHelp,
		Example: hostUnitsInstallExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() > 0 || cmd.ArgsLenAtDash() < 0 && len(args) > 0 {
				return usageError{fmt.Errorf("unexpected argument %q; flags of the role come after --", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			options.Args = args
			if err := complete(&options, role); err != nil {
				return err
			}
			if options.NodeName, err = nodeName(options.NodeName); err != nil {
				return err
			}
			if options.Server == "" {
				if options.Server, err = serverFromEnvironment(); err != nil {
					return err
				}
			}
			return lean(cmd.Context(), func(ctx context.Context) error { return hostunits.Run(ctx, options) })
		},
	}
	hostUnitsFlags(cmd, &options, &role)
	flags := cmd.Flags()
	nodeNameFlag(flags, &options.NodeName)
	flags.StringVar(&options.Server, "server", "",
		"`URL` of the API server as the host reaches it (default: from $KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT)")
	flags.StringVar(&options.Credentials, "credentials-dir", hostunits.DefaultCredentials,
		"`directory` with the files token and ca.crt that the kubelet keeps fresh")
	flags.StringVar(&options.HealthAddress, "health-address", "",
		"TCP `address` to serve /healthz and /readyz on, for example :9104 (default: not served)")
	return cmd
}

func newHostUnitsRemoveCommand() *cobra.Command {
	var (
		options hostunits.Options
		role    string
	)
	cmd := &cobra.Command{
		Use:     "remove --role=ROLE",
		Short:   "Stop a role's systemd unit and remove it from the host",
		Long:    hostUnitsRemoveHelp,
		Example: hostUnitsRemoveExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := complete(&options, role); err != nil {
				return err
			}
			done, err := hostunits.Remove(cmd.Context(), options)
			if err == nil && len(done) == 0 {
				done = []string{"nothing was installed"}
			}
			for _, line := range done {
				if _, printErr := fmt.Fprintln(cmd.OutOrStdout(), line); printErr != nil {
					return errors.Join(err, printErr)
				}
			}
			return err
		},
	}
	hostUnitsFlags(cmd, &options, &role)
	return cmd
}

// hostUnitsFlags are those of both commands.
func hostUnitsFlags(cmd *cobra.Command, options *hostunits.Options, role *string) {
	flags := cmd.Flags()
	flags.StringVar(role, "role", "", "what the unit runs: runner or detector (required)")
	flags.StringVar(&options.HostRoot, "host-root", hostunits.DefaultHostRoot,
		"`directory` where the host's root directory is mounted")
	flags.StringVar(&options.BinDir, "bin-dir", hostunits.DefaultBinDir,
		"`directory` of the host for the program; it must be possible to write there and to run programs from there")
}

// complete fills in what both commands need.
func complete(options *hostunits.Options, role string) (err error) {
	if role == "" {
		return usageError{fmt.Errorf("no role given; accepted by --role are %s and %s", hostunits.Runner, hostunits.Detector)}
	}
	if options.Role, err = hostunits.ParseRole(role); err != nil {
		return usageError{err}
	}
	options.Systemd = hostunits.DBus{Dialer: systemd.Dialer{
		Bus:     filepath.Join(options.HostRoot, systemd.DefaultBus),
		Private: filepath.Join(options.HostRoot, systemd.DefaultPrivate),
	}}
	return nil
}

// serverFromEnvironment returns the URL of the API server as pods are told it.
func serverFromEnvironment() (string, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return "", usageError{errors.New("the API server's URL is missing; give it with --server, or run as a pod")}
	}
	return "https://" + net.JoinHostPort(host, port), nil
}
