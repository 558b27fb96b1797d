//go:build !agent

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodemend/nodemend/config/offline"
	runnerconfig "github.com/nodemend/nodemend/config/runner"
	"github.com/nodemend/nodemend/config/v1alpha1"
)

const policyHashHelp = `Print the hashes of the steps that runners execute, for who owns a node and wants
nothing else to be executed there.

What is printed can be pasted into a node's ` + runnerconfig.Path + ` (docs/runner.md).
A hash is that of all that a step says, with the defaults: whoever changes a word of
the step in the policy makes another hash, which the node refuses. It is the
stepHash of NodeActions.

The files are checked as by "nodemend policy check". If there is a problem, nothing is
printed but that.`

const policyHashExample = `  # Of a file that you have read.
  nodemend policy hash policy.yaml

  # Of what the cluster has now.
  kubectl get remedypolicies -o yaml | nodemend policy hash -`

func newPolicyHashCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "hash FILE...",
		Short:   "Print the hashes of steps, to allow these alone on a node",
		Long:    policyHashHelp,
		Example: policyHashExample,
		Args:    someFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			report, files, err := checkFiles(cmd, args, false, offline.Known{})
			if err != nil {
				return err
			}
			report.Warnings = nil
			if err := problemsIn(report, files); err != nil {
				return errors.Join(writeText(cmd.ErrOrStderr(), report, files), err)
			}
			text, err := allowed(report.Policies)
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
}

// allowed returns the part of a node's file that allows the steps of these policies. It
// holds nothing that somebody could have chosen but names that the API server accepts: no
// text of a policy ends up as an entry of the list.
func allowed(policies []v1alpha1.RemedyPolicy) (string, error) {
	var text strings.Builder
	for i := range policies {
		for n := range policies[i].Spec.Steps {
			step := &policies[i].Spec.Steps[n]
			if !step.NeedsRunner() {
				continue
			}
			hash, err := step.Hash()
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&text, "  - %s # %s, step %d: %s\n", hash, policies[i].Name, n+1, step.Remedy())
		}
	}
	if text.Len() == 0 {
		return "", errors.New("there is no step that runners execute in these files")
	}
	return "steps:\n  allow:\n" + text.String(), nil
}
