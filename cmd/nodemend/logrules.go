package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodemend/nodemend/checks/systemlog"
)

const logRulesHelp = `Print rules for logs that are part of the program: a configuration file of
node-problem-detector's system-log monitor. Without a name, list them.

The detector takes them as --config.system-log-monitor=builtin:NAME. To change
them, print them into a file, edit it, and name the file instead.`

const logRulesExample = `  nodemend log-rules
  nodemend log-rules kernel >/etc/nodemend/kernel.json`

func newLogRulesCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "log-rules [NAME]",
		Short:     "Print the rules for kernel logs as JSON",
		Long:      logRulesHelp,
		Example:   logRulesExample,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: systemlog.Builtins(),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := []byte(strings.Join(systemlog.Builtins(), "\n") + "\n")
			if len(args) > 0 {
				var err error
				if text, err = systemlog.Builtin(args[0]); err != nil {
					return usageError{err}
				}
			}
			_, err := cmd.OutOrStdout().Write(text)
			return err
		},
	}
}
