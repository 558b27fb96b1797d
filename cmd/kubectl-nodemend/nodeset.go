package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeSet is how a command is told which nodes it is about: by their names, or by -l.
type nodeSet struct{ labels string }

func (s *nodeSet) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.labels, "selector", "l", "", "nodes with these `labels`, for example pool=workers,zone!=a")
}

// args accepts names of nodes or -l, one of them, and not both.
func (s *nodeSet) args(_ *cobra.Command, names []string) error {
	if (len(names) > 0) == (s.labels != "") {
		return errors.New("name the nodes, or select them with -l, not both")
	}
	return nil
}

// nodes returns the nodes of these names, each once, all of which must exist, or else those that -l
// selects, of which there must be one; without either all nodes.
func (s *nodeSet) nodes(ctx context.Context, c client.Client, names ...string) ([]corev1.Node, error) {
	var found []corev1.Node
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		n, err := node(ctx, c, name)
		if err != nil {
			return nil, err
		}
		found = append(found, *n)
	}
	if len(names) > 0 {
		return found, nil
	}
	selector, err := labels.Parse(s.labels)
	if err != nil {
		return nil, fmt.Errorf("--selector %q: %w", s.labels, err)
	}
	var list corev1.NodeList
	if err := c.List(ctx, &list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, err
	}
	if len(list.Items) == 0 && s.labels != "" {
		return nil, fmt.Errorf("no node has the labels %s; see kubectl get nodes --show-labels", s.labels)
	}
	return list.Items, nil
}
