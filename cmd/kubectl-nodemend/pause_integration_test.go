//go:build integration

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

// GitOps applies the files again and again, also changed ones: a pause is an operator's, and
// holds until somebody resumes.
func TestAPauseOutlivesEveryApplyOfTheFiles(t *testing.T) {
	for name, apply := range map[string][]string{
		"by the client": {"apply", "--filename"},
		"by the server": {"apply", "--server-side", "--field-manager=gitops", "--filename"},
		"by force":      {"apply", "--server-side", "--field-manager=gitops", "--force-conflicts", "--filename"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			config := "--kubeconfig=" + kubeconfig(t)
			again := func(change ...string) {
				t.Helper()
				for _, file := range files(t, change...) {
					if _, err := clustertest.Shared(t).Kubectl(t.Context(), append(append([]string{}, apply...), file)...); err != nil {
						t.Fatal(err)
					}
				}
			}
			check := func(when string, paused bool) {
				t.Helper()
				var budget v1alpha1.RemediationBudget
				s.must(s.c.Get(s.Context(), client.ObjectKey{Name: "all-nodes"}, &budget))
				var policy v1alpha1.RemedyPolicy
				s.must(s.c.Get(s.Context(), client.ObjectKey{Name: "pleg"}, &policy))
				for kind, is := range map[string]struct {
					paused bool
					reason string
					by     []metav1.ManagedFieldsEntry
				}{
					"budget": {budget.Spec.Paused, budget.Spec.PauseReason, budget.ManagedFields},
					"policy": {policy.Spec.Paused, policy.Spec.PauseReason, policy.ManagedFields},
				} {
					if is.paused != paused || strings.Contains(is.reason, "rack move") != paused || pauser(is.by) != paused {
						t.Errorf("%s the %s has paused %t, reason %q, by the pauser %t; want %t", when, kind, is.paused, is.reason, pauser(is.by), paused)
					}
				}
			}
			again()
			if out := command(t, s.now, "pause", "budget/all-nodes", "policy/pleg", "--reason", "rack move", config); strings.Contains(out, "error: ") {
				t.Fatal(out)
			}
			check("after the pause", true)
			again()
			again("maxConcurrent: 1", "maxConcurrent: 2", "cooldown: 1h", "cooldown: 2h")
			check("after more applies", true)
			if out := command(t, s.now, "resume", "budget/all-nodes", "policy/pleg", config); strings.Contains(out, "error: ") {
				t.Fatal(out)
			}
			again()
			check("after it was resumed", false)
		})
	}
}

// files writes the sample of a budget and a policy with changes: old and new text, in turns.
func files(t *testing.T, change ...string) (paths []string) {
	t.Helper()
	budget, err := deploy.Samples.ReadFile("samples/budget.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policy, err := deploy.Policies.ReadFile("policies/pleg.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{budget, policy} {
		path := filepath.Join(t.TempDir(), "file.yaml")
		if err := os.WriteFile(path, []byte(strings.NewReplacer(change...).Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// pauser reports whether the manager of pauses, and nobody else, owns spec.paused.
func pauser(entries []metav1.ManagedFieldsEntry) bool {
	owners := 0
	for _, entry := range entries {
		if strings.Contains(entry.FieldsV1.GetRawString(), `"f:paused"`) {
			owners++
			if entry.Manager != "nodemend-pause" {
				return false
			}
		}
	}
	return owners == 1
}
