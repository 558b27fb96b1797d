package main

import (
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// completion is what cobra calls to complete an argument.
type completion = func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective)

// complete completes the names of the objects of each list in the place of its
// argument.
func (t *tool) complete(lists ...client.ObjectList) completion {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= len(lists) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return t.names(cmd, toComplete, named{"", lists[len(args)]})
	}
}

func (t *tool) completeNode(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return t.complete(&corev1.NodeList{})(cmd, args, toComplete)
}

// completeNodes completes any number of nodes.
func (t *tool) completeNodes(cmd *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return t.names(cmd, toComplete, named{"", &corev1.NodeList{}})
}

// completeRemediation completes what REMEDIATION|NODE stands for.
func (t *tool) completeRemediation(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return t.names(cmd, toComplete, named{"", &v1alpha1.RemediationList{}}, named{"", &corev1.NodeList{}})
}

// completeTargets completes any number of budgets and policies.
func (t *tool) completeTargets(cmd *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return t.names(cmd, toComplete, named{"budget/", &v1alpha1.RemediationBudgetList{}}, named{"policy/", &v1alpha1.RemedyPolicyList{}})
}

// named are objects whose names are written after a prefix.
type named struct {
	prefix string
	list   client.ObjectList
}

// names returns those of all kinds that begin so.
func (t *tool) names(cmd *cobra.Command, begin string, kinds ...named) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, err := t.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, kind := range kinds {
		err := c.List(cmd.Context(), kind.list)
		if err == nil {
			err = meta.EachListItem(kind.list, func(item runtime.Object) error {
				if obj, ok := item.(client.Object); ok && strings.HasPrefix(kind.prefix+obj.GetName(), begin) {
					names = append(names, kind.prefix+obj.GetName())
				}
				return nil
			})
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
