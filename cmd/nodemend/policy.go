//go:build !agent

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodemend/nodemend/checks/detector"
	"github.com/nodemend/nodemend/checks/systemlog"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/config/offline"
	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/internal/fold"
)

const policyCheckHelp = `Check RemedyPolicy, RemediationBudget, NodeMaintenance and
NodemendRemediationTemplate objects in files, without a cluster.

The rules are the API server's own: the schema, the defaults and the CEL rules
of the CustomResourceDefinitions in this binary, and unknown and repeated
fields are errors. What passes here is accepted by "kubectl apply". Labels and
time windows are checked more strictly, as the controller reads them.

A warning is about what is accepted but probably not meant: a condition that
nothing known reports, policies that start on the same condition of the same
nodes, limits that never let anything through, a verifyTimeout shorter than two
runs of the check, times beyond a day, a policy for all nodes.

A FILE is YAML or JSON with any number of documents; "-" is standard input. Of a
directory all .yaml, .yml and .json files are read, with -R those below it, too;
what is of another API group, or of none, is passed over there. Every problem is
printed with its place, in one line unless a terminal is too narrow for it:

  p.yaml:12:14: RemedyPolicy/pleg: spec.steps[0].timeout: Invalid value: "0s": …

With --server the cluster is asked as well: would its API server take each
object (nothing is kept), which conditions its nodes report, could the policies
act on them, and do they overlap with others that are there? You need the rights
to apply the objects and to list nodes, policies and budgets.

Exit status: 0 if all is valid, 1 if there is an error, or with --strict a
warning, 2 if the command line is wrong.`

