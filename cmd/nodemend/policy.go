//go:build !agent

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodemend/nodemend/config/offline"
	"github.com/nodemend/nodemend/deploy"
)

const policyCheckHelp = `Check RemedyPolicy, RemediationBudget and NodeMaintenance objects in files, without
a cluster.

The rules are the API server's own: the schema, the defaults and the CEL rules
of the CustomResourceDefinitions in this binary, and unknown and repeated
fields are errors. What passes here is accepted by "kubectl apply". Labels and
time windows are checked more strictly, as the controller reads them.

A FILE is YAML or JSON with any number of documents; "-" is standard input.
Every problem is printed with its place:

  policy.yaml:12:14: RemedyPolicy/pleg: spec.steps[0].timeout: Invalid value: "0s": must be at least 1s

Exit status: 0 if all is valid (there may be warnings), 1 if there is a
problem, 2 if the command line is wrong.`

const policyCheckExample = `  # Before applying.
  nodemend policy check policy.yaml budget.yaml && kubectl apply -f policy.yaml -f budget.yaml

  # In a pipeline.
  kustomize build overlays/production | nodemend policy check -

  # What the cluster has now, against the rules of this version.
  kubectl get remedypolicies,remediationbudgets -o yaml | nodemend policy check -

  # For other programs.
  nodemend policy check -o json *.yaml | jq -r '.problems[].file'`

// newPolicyCommand returns `nodemend policy` with its subcommands.
func newPolicyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Work with policies and budgets in files",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q; accepted are: nodemend policy check FILE, nodemend policy hash FILE", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	cmd.AddCommand(newPolicyCheckCommand(), newPolicyHashCommand())
	return cmd
}

func newPolicyCheckCommand() *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:     "check FILE...",
		Short:   "Check policies and budgets by the API server's rules, offline",
		Long:    policyCheckHelp,
		Example: policyCheckExample,
		Args:    someFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := reportWriters()[output]
			if !ok {
				return usageError{fmt.Errorf("unknown output %q; accepted are text and json", output)}
			}
			report, err := checkFiles(cmd, args)
			if err != nil {
				return err
			}
			if err := write(cmd.OutOrStdout(), report, len(args)); err != nil {
				return fmt.Errorf("writing the report: %w", err)
			}
			return problemsIn(report, args)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "`form` of the report: text or json")
	return cmd
}

// someFile accepts at least one argument.
func someFile(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError{errors.New("no file to check; give at least one FILE, or - for standard input")}
	}
	return nil
}

// checkFiles checks what the arguments name.
func checkFiles(cmd *cobra.Command, args []string) (offline.Report, error) {
	validator, err := offline.Load(deploy.CRDs)
	if err != nil {
		return offline.Report{}, err
	}
	files, unreadable := readFiles(cmd.InOrStdin(), args)
	report := validator.Check(cmd.Context(), files...)
	report.Problems = append(unreadable, report.Problems...)
	return report, nil
}

// problemsIn returns an error if the report has a problem.
func problemsIn(report offline.Report, args []string) error {
	if count := len(report.Problems); count > 0 {
		return fmt.Errorf("%s in %s", plural(count, "problem"), plural(len(args), "file"))
	}
	return nil
}

// readFiles reads what the arguments name. A file that cannot be read is a
// problem of its own and does not keep the others from being checked.
func readFiles(stdin io.Reader, args []string) (files []offline.File, unreadable []offline.Problem) {
	for _, arg := range args {
		name, read := arg, func() ([]byte, error) { return os.ReadFile(arg) }
		if arg == "-" {
			name, read = "stdin", func() ([]byte, error) { return io.ReadAll(stdin) }
		}
		data, err := read()
		if err != nil {
			unreadable = append(unreadable, offline.Problem{File: name, Message: "cannot be read: " + cause(err)})
			continue
		}
		files = append(files, offline.File{Name: name, Data: data})
	}
	return files, unreadable
}

// cause is the error without the name of the file.
func cause(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}

// reportWriters are the forms of a report.
func reportWriters() map[string]func(w io.Writer, report offline.Report, files int) error {
	return map[string]func(io.Writer, offline.Report, int) error{"text": writeText, "json": writeJSON}
}

func writeText(w io.Writer, report offline.Report, files int) error {
	var text strings.Builder
	for _, problem := range report.Problems {
		fmt.Fprintln(&text, problem)
	}
	for _, warning := range report.Warnings {
		warning.Object = "warning: " + warning.Object
		fmt.Fprintln(&text, warning)
	}
	if len(report.Problems) == 0 {
		verb := "are"
		if report.Objects == 1 {
			verb = "is"
		}
		fmt.Fprintf(&text, "%s in %s %s valid\n", plural(report.Objects, "object"), plural(files, "file"), verb)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func writeJSON(w io.Writer, report offline.Report, _ int) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// plural returns "1 file" or "2 files".
func plural(count int, noun string) string {
	if count == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", count, noun)
}
