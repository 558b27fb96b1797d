package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// aftermath is what a boot has left that a NodeAction has ended.
type aftermath struct {
	Action             string `json:"action"`
	v1alpha1.Aftermath `json:",inline"`
}

// aftermaths are those of actions, the oldest first; none for who may not read actions: they may read the
// rest. The action has them in full, and is there for as long as its remediation.
func aftermaths(ctx context.Context, c client.Client, of client.ListOption) ([]aftermath, error) {
	var actions v1alpha1.NodeActionList
	if err := c.List(ctx, &actions, of); err != nil {
		if apierrors.IsForbidden(err) {
			err = nil
		}
		return nil, err
	}
	slices.SortStableFunc(actions.Items, func(a, b v1alpha1.NodeAction) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	var all []aftermath
	for i := range actions.Items {
		if left := actions.Items[i].Status.Aftermath; left != nil {
			all = append(all, aftermath{Action: actions.Items[i].Name, Aftermath: *left})
		}
	}
	return all, nil
}

// sourceName says what a source is.
func sourceName(source v1alpha1.LeftoverSource) string {
	switch source {
	case v1alpha1.LeftoverJournal:
		return "the end of its journal"
	case v1alpha1.LeftoverPstore:
		return "what the kernel kept of it (pstore)"
	case v1alpha1.LeftoverEventLog:
		return "what the BMC has logged"
	default:
		return oneLine(string(source))
	}
}

// leftText tells what boots have left, "" if nothing was collected. What others have written has a mark
// before each line, and can't be taken for a line of ours.
func leftText(all []aftermath) string {
	var text strings.Builder
	for _, a := range all {
		fmt.Fprintf(&text, "\nWhat the boot has left that action %s has ended:\n", a.Action)
		for _, left := range a.Left {
			name := sourceName(left.Source)
			switch {
			case left.Text != "" && left.Truncated:
				name += ", cut"
			case left.Text == "" && left.Problem == "":
				name += ": nothing"
			}
			fmt.Fprintf(&text, "  %s%s\n%s", name, detail("", left.Problem), quoted(left.Text))
		}
	}
	return text.String()
}
