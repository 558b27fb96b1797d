package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/fold"
	"github.com/nodemend/nodemend/internal/repairnote"
)

func (t *tool) describeCommand() *cobra.Command {
	var form output
	cmd := &cobra.Command{
		Use:   "describe REMEDIATION|NODE",
		Short: "The timeline of one remediation, with the output of its commands",
		Long: `Show one remediation from its trigger to its outcome: the scripts of its steps; every
action with its time, its result and the end of what it printed; what people have decided about it, and what they
can do next. Of a reboot or power cycle also what the boot that has ended has left: the end of its journal, of the
kernel's crash records, and what the BMC has logged.

A name is that of a user whom the API server knew. None is recorded of who writes by hand,
as with kubectl annotate: only the audit log knows. See docs/remediations.md.

NODE stands for the newest remediation of a node.`,
		Example: `  kubectl nodemend describe worker-17
  kubectl nodemend describe worker-17-5c0c9a4dd2e2d8a1 -o yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeRemediation,
	}
	form.addTo(cmd)
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		newest := true
		r, err := findRemediation(ctx, c, args[0], "of this node", func(*v1alpha1.Remediation) bool {
			first := newest
			newest = false
			return first
		})
		if err != nil {
			return err
		}
		r.ManagedFields = nil
		r.APIVersion, r.Kind = v1alpha1.GroupVersion.String(), "Remediation"
		var text string
		if !form.data() {
			left, err := aftermaths(ctx, c, client.MatchingFields{"spec.remediation": r.Name})
			if err != nil {
				return err
			}
			text = leftText(left)
		}
		return t.print(form, r, func() string { return t.timeline(r, t.pauses(ctx, c, r)) + text })
	})
	return cmd
}

func conditionOf(r *v1alpha1.Remediation, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(r.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// timeline tells a remediation as a person reads it, with what pauses it now.
func (t *tool) timeline(r *v1alpha1.Remediation, pauses []string) string {
	var text strings.Builder
	state := r.State()
	if r.BlockedBy() != "" {
		state += ", blocked by " + r.BlockedBy()
	}
	facts := [][]string{
		{"Remediation:", r.Name},
		{"Node:", r.Spec.NodeName},
		{"Policy:", r.Spec.Policy.Name},
		{"State:", dash(state)},
	}
	if by := r.Annotations[v1alpha1.StartedByAnnotation]; by != "" {
		facts = append(facts, []string{"Started by:", by})
	}
	if request := r.Spec.Request; request != nil {
		facts = append(facts, []string{"Requested by:", oneLine(requested(request))})
	}
	if text := message(r); text != "" {
		facts = append(facts, []string{"", text})
	}
	text.WriteString(t.sentences(nil, append(facts, decisions(r, pauses)...)))
	text.WriteString("\nSteps:\n")
	for i := range r.Spec.Steps {
		step := &r.Spec.Steps[i]
		here := " "
		if int(r.Status.Step) == i+1 && !r.Ended() {
			here = ">"
		}
		what := oneLine(step.Describe())
		if step.Attempts > 1 {
			what += fmt.Sprintf(", up to %d times", step.Attempts)
		}
		if step.RequireApproval {
			what += ", after approval"
		}
		text.WriteString(t.beside(fmt.Sprintf("%s %d. ", here, i+1), what))
		if step.Command != nil {
			text.WriteString(quoted(step.Command.Script))
		}
	}
	text.WriteString("\nTimeline:\n")
	for _, e := range events(r) {
		text.WriteString(t.beside("  "+e.at.UTC().Format(time.RFC3339)+"  ", oneLine(e.text)))
		text.WriteString(quoted(e.output))
	}
	return text.String()
}

// beside is a line of a label and what is said beside it, folded there.
func (t *tool) beside(label, said string) string {
	return label + strings.Join(fold.Line(said, t.width()-len(label), 0), "\n"+strings.Repeat(" ", len(label))) + "\n"
}

// quote begins each line of others.
const quote = "    | "

// quoted is a text of others below a line of ours, "" for none.
func quoted(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		fmt.Fprintf(&lines, quote+"%s\n", visible(strings.TrimRight(line, "\r\n")))
	}
	return lines.String()
}

type event struct {
	at           time.Time
	text, output string
}

// events are what happened, in the order of time.
func events(r *v1alpha1.Remediation) []event {
	trigger := r.Spec.Trigger
	told := []event{
		{at: trigger.LastTransitionTime.Time, text: fmt.Sprintf("%s became %s%s", trigger.Type, trigger.Status, detail(trigger.Reason, repairnote.Said(trigger.Message)))},
		{at: r.StartedAt().Time, text: "remediation started"},
	}
	if r.Spec.Request != nil {
		told[0].text = oneLine(trigger.Message)
	}
	if seen := trigger.SeenSince; seen != nil {
		told = append(told, event{at: seen.Time, text: fmt.Sprintf("the controller counts from here, by its own clock, for how long %s is %s", trigger.Type, trigger.Status)})
	}
	for _, record := range r.Status.History {
		what := fmt.Sprintf("step %d (%s), attempt %d", record.Step, record.Remedy, record.Attempt)
		if record.StartedAt != nil {
			told = append(told, event{at: record.StartedAt.Time, text: what + " started"})
		}
		told = append(told, event{at: record.FinishedAt.Time, text: what + " " + record.Outcome + detail("", record.Message), output: record.Output})
	}
	for _, decided := range r.Status.Decisions {
		what := "started over with step 1"
		if decided.What == v1alpha1.DecisionApproved {
			what = fmt.Sprintf("approved up to step %d", decided.Step)
			if decided.Step == 0 {
				what = "approval taken back"
			}
		}
		told = append(told, event{at: decided.At.Time, text: what + " " + by(decided.By)})
	}
	if r.Ended() {
		told = append(told, event{at: r.Status.EndTime.Time, text: "ended: " + r.State() + detail("", conditionOf(r, v1alpha1.RemediationProgressing).Message)})
	} else if c := conditionOf(r, v1alpha1.RemediationBlocked); c.Status == metav1.ConditionTrue {
		told = append(told, event{at: c.LastTransitionTime.Time, text: "blocked by " + c.Reason})
	}
	slices.SortStableFunc(told, func(a, b event) int { return a.at.Compare(b.at) })
	return told
}

// detail is what follows a word: " (Timeout): no answer".
func detail(reason, message string) string {
	var text string
	if reason != "" {
		text = " (" + oneLine(reason) + ")"
	}
	if message != "" {
		text += ": " + oneLine(message)
	}
	return text
}
