//go:build integration

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/remediation"
)

// keepNames installs the admission policy about names, until the end of the test.
func (s *scene) keepNames() {
	s.Helper()
	data, err := os.ReadFile("../../deploy/install.yaml")
	s.must(err)
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	installed := 0
	for {
		var obj unstructured.Unstructured
		if err := documents.Decode(&obj); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			s.Fatal(err)
		}
		if obj.GetName() != "nodemend-names" {
			continue
		}
		installed++
		s.must(s.c.Create(s.Context(), &obj))
		s.Cleanup(func() { s.must(s.c.Delete(context.WithoutCancel(s.Context()), &obj)) })
	}
	if installed != 2 {
		s.Fatalf("deploy/install.yaml has %d objects named nodemend-names, want a policy and its binding", installed)
	}
	forged := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "forged", Annotations: map[string]string{v1alpha1.StartedByAnnotation: "jane"}}}
	s.until("the admission policy is in force", func(ctx context.Context) (bool, error) {
		err := client.NewDryRunClient(s.c).Create(ctx, forged.DeepCopy())
		return err != nil && strings.Contains(err.Error(), "nodemend-names"), nil
	})
}

func TestWhatPeopleDoIsSignedAsAdmissionWantsItAndKept(t *testing.T) {
	s := newScene(t)
	s.keepNames()
	config := "--kubeconfig=" + kubeconfig(t)
	as := func(who string, line ...string) {
		t.Helper()
		got := command(t, s.now, append(line, config, "--as="+who, "--as-group=system:masters")...)
		if strings.Contains(got, "error") || strings.Contains(got, "not written down") {
			t.Errorf("%s: %s", strings.Join(line, " "), got)
		}
	}
	approved, exhausted := s.newestOf("worker-19").Name, s.newestOf("worker-15").Name
	as("jane", "run", "container-runtime", "worker-18")
	as("jane", "pause", "--reason", "storm")
	as("bob", "pause", "--reason", "another storm")
	as("jane", "approve", "worker-19")
	as("bob", "retry", "worker-15")
	as("jane", "pause", "budget/workers", "policy/hardware", "--reason", "move")
	as("jane", "resume", "budget/workers")
	as("bob", "pause", "budget/workers", "--reason", "move")

	if got := s.newestOf("worker-18").Annotations[v1alpha1.StartedByAnnotation]; got != "jane" {
		t.Errorf("started by %q, want jane", got)
	}
	cluster, budget, policy := &v1alpha1.RemediationBudget{}, &v1alpha1.RemediationBudget{}, &v1alpha1.RemedyPolicy{}
	s.get(cluster, v1alpha1.ClusterPauseBudget)
	s.get(budget, "workers")
	s.get(policy, "hardware")
	for obj, want := range map[client.Object]string{cluster: "bob", policy: "jane", budget: "bob"} {
		if got := v1alpha1.PausedBy(obj); got != want {
			t.Errorf("%s is paused by %q, want %s: %v", obj.GetName(), got, want, obj.GetAnnotations())
		}
	}
	if when := pausedAt(cluster); when.IsZero() {
		t.Errorf("nobody knows when the cluster was paused: %+v", cluster.ManagedFields)
	}

	startController(t)
	kept := func(name, what, by string) {
		t.Helper()
		s.until(what+" by "+by+" is written down", func(ctx context.Context) (bool, error) {
			var r v1alpha1.Remediation
			err := client.IgnoreNotFound(s.c.Get(ctx, client.ObjectKey{Name: name}, &r))
			last := r.Status.LastDecision(what)
			return err == nil && last != nil && last.By == by && !remediation.AsksForRetry(&r), err
		})
	}
	kept(approved, v1alpha1.DecisionApproved, "jane")
	kept(exhausted, v1alpha1.DecisionRetried, "bob")
	as("jane", "cancel", "worker-19")
	kept(approved+"-deleted", v1alpha1.DecisionApproved, "jane") // and outlives the annotations
}
