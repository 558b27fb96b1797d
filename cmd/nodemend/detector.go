package main

import (
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/nodemend/nodemend/checks/detector"
	config "github.com/nodemend/nodemend/config/detector"
)

const detectorHelp = `Run the checks of one node, on that node, and set the node's conditions.

A condition is True while there is a problem, False while there is none, and
Unknown while its check could not tell:

  kubectl get node NAME -o yaml

The checks:

  ContainerRuntimeUnhealthy  the container runtime is not ready, or does not
                             answer in time (asked over CRI, as the kubelet does)

A condition is set only after its check has run; a restart of the detector
changes neither a status nor a lastTransitionTime. lastHeartbeatTime is when
the latest run of the check started, so a check that hangs is seen by it.

Everything has a default. To change something, write a file with it:

  checks:
    containerRuntime:
      endpoint: unix:///var/run/crio/crio.sock

All mistakes in the file are reported, each with its line.

The account of the detector needs: get nodes, patch nodes/status.`

const detectorExample = `  # In a pod: the node's name comes from the downward API as NODE_NAME; the
  # socket of the runtime and the configuration file are mounted.
  nodemend detector --config=/etc/nodemend/detector.yaml --listen=:20260

  # On a host, as a systemd unit.
  nodemend detector --kubeconfig=/etc/nodemend/detector.kubeconfig

  # Look at it.
  curl http://127.0.0.1:20260/healthz
  curl http://127.0.0.1:20260/metrics`

// newDetectorCommand returns `nodemend detector`. It runs until the command's
// context ends.
func newDetectorCommand() *cobra.Command {
	var configFile, node, kubeconfig, listen string
	cmd := &cobra.Command{
		Use:     "detector",
		Short:   "Run the checks of this node and set its conditions",
		Long:    detectorHelp,
		Example: detectorExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			options := detector.Options{Config: config.Default()}
			if configFile != "" {
				if options.Config, err = config.Load(configFile); err != nil {
					return err
				}
			}
			if options.NodeName, err = nodeName(node); err != nil {
				return err
			}
			if options.Client, err = restConfig(kubeconfig, "detector"); err != nil {
				return err
			}
			if listen != "" {
				if options.Listener, err = (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", listen); err != nil {
					return fmt.Errorf("opening the address of /healthz and /metrics: %w; choose another with --listen, or none with --listen=", err)
				}
			}
			return detector.Run(cmd.Context(), options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&configFile, "config", "",
		"YAML `file` with the detector's configuration (default: every value has a default)")
	nodeNameFlag(flags, &node)
	kubeconfigFlag(flags, &kubeconfig)
	flags.StringVar(&listen, "listen", "127.0.0.1:20260",
		"TCP `address` to serve /healthz and /metrics on; empty: not served")
	return cmd
}
