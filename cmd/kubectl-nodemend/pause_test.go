package main

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// pauseOfSome is a budget of the name of the cluster's pause that selects some nodes, as one
// could be before that was refused.
func pauseOfSome() *v1alpha1.RemediationBudget {
	b := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterPauseBudget}}
	b.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "none"}}
	return b
}

func TestThePauseOfTheClusterPausesAllNodes(t *testing.T) {
	for name, pause := range map[string]func(*tool, client.Client) error{
		"pause": func(tool *tool, c client.Client) error { return tool.setPaused(t.Context(), c, nil, true, "x", "") },
		"uninstall": func(tool *tool, c client.Client) error {
			_, err := (&uninstall{tool: tool, c: c}).pause(t.Context())
			return err
		},
	} {
		for _, already := range []bool{false, true} {
			old := pauseOfSome()
			old.Spec.Paused = already
			var r requests
			c, tool := r.cluster(t, old), atNoon()
			tool.streams = genericiooptions.IOStreams{Out: &bytes.Buffer{}}
			if err := pause(tool, c); err != nil {
				t.Fatal(err)
			}
			var b v1alpha1.RemediationBudget
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(old), &b); err != nil {
				t.Fatal(err)
			}
			if !b.Spec.Paused || b.Spec.NodeSelector != nil {
				t.Errorf("after %s, paused already: %t, it pauses the nodes of %v (%t)", name, already, b.Spec.NodeSelector, b.Spec.Paused)
			}
		}
	}
}

func TestATypingErrorDoesNotKeepTheRestFromBeingPaused(t *testing.T) {
	last := mends()
	var r requests
	var out bytes.Buffer
	c, tool := r.cluster(t, last), atNoon()
	tool.streams = genericiooptions.IOStreams{Out: &out}
	err := tool.setPaused(t.Context(), c, []string{"policy/typo", "policy/mends"}, true, "x", "")
	if err == nil || err.Error() != "there is no policy typo; see kubectl get remediationbudgets,remedypolicies" {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), "policy mends is paused") {
		t.Errorf("the one after it is not paused: %s", out.String())
	}
}
