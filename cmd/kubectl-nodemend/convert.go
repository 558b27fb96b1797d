package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	_ "time/tzdata" // flags name time zones, and not every desk has a database of them

	"github.com/spf13/cobra"

	"github.com/nodemend/nodemend/config/convert"
	"github.com/nodemend/nodemend/config/v1alpha1"
)

const convertHelp = `Turn what another system is configured with into policies and budgets.

A FILE has any of these; "-" is standard input:

  NodeHealthCheck       of medik8s, with its remediation templates, in any of the files
  MachineHealthCheck    of Cluster API or OpenShift
  NodeMaintenance       of medik8s
  magnum-auto-healer    its configuration, or the ConfigMap that has it
  kured, draino         the DaemonSet or Deployment, or a file with its command line

Other objects are passed over, so a manifest, or what "kubectl get -o yaml" prints,
will do. No cluster is asked or changed.

Standard output gets YAML. Comments in it say what differs from the original, what
was not carried over, and where you have to decide. Policies are in mode DryRun: they
show what they would do beside the original, until you let them. A NodeMaintenance
has no such mode, and acts as soon as it is applied.

Standard error gets a line for each thing that was not carried over or that is not
clear, with its place:

  nhc.yaml:15: spec.escalatingRemediations[1]: not carried over: …

Exit status: 0 if all was carried over, 1 if something was not or has to be decided
(the YAML is complete all the same), 2 if a file or the command line is wrong.`

const convertExample = `  # From files; then read the comments, and check.
  kubectl nodemend convert nhc.yaml templates.yaml >policies.yaml
  nodemend policy check policies.yaml
  kubectl apply -f policies.yaml

  # From what the cluster has.
  kubectl get nodehealthchecks,selfnoderemediationtemplates -A -o yaml | kubectl nodemend convert -
  kubectl get daemonset kured -n kube-system -o yaml | kubectl nodemend convert -

  # From flags.
  echo 'draino --node-label=pool=batch KernelDeadlock Ready=Unknown,30m' |
    kubectl nodemend convert -`

func (t *tool) convertCommand() *cobra.Command {
	mode := string(v1alpha1.ModeDryRun)
	cmd := &cobra.Command{
		Use:     "convert FILE...",
		Short:   "Turn what another system is configured with into policies",
		Long:    convertHelp,
		Example: convertExample,
		Args:    cobra.MinimumNArgs(1),
	}
	cmd.Flags().StringVar(&mode, "mode", mode, "`mode` of the policies: DryRun or Enforce. Who was in dry-run stays so")
	modes := []string{string(v1alpha1.ModeDryRun), string(v1alpha1.ModeEnforce)}
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions(modes, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(modes, mode) {
			return misused(cmd, fmt.Errorf("unknown mode %q; accepted are %s", mode, strings.Join(modes, " and ")))
		}
		files, err := t.readAll(args)
		if err != nil {
			return statusError{2, err}
		}
		return t.convert(v1alpha1.PolicyMode(mode), files)
	}
	return cmd
}

// readAll reads files, "-" for standard input.
func (t *tool) readAll(names []string) (files []convert.File, err error) {
	for _, name := range names {
		read := func() ([]byte, error) { return os.ReadFile(name) }
		if name == "-" {
			name, read = "stdin", func() ([]byte, error) { return io.ReadAll(t.streams.In) }
		}
		data, err := read()
		if err != nil {
			return nil, err
		}
		files = append(files, convert.File{Name: name, Data: data})
	}
	return files, nil
}

// convert prints what the files are converted to, and returns what was not carried over.
func (t *tool) convert(mode v1alpha1.PolicyMode, files []convert.File) error {
	result, mistakes := convert.Convert(mode, files...)
	if len(mistakes) > 0 {
		var all []error
		for _, mistake := range mistakes {
			all = append(all, errors.New(mistake.String()))
		}
		return statusError{2, errors.Join(all...)}
	}
	if _, err := io.WriteString(t.streams.Out, result.YAML); err != nil {
		return fmt.Errorf("writing the policies: %w", err)
	}
	lost, questions := 0, 0
	for _, note := range result.Notes {
		if note.Kind == convert.Lost {
			lost++
		} else {
			questions++
		}
		_, _ = fmt.Fprintln(t.streams.ErrOut, note) // nobody is left to tell
	}
	summary := made(result, len(files))
	if lost+questions > 0 {
		summary += fmt.Sprintf("; not carried over: %d, to decide: %d", lost, questions)
	}
	_, _ = fmt.Fprintln(t.streams.ErrOut, summary)
	if lost+questions > 0 {
		return statusError{status: 1}
	}
	return nil
}

// made says what there is now.
func made(result convert.Result, files int) string {
	var parts []string
	for _, of := range []struct {
		n     int
		thing string
	}{{result.Policies, "policy"}, {result.Budgets, "budget"}, {result.Maintenances, "maintenance"}} {
		if of.n > 0 {
			parts = append(parts, count(of.n, of.thing))
		}
	}
	if len(parts) == 0 {
		parts = []string{"nothing"}
	}
	return strings.Join(parts, ", ") + " from " + count(files, "file")
}
