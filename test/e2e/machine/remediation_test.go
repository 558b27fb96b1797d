//go:build e2e

package machine

import (
	"fmt"
	"strings"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/e2e/story"
)

// claimed returns the action that the node's runner has claimed, once it has one that has
// not finished, or has just finished.
func (n *node) claimed(remedy string) *v1alpha1.NodeAction {
	n.Helper()
	var found *v1alpha1.NodeAction
	n.Until(round, "the runner claims a "+remedy, func() (bool, string) {
		actions := n.actions()
		for i := range actions {
			if claim := actions[i].Status.Claim; claim != nil && claim.Remedy == remedy {
				found = &actions[i]
			}
		}
		got, blocked := story.State(n.Remediation())
		return found != nil, fmt.Sprintf("actions %q, remediation %s, blocked by %q", names(actions), got, blocked)
	})
	return found
}

// executed ends the test with an error unless the newest remediation has executed these
// remedies, in this order, each with its outcome: "reboot Succeeded". What has not been
// executed may not be there either, nor may the node have any other action.
func (n *node) executed(want ...string) {
	n.Helper()
	got, ordered := []string{}, 0
	for _, record := range n.Remediation().Status.History {
		got = append(got, record.Remedy+" "+record.Outcome)
		if record.Remedy != v1alpha1.RemedyMaintenance {
			ordered++
		}
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		n.Fatalf("the history is %q, want %q", got, want)
	}
	if actions := n.actions(); len(actions) != ordered {
		n.Fatalf("the node has the actions %s, and the history has %d", names(actions), ordered)
	}
}
