package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func (t *tool) fenceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fence",
		Short: "Whether nodes could be switched off, and that one is off",
		Long: `Whether nodes that do not answer could be switched off from outside: by their BMC, their
cloud, or what feeds them. The remote runner tries that each hour, and writes it in the node's
condition ` + v1alpha1.NodeFenceable + `. And what a person says of a machine whose power nothing can read.
docs/fencing.md describes both.`,
	}
	cmd.AddCommand(t.fenceCheckCommand(), t.fenceConfirmCommand())
	return cmd
}

func (t *tool) fenceCheckCommand() *cobra.Command {
	var form output
	var of nodeSet
	timeout := 4 * time.Minute // off is read for two
	cmd := &cobra.Command{
		Use:   "check NODE...",
		Short: "Try now what would switch nodes off; switches nothing",
		Long: `Ask the remote runner to ask the switch of each node now, and show what came of it. Nothing
is switched. It is asked by the annotation ` + v1alpha1.FenceCheckAnnotation + `, which takes the
right to patch nodes; the logins stay where the remote runner is.

A switch is asked at most once a minute, and once in five minutes if it refuses the login:
BMCs lock out who tries too often. One that says off, of a node that is not Ready, is asked for
two minutes, until that is believed. To try a remote.yaml that is not installed yet:
nodemend fence check --config.

Exit status: 0 if all could be switched off, else 1.`,
		Example: `  kubectl nodemend fence check worker-17 worker-18
  kubectl nodemend fence check -l rack=r7 --timeout 10m
  kubectl nodemend fence check -l rack=r7 -o json | jq -r '.[] | select(.fenceable | not) | .node'`,
		Args:              of.args,
		ValidArgsFunction: t.completeNodes,
	}
	form.addTo(cmd)
	of.addTo(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the remote runner")
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		if timeout <= 0 {
			return fmt.Errorf("--timeout=%s is not positive", timeout)
		}
		checks, err := t.checkFences(ctx, c, &of, args, timeout)
		if err != nil {
			return err
		}
		if err := t.print(form, checks, func() string { return t.fencesText(checks, form.wide()) }); err != nil {
			return err
		}
		return unfenced(checks)
	})
	return cmd
}

// fenceCheck is what is known of a node.
type fenceCheck struct {
	Node      string    `json:"node"`
	Fenceable bool      `json:"fenceable"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message"`
	Checked   time.Time `json:"checked,omitzero"`
	// Answered: it was tried since this command has asked for it.
	Answered bool `json:"answered"`
}

// checkFences has nodes checked, and waits for that. What is not known in time is told as it was
// before.
func (t *tool) checkFences(ctx context.Context, c client.Client, of *nodeSet, names []string, timeout time.Duration) ([]fenceCheck, error) {
	nodes, err := of.nodes(ctx, c, names...)
	if err != nil {
		return nil, err
	}
	before := map[string]time.Time{}
	for i := range nodes {
		before[nodes[i].Name] = v1alpha1.FenceOf(&nodes[i], t.clock.Now()).Checked
	}
	if err := t.askForFences(ctx, c, nodes); err != nil {
		return nil, err
	}
	var checks []fenceCheck
	err = wait.PollUntilContextTimeout(ctx, lookEvery, timeout, false, func(ctx context.Context) (bool, error) {
		now, err := of.nodes(ctx, c, names...)
		if err != nil {
			return false, err
		}
		checks = nil
		for i := range now {
			asOf, asked := before[now[i].Name]
			if !asked { // it came meanwhile
				continue
			}
			f := v1alpha1.FenceOf(&now[i], t.clock.Now())
			checks = append(checks, fenceCheck{now[i].Name, f.Fenceable, f.Reason, f.Message, f.Checked, !f.Checked.Equal(asOf)})
		}
		return !slices.ContainsFunc(checks, func(f fenceCheck) bool { return !f.Answered }), nil
	})
	if err != nil && (ctx.Err() != nil || !wait.Interrupted(err) || checks == nil) {
		return nil, err
	}
	return checks, nil
}

// askForFences asks the remote runner to check nodes.
func (t *tool) askForFences(ctx context.Context, c client.Client, nodes []corev1.Node) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{v1alpha1.FenceCheckAnnotation: t.clock.Now().UTC().Format(time.RFC3339Nano)},
	}})
	if err != nil {
		return err
	}
	var errs []error
	for i := range nodes {
		if err := c.Patch(ctx, nodes[i].DeepCopy(), client.RawPatch(types.MergePatchType, patch), fieldOwner); err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", nodes[i].Name, err))
		}
	}
	return errors.Join(errs...)
}

// unfenced is an error unless all were tried, and would do.
func unfenced(checks []fenceCheck) error {
	var silent, bad []string
	for i := range checks {
		switch f := &checks[i]; {
		case !f.Answered:
			silent = append(silent, f.Node)
		case !f.Fenceable:
			bad = append(bad, f.Node)
		}
	}
	var errs []error
	if len(bad) > 0 {
		errs = append(errs, fmt.Errorf("%d of %s can't be switched off from outside: %s", len(bad), count(len(checks), "node"), some(bad, false)))
	}
	if len(silent) > 0 {
		errs = append(errs, fmt.Errorf("the remote runner has not tried %d of %s: %s. Does it run (remoteRunner.enabled of the chart)? Does it work on the node's machine? Or was the switch tried within the last minutes?",
			len(silent), count(len(checks), "node"), some(silent, false)))
	}
	return errors.Join(errs...)
}

func (t *tool) fencesText(checks []fenceCheck, wide bool) string {
	var rows [][]string
	for i := range checks {
		f := &checks[i]
		verdict := "no"
		if f.Fenceable {
			verdict = "yes"
		}
		if !f.Answered {
			verdict += ", as it was"
		}
		rows = append(rows, []string{f.Node, verdict, t.checkedText(f.Checked), f.Reason, dash(f.Message)})
	}
	return fit(table([]string{"NODE", "FENCEABLE", "CHECKED", "REASON", "MESSAGE"}, rows), wide)
}

// checkedText says how long ago it was checked.
func (t *tool) checkedText(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return t.ago(at) + " ago"
}

// fenceStatus is how many nodes could be switched off from outside, and why others could not.
type fenceStatus struct {
	Fenceable int            `json:"fenceable"`
	Not       []nodesInState `json:"not,omitempty"`
}

// fencesOf counts; nil if no remote runner has tried any node.
func (t *tool) fencesOf(nodes []corev1.Node) *fenceStatus {
	names := map[string][]string{}
	tried := false
	s := &fenceStatus{}
	for i := range nodes {
		f := v1alpha1.FenceOf(&nodes[i], t.clock.Now())
		tried = tried || !f.Checked.IsZero()
		if f.Fenceable {
			s.Fenceable++
			continue
		}
		names[f.Reason] = append(names[f.Reason], nodes[i].Name)
	}
	if !tried {
		return nil
	}
	for reason, of := range names {
		s.Not = append(s.Not, nodesInState{State: reason, Count: len(of), Names: of})
	}
	slices.SortFunc(s.Not, func(a, b nodesInState) int { return strings.Compare(a.State, b.State) })
	return s
}

// text tells it in a line.
func (s *fenceStatus) text(wide bool) string {
	if s == nil {
		return ""
	}
	all := s.Fenceable
	var not strings.Builder
	for _, n := range s.Not {
		all += n.Count
		fmt.Fprintf(&not, "; not %s (%s)", some(n.Names, wide), n.State)
	}
	return fmt.Sprintf("Fences: %d of %s could be switched off from outside%s.\n", s.Fenceable, count(all, "node"), not.String())
}
