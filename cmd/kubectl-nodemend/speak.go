package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/remediation"
)

// fieldOwner is who the API server notes as the writer of a change.
const fieldOwner = client.FieldOwner("kubectl-nodemend")

// annotate sets an annotation of the remediation that was read, and no later one of
// its name, and another one that names who does so.
func annotate(ctx context.Context, c client.Client, r *v1alpha1.Remediation, key, value, byKey string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": r.UID, "annotations": map[string]any{key: value, byKey: signature(value, person(ctx, c))},
	}})
	if err != nil {
		return err
	}
	return c.Patch(ctx, r, client.RawPatch(types.MergePatchType, patch), fieldOwner)
}

func (t *tool) approveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approve REMEDIATION|NODE",
		Short: "Let the step go ahead that waits for approval",
		Long: `Approve the step that a remediation waits with, and the steps before it; one that comes
later is asked for again. NODE stands for its only remediation that waits for approval.

What the step does, and its script, is shown by describe.`,
		Example: `  kubectl nodemend describe worker-17
  kubectl nodemend approve worker-17`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeRemediation,
	}
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		waits := func(r *v1alpha1.Remediation) bool { return !r.Ended() && r.BlockedBy() == gates.ReasonApprovalRequired }
		r, err := findRemediation(ctx, c, args[0], "waiting for approval", waits)
		if err != nil {
			return err
		}
		if !waits(r) {
			return fmt.Errorf("remediation %s does not wait for approval: it is %s", r.Name, standing(r))
		}
		number := r.Status.Step
		step := r.Step(number)
		if step == nil {
			return fmt.Errorf("remediation %s has no step %d; see kubectl nodemend describe %s", r.Name, number, r.Name)
		}
		if err := annotate(ctx, c, r, v1alpha1.ApprovedStepAnnotation, strconv.Itoa(int(number)), v1alpha1.ApprovedByAnnotation); err != nil {
			return err
		}
		t.printf("approved: step %d (%s) of remediation %s on node %s\n", number, step.Describe(), r.Name, r.Spec.NodeName)
		if step.Command != nil {
			_, _ = fmt.Fprint(t.streams.Out, quoted(step.Command.Script)) // nobody is left to tell
		}
		return nil
	})
	return cmd
}

// standing says where a remediation stands: "Waiting, blocked by Window".
func standing(r *v1alpha1.Remediation) string {
	if by := r.BlockedBy(); by != "" {
		return r.State() + ", blocked by " + by
	}
	if r.State() == "" {
		return "new"
	}
	return r.State()
}

// openRemediation returns the open remediation of this name, or the only one of the node
// of this name. What is to be done with it is said in words.
func openRemediation(ctx context.Context, c client.Client, name, words string) (*v1alpha1.Remediation, error) {
	r, err := findRemediation(ctx, c, name, "open", open)
	if err == nil && r.Ended() {
		return nil, fmt.Errorf("remediation %s has ended as %s: there is nothing to %s", r.Name, r.State(), words)
	}
	return r, err
}

func (t *tool) retryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry REMEDIATION|NODE",
		Short: "Start over with the first step of an exhausted remediation",
		Long: `Make a remediation start over with its first step: one that is exhausted, or that waits
for a person since nobody knows whether its last action was executed. All gates are
asked again. NODE stands for its only open remediation.`,
		Example:           `  kubectl nodemend retry worker-17`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeRemediation,
	}
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		r, err := openRemediation(ctx, c, args[0], "start over")
		if err != nil {
			return err
		}
		if !remediation.WaitsForRetry(r) {
			return fmt.Errorf("remediation %s goes on by itself: it is %s", r.Name, standing(r))
		}
		if err := annotate(ctx, c, r, v1alpha1.RetryAnnotation, strconv.FormatInt(t.clock.Now().Unix(), 10), v1alpha1.RetriedByAnnotation); err != nil {
			return err
		}
		t.printf("remediation %s on node %s starts over with step 1 (%s)\n", r.Name, r.Spec.NodeName, r.Step(1).Describe())
		return nil
	})
	return cmd
}

func (t *tool) cancelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel REMEDIATION|NODE",
		Short: "Stop a remediation; no new one starts for its incident",
		Long: `Delete an open remediation. What no runner has claimed is cancelled, what runs is
finished. A node that is out of service for it stays cordoned while it is sick, with
its NodeMaintenance. The incident starts no other remediation until its condition has
changed. NODE stands for its only open remediation.`,
		Example:           `  kubectl nodemend cancel worker-17`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: t.completeRemediation,
	}
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		r, err := openRemediation(ctx, c, args[0], "cancel")
		if err != nil {
			return err
		}
		if r.DeletionTimestamp != nil {
			return errors.New("remediation " + r.Name + " is being cancelled already")
		}
		if err := c.Delete(ctx, r, client.Preconditions{UID: &r.UID}); err != nil {
			return err
		}
		t.printf("remediation %s on node %s is being cancelled; it was %s\n", r.Name, r.Spec.NodeName, standing(r))
		return nil
	})
	return cmd
}
