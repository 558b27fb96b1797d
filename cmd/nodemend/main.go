// Command nodemend is all of Nodemend: the detector and the runner that run on
// every node, the controller that runs once, and tools for people.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/internal/fold"
)

// version is set by the linker to the release that was built.
var version = "development"

const rootHelp = `Nodemend keeps Kubernetes nodes healthy: it finds what is wrong with a node,
applies the gentlest fix that works, and proves that it worked.

The detector and the runner run on every node, the controller once:

  detector    observes the node and sets its conditions
  controller  maps conditions to steps, by the policies that people write
  runner      executes one step on its node, at most once

To look at a node by hand, run "nodemend check" on it.
` + "\n" + centralHelp

func main() {
	log := newLineWriter(standardError())
	status := run(log)
	log.Close()
	os.Exit(status)
}

// run runs the command line and returns the exit status.
func run(log *lineWriter) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRootCommand(log)
	root.SetArgs(commandLine(os.Args))
	err := root.ExecuteContext(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(log, "nodemend:", cut.Plain(err.Error())) // never fails
	}
	return exitStatus(err)
}

// newRootCommand returns the command that has all others. They log to log.
func newRootCommand(log *lineWriter) *cobra.Command {
	var verbosity int
	root := &cobra.Command{
		Use:           "nodemend",
		Short:         "Kubernetes nodes that heal themselves",
		Long:          rootHelp,
		SilenceUsage:  true,
		SilenceErrors: true,

		SuggestionsMinimumDistance: 2,
		Args:                       unknownCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			logger := newLogger(log, verbosity)
			klog.SetLoggerWithOptions(logger, klog.FlushLogger(log.Flush))
			slog.SetDefault(slog.New(logr.ToSlogHandler(logger))) // the standard library's, too
			cmd.SetContext(logr.NewContext(cmd.Context(), logger))
		},
	}
	root.SetFlagErrorFunc(wrongFlag)
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "v" { // as Kubernetes' own programs take it
			name = "verbosity"
		}
		return pflag.NormalizedName(name)
	})
	root.PersistentFlags().IntVarP(&verbosity, "verbosity", "v", 0, "how much is logged: 0 for operators, 4 for developers")
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages ", fmt.Sprintf("FlagUsagesWrapped %d ", fold.Usual)))
	root.AddCommand(centralCommands()...)
	root.AddCommand(
		newDetectorCommand(),
		newCheckCommand(),
		newHardwareCommand(),
		newHealthCheckerCommand(),
		newLogCounterCommand(),
		newLogRulesCommand(),
		newRunnerCommand(),
		newHostUnitsCommand(),
		newVersionCommand(),
	)
	wrongUsage(root)
	return root
}

// wrongFlag says where the right ones are.
func wrongFlag(cmd *cobra.Command, err error) error {
	return usageError{fmt.Errorf("%w; %s --help lists all", err, cmd.CommandPath())}
}

// unknownCommand refuses arguments of a command that is only there for its subcommands.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		hint = fmt.Sprintf("did you mean %s? ", strings.Join(similar, " or "))
	}
	return fmt.Errorf("unknown command %q; %s%s --help lists all", args[0], hint, cmd.CommandPath())
}

// wrongUsage makes errors about the arguments of a command and its subcommands usage errors.
func wrongUsage(cmd *cobra.Command) {
	if accepts := cmd.Args; accepts != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := accepts(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		wrongUsage(sub)
	}
}
