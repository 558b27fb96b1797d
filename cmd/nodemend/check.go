package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/detector"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/cut"
)

// checkHelp has a place for the names of all checks.
const checkHelp = `Run the checks of this node once, here and now, and print what they find.

This only looks: nothing is written to the API server, and what the detector
remembers in its state files is read, and not changed. One run decides: thresholds
and grace periods of the configuration do not apply. Without a NAME all checks that the
configuration enables run; the names are %s.

Exit status: 0 if nothing is wrong, 1 if a check found a problem, 2 if none did
but one could not tell or, if you have named it, has nothing to check here, or if
the checks could not be run or printed. So it can
serve as a plugin of node-problem-detector or as the probe of a monitoring system.`

const checkExample = `  # All checks.
  nodemend check

  # Is it the runtime?
  nodemend check runtime && echo "no, the runtime answers"

  # For other programs.
  nodemend check -o json | jq -r '.[] | select(.status=="True") | .message'`

// newCheckCommand returns `nodemend check`.
func newCheckCommand() *cobra.Command {
	var configFile, node, kubeconfig string
	output := "table"
	var known []string
	for _, kind := range detector.Kinds() {
		known = append(known, kind.Name)
	}
	cmd := &cobra.Command{
		Use:       "check [NAME...]",
		Short:     "Run the checks of this node once and print what they find",
		Long:      fmt.Sprintf(checkHelp, strings.Join(known, ", ")),
		Example:   checkExample,
		ValidArgs: known,
		Args: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				if !slices.Contains(known, name) {
					return usageError{fmt.Errorf("unknown check %q; accepted are %s", name, strings.Join(known, ", "))}
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			write, ok := map[string]func(io.Writer, []detector.Outcome) error{"table": writeOutcomes, "json": writeOutcomesJSON}[output]
			if !ok {
				return usageError{fmt.Errorf("unknown output %q; accepted are table and json", output)}
			}
			options, err := checkOptions(configFile, node, kubeconfig)
			if err != nil {
				return unknownError{err}
			}
			outcomes, err := detector.CheckOnce(cmd.Context(), options, names...)
			if err != nil {
				return unknownError{err}
			}
			if err := write(cmd.OutOrStdout(), outcomes); err != nil {
				return unknownError{fmt.Errorf("writing what was found: %w", err)}
			}
			return outcomeError(outcomes)
		},
	}
	cmd.SetFlagErrorFunc(wrongFlag)
	flags := cmd.Flags()
	flags.StringVar(&configFile, "config", "",
		"YAML `file` with the detector's configuration (default: every value has a default)")
	nodeNameFlag(flags, &node)
	kubeconfigFlag(flags, &kubeconfig)
	flags.StringVarP(&output, "output", "o", output, "`form` of what is printed: table or json")
	return cmd
}

// checkOptions are those of the command line. An API server that is not named
// there can be missing.
func checkOptions(configFile, node, kubeconfig string) (o detector.Options, err error) {
	o.Config = config.Default()
	if configFile != "" {
		if o.Config, err = config.Load(configFile); err != nil {
			return o, err
		}
	}
	if o.NodeName, err = nodeName(node); err != nil {
		return o, err
	}
	cfg, err := restConfig(kubeconfig, "check")
	if err != nil && kubeconfig != "" {
		return o, err
	}
	if err == nil {
		o.Client = cfg
	}
	return o, nil
}

// outcomeError is the error that makes the exit status.
func outcomeError(outcomes []detector.Outcome) error {
	of := func(status checks.Status) (names []string) {
		for _, o := range outcomes {
			if o.Status == status {
				names = append(names, o.Check)
			}
		}
		return names
	}
	if names := of(checks.True); len(names) > 0 {
		return fmt.Errorf("there is a problem: %s", strings.Join(names, ", "))
	}
	if names := of(checks.Unknown); len(names) > 0 {
		return unknownError{fmt.Errorf("no verdict: %s", strings.Join(names, ", "))}
	}
	return nil
}

func writeOutcomes(w io.Writer, outcomes []detector.Outcome) error {
	words := map[checks.Status]string{checks.True: "PROBLEM", checks.False: "healthy", checks.Unknown: "unknown"}
	var text strings.Builder
	fmt.Fprintln(&text, "CHECK\tRESULT\tREASON\tTOOK\tMESSAGE")
	for _, o := range outcomes {
		fmt.Fprintf(&text, "%s\t%s\t%s\t%.2fs\t%s\n", o.Check, words[o.Status], o.Reason, o.Seconds, cell(o.Message))
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(table, text.String()); err != nil {
		return err
	}
	return table.Flush()
}

// cell is a text of others in a line of a table.
func cell(text string) string { return strings.Join(strings.Fields(cut.Plain(text)), " ") }

func writeOutcomesJSON(w io.Writer, outcomes []detector.Outcome) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(outcomes)
}