const policyCheckExample = `  # Before applying.
  nodemend policy check policies/ && kubectl apply -f policies/

  # In a pipeline.
  nodemend policy check --strict -R clusters/
  kustomize build overlays/production | nodemend policy check -

  # By what the cluster says, too, before it gets them.
  nodemend policy check --server policies/

  # What the cluster has now, against the rules of this version.
  kubectl get remedypolicies,rbud -o yaml | nodemend policy check -

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
	cmd.SetFlagErrorFunc(wrongFlag)
	cmd.AddCommand(newPolicyCheckCommand(), newPolicyHashCommand())
	return cmd
}

// policyCheck is what the command line asks for.
type policyCheck struct {
	output, kubeconfig        string
	conditions                []string
	recursive, strict, server bool
}

func newPolicyCheckCommand() *cobra.Command {
	check := policyCheck{output: "text"}
	cmd := &cobra.Command{
		Use:     "check FILE...",
		Short:   "Check policies and budgets by the API server's rules, offline",
		Long:    policyCheckHelp,
		Example: policyCheckExample,
		Args:    someFile,
		RunE:    check.run,
	}
	flags := cmd.Flags()
	flags.StringVarP(&check.output, "output", "o", check.output, "`form` of the report: text or json")
	flags.BoolVarP(&check.recursive, "recursive", "R", false, "of directories, read those below them, too")
	flags.BoolVar(&check.strict, "strict", false, "exit with 1 if there is a warning")
	flags.BoolVar(&check.server, "server", false, "ask the cluster as well; changes nothing there")
	flags.StringSliceVar(&check.conditions, "condition", nil, "`TYPE` of a condition that another agent reports; can be repeated")
	kubeconfigFlag(flags, &check.kubeconfig)
	return cmd
}

func (p *policyCheck) run(cmd *cobra.Command, args []string) error {
	write, ok := reportWriters()[p.output]
	if !ok {
		return usageError{fmt.Errorf("unknown output %q; accepted are text and json", p.output)}
	}
	if p.kubeconfig != "" && !p.server {
		return usageError{errors.New("--kubeconfig names a cluster, which only --server asks; give both or neither")}
	}
	known := offline.Known{Conditions: conditionsOfChecks()}
	for _, t := range p.conditions {
		if _, ours := known.Conditions[t]; !ours {
			known.Conditions[t] = 0 // how often is not known
		}
	}
	var asked *cluster
	if p.server {
		var err error
		if asked, err = askCluster(cmd.Context(), p.kubeconfig); err != nil {
			return err
		}
		asked.addTo(&known)
	}
	report, files, err := checkFiles(cmd, args, p.recursive, known)
	if err != nil {
		return err
	}
	if asked != nil {
		if err := asked.check(cmd.Context(), &report); err != nil {
			return err
		}
	}
	if err := write(cmd.OutOrStdout(), report, files); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if warnings := len(report.Warnings); p.strict && warnings > 0 && len(report.Problems) == 0 {
		return fmt.Errorf("%s in %s", plural(warnings, "warning"), plural(files, "file"))
	}
	return problemsIn(report, files)
}

// conditionsOfChecks returns the conditions of the checks of detectors, with the intervals
// that they have unless somebody says otherwise, and those of the rules for logs.
func conditionsOfChecks() map[string]time.Duration {
	defaults := config.Default()
	conditions := map[string]time.Duration{
		config.ControlPlaneEndpointUnhealthy: config.DefaultRemote().ControlPlaneEndpoint.Interval.Duration,
	}
	for _, kind := range detector.Kinds() {
		conditions[kind.ConditionType] = kind.Settings(&defaults.Checks).Interval.Duration
	}
	for _, name := range systemlog.Builtins() {
		rules, _ := systemlog.Load(systemlog.BuiltinPrefix + name) // a test loads them all
		for _, c := range rules.Conditions {
			conditions[c.Type] = 0
		}
	}
	return conditions
}

// someFile accepts at least one argument.
func someFile(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError{errors.New("no file to check; give at least one FILE, or - for standard input")}
	}
	return nil
}

// checkFiles checks what the arguments name, and returns the number of files.
func checkFiles(cmd *cobra.Command, args []string, recursive bool, known offline.Known) (report offline.Report, count int, err error) {
	validator, err := offline.Load(deploy.CRDs, known)
	if err != nil {
		return offline.Report{}, 0, err
	}
	files, unreadable := readFiles(cmd.InOrStdin(), args, recursive)
	count = len(files) + len(unreadable)
	report = validator.Check(cmd.Context(), files...)
	if report.Objects == 0 && len(unreadable) == 0 && len(report.Problems) == 0 {
		unreadable = []offline.Problem{{File: strings.Join(args, ", "), Message: "no policy, budget or maintenance in it"}}
	}
	report.Problems = append(append([]offline.Problem{}, unreadable...), report.Problems...)
	return report, count, nil
}

// problemsIn returns an error if the report has a problem.
func problemsIn(report offline.Report, files int) error {
	if count := len(report.Problems); count > 0 {
		return fmt.Errorf("%s in %s", plural(count, "problem"), plural(files, "file"))
	}
	return nil
}

// readFiles reads what the arguments name, each file once. A file that cannot be read is a
// problem of its own and does not keep the others from being checked.
func readFiles(stdin io.Reader, args []string, recursive bool) (files []offline.File, unreadable []offline.Problem) {
	read := map[string]bool{}
	add := func(name string, mixed bool) {
		path := name
		if target, err := filepath.EvalSymlinks(name); err == nil {
			path = target
		}
		if absolute, err := filepath.Abs(path); err == nil {
			path = absolute
		}
		if !read[path] {
			files, unreadable = readFile(stdin, name, mixed, files, unreadable)
		}
		read[path] = true
	}
	for _, arg := range args {
		if info, err := os.Stat(arg); err != nil || !info.IsDir() || arg == "-" {
			add(arg, false)
			continue
		}
		found := false
		root := arg + string(filepath.Separator) // so that a link to a directory is followed
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && path != root && !recursive:
				return filepath.SkipDir
			case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
				found = true
				add(path, true)
			}
			return nil
		})
		switch {
		case err != nil:
			unreadable = append(unreadable, offline.Problem{File: arg, Message: "cannot be read: " + cause(err)})
		case !found && recursive:
			unreadable = append(unreadable, offline.Problem{File: arg, Message: "no .yaml, .yml or .json file in it or below it"})
		case !found:
			unreadable = append(unreadable, offline.Problem{File: arg, Message: "no .yaml, .yml or .json file in it; -R also looks below it"})
		}
	}
	return files, unreadable
}

func readFile(stdin io.Reader, name string, mixed bool, files []offline.File, unreadable []offline.Problem) ([]offline.File, []offline.Problem) {
	read := func() ([]byte, error) { return os.ReadFile(name) }
	if name == "-" {
		name, read = "stdin", func() ([]byte, error) { return io.ReadAll(stdin) }
	}
	data, err := read()
	if err != nil {
		return files, append(unreadable, offline.Problem{File: name, Message: "cannot be read: " + cause(err)})
	}
	return append(files, offline.File{Name: name, Data: data, Mixed: mixed}), unreadable
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
	_, err := io.WriteString(w, fold.Lines(text.String(), fold.Width(w)))
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
