package main

import (
	"github.com/spf13/cobra"

	"github.com/nodemend/nodemend/ipmi/verdict"
)

const hardwareRulesHelp = `Print the default rules by which the check hardware judges, as YAML.

Rules of yours come before them: put those that you want otherwise, with another
name, under checks.hardware.rules of the detector's configuration.`

func newHardwareRulesCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rules",
		Short:   "Print the default rules as YAML",
		Long:    hardwareRulesHelp,
		Example: hardwareExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(verdict.DefaultRulesYAML())
			return err
		},
	}
}
