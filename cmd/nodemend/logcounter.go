package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks/npd"
	"github.com/nodemend/nodemend/checks/systemlog"
)

const logCounterHelp = `Count entries of the journal, as the plugin of that name which
node-problem-detector's *-counter.json files run.

It needs systemd's journalctl, and counts what was written before it was started.

Exit status: 0 if there are fewer than --count, 1 if there are as many, 2 if that
could not be found out, as when the journal has no entry at all.`

const logCounterExample = `  nodemend log-counter --journald-source=systemd --log-path=/var/log/journal --lookback=20m --delay=5m --count=5 \
    --pattern='Started kubelet.service.*' --revert-pattern='Stopping kubelet.service.*'`

// newLogCounterCommand returns `nodemend log-counter`, which has the flags and the output of
// node-problem-detector's program of that name.
func newLogCounterCommand() *cobra.Command {
	var parsed func() npd.LogCounterOptions
	cmd := &cobra.Command{
		Use:     "log-counter",
		Short:   "Count entries of the journal, as a plugin of node-problem-detector",
		Long:    logCounterHelp,
		Example: logCounterExample,
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options := parsed()
			count, err := systemlog.Count(cmd.Context(), systemlog.CountOptions{
				Source: options.JournaldSource, Directory: options.LogPath,
				Lookback: options.Lookback, Delay: options.Delay,
				Pattern: options.Pattern, RevertPattern: options.RevertPattern,
				Clock: clock.RealClock{},
			})
			switch {
			case err != nil:
				err = unknownError{err}
			case count >= options.Count:
				err = fmt.Errorf("Found %d matching logs, which meets the threshold of %d", count, options.Count) //nolint:staticcheck // node-problem-detector's words
			default:
				return nil
			}
			// If nobody reads it, the exit status is the answer all the same.
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), err)
			return err
		},
	}
	parsed = npd.AddLogCounterFlags(cmd.Flags())
	ignoredFlags(cmd.Flags())
	return cmd
}
