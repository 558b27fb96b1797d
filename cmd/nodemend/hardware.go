package main

import (
	"fmt"

	"github.com/spf13/cobra"

	config "github.com/nodemend/nodemend/config/detector"
)

const hardwareHelp = `Look at the hardware of this server through its BMC, as the detector's check
hardware does, and acknowledge what it has found.

The BMC is read by /dev/ipmi0, or as the detector's configuration says; give the
same file with --config.`

const hardwareExample = `  # What is wrong?
  nodemend hardware status

  # For a ticket: what is wrong, in words and in raw bytes.
  nodemend hardware describe

  # The whole SEL, for other programs.
  nodemend hardware status -o json | jq '.events[]'

  # DIMM_A1 was exchanged while the server kept its standby power.
  nodemend hardware ack --component DIMM_A1 --reason "DIMM A1 exchanged, ticket 4711"

  # One failure as describe has shown it, and none that has come since.
  nodemend hardware ack --seen 5f0c21aa --reason "known, ticket 4711"

  # By which rules is it judged?
  nodemend hardware rules`

// hardwareFlags are those of all hardware commands.
type hardwareFlags struct{ configFile string }

func newHardwareCommand() *cobra.Command {
	f := &hardwareFlags{}
	cmd := &cobra.Command{
		Use:     "hardware",
		Short:   "Look at this server's hardware through its BMC",
		Long:    hardwareHelp,
		Example: hardwareExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q; accepted are status, describe, ack and rules", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&f.configFile, "config", "",
		"YAML `file` with the detector's configuration (default: every value has a default)")
	cmd.AddCommand(newHardwareStatusCommand(f), newHardwareDescribeCommand(f), newHardwareAckCommand(f), newHardwareRulesCommand())
	return cmd
}

// noArguments refuses any, as wrong usage.
func noArguments(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return usageError{err}
	}
	return nil
}

func (f *hardwareFlags) load() (config.Config, error) {
	if f.configFile == "" {
		return config.Default(), nil
	}
	c, err := config.Load(f.configFile)
	if err != nil {
		return c, unknownError{err}
	}
	return c, nil
}
