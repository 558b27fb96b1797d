package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func (t *tool) historyCommand() *cobra.Command {
	var form output
	var policy string
	var since spanFlag
	cmd := &cobra.Command{
		Use:   "history [NODE]",
		Short: "What was done, and what came of it",
		Long: `List the remediations of a node, or of all nodes, newest first: those under way and
those that have ended, as long as they are kept.

ACTIONS is what was executed, in order, with its outcome where it did not succeed. With
-o wide each remediation has one line, with its condition, name and message.`,
		Example: `  kubectl nodemend history
  kubectl nodemend history worker-17
  kubectl nodemend history --policy container-runtime --since 1d -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: t.completeNode,
	}
	form.addTo(cmd)
	cmd.Flags().StringVar(&policy, "policy", "", "only those of this policy")
	cmd.Flags().Var(&since, "since", "only those that started within this time, for example 1d")
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		var name string
		if len(args) == 1 {
			name = args[0]
		}
		all, err := remediationsOf(ctx, c, name)
		if err != nil {
			return err
		}
		if name != "" && len(all) == 0 {
			if _, err := node(ctx, c, name); err != nil {
				return err
			}
		}
		found := []v1alpha1.Remediation{} // not null in JSON
		for _, r := range all {
			if (policy == "" || r.Spec.Policy.Name == policy) && (since == 0 || t.clock.Since(r.StartedAt().Time) <= time.Duration(since)) {
				r.ManagedFields = nil
				r.APIVersion, r.Kind = v1alpha1.GroupVersion.String(), "Remediation"
				found = append(found, r)
			}
		}
		list := v1alpha1.RemediationList{Items: found}
		list.APIVersion, list.Kind = v1alpha1.GroupVersion.String(), "RemediationList"
		return t.print(form, list, func() string {
			if len(found) == 0 {
				return "no remediations\n"
			}
			return t.remediationTable(found, form.wide())
		})
	})
	return cmd
}

// remediationTable has one row for each: what was executed, and, if it is wide, all that a
// terminal has no room for.
func (t *tool) remediationTable(all []v1alpha1.Remediation, wide bool) string {
	header := []string{"AGE", "NODE", "STATE", "TOOK", "POLICY", "ACTIONS"}
	if wide {
		header = append(header, "CONDITION", "BLOCKED BY", "NAME", "MESSAGE")
	}
	rows := make([][]string, len(all))
	for i := range all {
		r := &all[i]
		took := "-"
		if r.Ended() {
			took = span(r.Status.EndTime.Sub(r.StartedAt().Time))
		}
		rows[i] = []string{t.ago(r.StartedAt().Time), r.Spec.NodeName, dash(r.State()), took, r.Spec.Policy.Name, dash(actions(r))}
		if wide {
			rows[i] = append(rows[i], r.Spec.Trigger.Type, dash(r.BlockedBy()), r.Name, dash(message(r)))
		}
	}
	if wide {
		return table(header, rows)
	}
	return t.sentences(header, rows)
}

// actions says in short what was executed.
func actions(r *v1alpha1.Remediation) string {
	var done []string
	for _, record := range r.Status.History {
		if !record.Acted() {
			continue
		}
		what := record.Remedy
		if record.Outcome != v1alpha1.ReasonSucceeded {
			what += fmt.Sprintf("(%s)", record.Outcome)
		}
		done = append(done, what)
	}
	return strings.Join(done, ", ")
}

// message is what holds a remediation back, or else where it stands.
func message(r *v1alpha1.Remediation) string {
	if r.BlockedBy() != "" {
		return conditionOf(r, v1alpha1.RemediationBlocked).Message
	}
	return conditionOf(r, v1alpha1.RemediationProgressing).Message
}
