package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func (t *tool) excludeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exclude NODE...",
		Short: "Keep every new action away from a node",
		Long: `Label nodes ` + v1alpha1.ExcludeLabel + `=true: no new action starts on them. What is under way
is finished, and a node that heals is given back.`,
		Example:           `  kubectl nodemend exclude worker-17 worker-18`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: t.completeNodes,
	}
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		return t.setExcluded(ctx, c, args, true)
	})
	return cmd
}

func (t *tool) includeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "include NODE...",
		Short:             "Undo exclude",
		Long:              `Remove the label ` + v1alpha1.ExcludeLabel + ` from nodes.`,
		Example:           `  kubectl nodemend include worker-17 worker-18`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: t.completeNodes,
	}
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		return t.setExcluded(ctx, c, args, false)
	})
	return cmd
}

// setExcluded labels the nodes, all of which must exist.
func (t *tool) setExcluded(ctx context.Context, c client.Client, names []string, excluded bool) error {
	var value any // nil removes the label
	done, already := "included", "was not excluded"
	if excluded {
		value, done, already = "true", "excluded", "was excluded already"
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.ExcludeLabel: value}}})
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := node(ctx, c, name); err != nil {
			return err
		}
	}
	for _, name := range names {
		n, err := node(ctx, c, name)
		if err != nil {
			return err
		}
		if v1alpha1.Excluded(n) == excluded {
			t.printf("node %s %s\n", name, already)
			continue
		}
		if err := c.Patch(ctx, n, client.RawPatch(types.MergePatchType, patch), fieldOwner); err != nil {
			return err
		}
		t.printf("node %s is %s\n", name, done)
	}
	return nil
}
