package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func (t *tool) excludeCommand() *cobra.Command {
	var reason string
	var of nodeSet
	cmd := &cobra.Command{
		Use:   "exclude NODE...",
		Short: "Keep every new action away from nodes",
		Long: `Label nodes ` + v1alpha1.ExcludeLabel + `=true: no new action starts on them. What is under way
is finished, and a node that heals is given back.

The reason is shown wherever somebody asks why nothing happens.`,
		Example: `  kubectl nodemend exclude worker-17 worker-18 --reason "firmware test"
  kubectl nodemend exclude -l rack=r7 --reason "rack move"`,
		Args:              of.args,
		ValidArgsFunction: t.completeNodes,
	}
	of.addTo(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for people")
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		nodes, err := of.nodes(ctx, c, args...)
		if err != nil {
			return err
		}
		if reason = strings.TrimSpace(reason); reason != "" {
			reason = signed(reason, person(ctx, c))
		}
		return t.setExcluded(ctx, c, nodes, true, reason)
	})
	return cmd
}

func (t *tool) includeCommand() *cobra.Command {
	var of nodeSet
	cmd := &cobra.Command{
		Use:   "include NODE...",
		Short: "Undo exclude",
		Long:  `Remove the label ` + v1alpha1.ExcludeLabel + ` from nodes.`,
		Example: `  kubectl nodemend include worker-17 worker-18
  kubectl nodemend include -l rack=r7`,
		Args:              of.args,
		ValidArgsFunction: t.completeNodes,
	}
	of.addTo(cmd)
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, args []string) error {
		nodes, err := of.nodes(ctx, c, args...)
		if err != nil {
			return err
		}
		return t.setExcluded(ctx, c, nodes, false, "")
	})
	return cmd
}

// setExcluded labels the nodes, and writes the reason down, "" for none.
func (t *tool) setExcluded(ctx context.Context, c client.Client, nodes []corev1.Node, excluded bool, reason string) error {
	var label, why any // nil removes them
	done, already := "included", "was not excluded"
	if excluded {
		label, done, already = "true", "excluded", "was excluded already"
	}
	if reason != "" {
		why = reason
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": map[string]any{v1alpha1.ExcludeLabel: label}, "annotations": map[string]any{v1alpha1.ExcludeReasonAnnotation: why},
	}})
	if err != nil {
		return err
	}
	var errs []error
	for i := range nodes {
		n := &nodes[i]
		if v1alpha1.Excluded(n) == excluded && reason == "" {
			t.printf("node %s %s\n", n.Name, already)
			continue
		}
		if err := c.Patch(ctx, n, client.RawPatch(types.MergePatchType, patch), fieldOwner); err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", nodes[i].Name, err))
			continue
		}
		t.printf("node %s is %s%s\n", n.Name, done, detail("", reason))
	}
	return errors.Join(errs...)
}
