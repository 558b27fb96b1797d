//go:build integration

package main

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// patched changes a policy of the scene.
func (s *scene) patched(policy, patch string) {
	s.Helper()
	s.must(s.c.Patch(s.Context(), &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: policy}}, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// reported replaces the condition of a node that the scene has set.
func (s *scene) reported(node string, c corev1.NodeCondition) {
	s.Helper()
	var n corev1.Node
	s.get(&n, node)
	n.Status.Conditions[1] = c
	s.must(s.c.Status().Update(s.Context(), &n))
}

// rewritten replaces the status of the only remediation of a node.
func (s *scene) rewritten(node string, change func(*v1alpha1.RemediationStatus)) {
	s.Helper()
	var list v1alpha1.RemediationList
	s.must(s.c.List(s.Context(), &list, client.MatchingFields{"spec.nodeName": node}))
	before := list.Items[0].DeepCopy()
	list.Items[0].Status = v1alpha1.RemediationStatus{}
	change(&list.Items[0].Status)
	s.must(s.c.Status().Patch(s.Context(), &list.Items[0], client.MergeFrom(before)))
}

// scripted adds a remediation of the node whose script waits for approval.
func (s *scene) scripted(node string) {
	s.Helper()
	cache := s.policy("cache", nil, "ContainerRuntimeUnhealthy", 0, v1alpha1.ModeEnforce,
		v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: "set -eu\nrm -rf /var/lib/cache/*\n"}, RequireApproval: true})
	s.remediation(node, cache, func(r *v1alpha1.RemediationStatus) {
		r.Step, r.Attempt = 1, 1
		s.says(r, "Progressing", "True", v1alpha1.ReasonWaiting, "step 1, attempt 1 is next")
		s.says(r, "Blocked", "True", "ApprovalRequired", "step 1 (command) waits for approval")
	})
}

func TestWhySaysWhatTheControllerWouldDecide(t *testing.T) {
	for _, test := range []struct {
		name, line string
		change     func(*scene)
		wait       time.Duration
	}{
		{"why-due-but-held", "why worker-18", func(s *scene) { s.patched("container-runtime", `{"spec":{"mode":"DryRun"}}`) }, time.Minute},
		{"why-no-budget", "why worker-18", func(s *scene) {
			s.must(s.c.Delete(s.Context(), &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "workers"}}))
		}, 0},
		{"why-edited", "why worker-17", func(s *scene) {
			s.patched("container-runtime", `{"spec":{"match":[{"type":"HardwareFailure","status":"True"},{"type":"ContainerRuntimeUnhealthy","status":"True","for":"1m"}]}}`)
		}, 0},
		{"why-healing", "why worker-17", func(s *scene) {
			s.reported("worker-17", s.condition("ContainerRuntimeUnhealthy", "False", "Healthy", "it answers", 2*time.Second))
		}, 0},
		{"why-in-vain", "why worker-17 -o wide", func(s *scene) { // what comes next is another step
			s.rewritten("worker-17", func(r *v1alpha1.RemediationStatus) {
				r.Step, r.Attempt, r.Actions = 1, 2, 2
				r.History = []v1alpha1.ActionRecord{{Action: "b-2", Step: 1, Attempt: 2, Remedy: "restartUnit", Outcome: "Succeeded", Executed: true,
					StartedAt: ptr.To(s.ago(11 * time.Minute)), FinishedAt: s.ago(10 * time.Minute)}}
				s.says(r, "Progressing", "True", v1alpha1.ReasonVerifying, "waiting for the condition to clear")
			})
		}, 0},
		{"why-exhausted", "why worker-15", func(*scene) {}, 0},
		{"why-script", "why worker-18", func(s *scene) { s.scripted("worker-18") }, 0},
		{"approve-script", "approve worker-18", func(s *scene) { s.scripted("worker-18") }, 0},
		{"why-policy-deleted", "why worker-15", func(s *scene) {
			s.must(s.c.Delete(s.Context(), &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "hardware"}}))
		}, 0},
		{"why-policy-elsewhere", "why worker-19", func(s *scene) {
			s.patched("container-runtime", `{"spec":{"nodeSelector":{"matchLabels":{"pool":"other"}}}}`)
		}, 0},
		{"why-queued", "run container-runtime worker-18 --dry-run", func(s *scene) { // an older one waits for the only permit
			s.rewritten("worker-17", func(r *v1alpha1.RemediationStatus) {
				r.Step, r.Attempt = 1, 1
				s.says(r, "Progressing", "True", v1alpha1.ReasonWaiting, "step 1, attempt 1 is next")
				s.says(r, "Blocked", "True", "BudgetExhausted", "budget workers: 2 of 2 allowed nodes are being acted on")
			})
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t)
			test.change(s)
			golden(t, test.name, command(t, s.now.Add(test.wait), append(strings.Fields(test.line), "--kubeconfig="+kubeconfig(t))...))
		})
	}
}

func TestToResumeTheBudgetOfThePauseIsToResumeTheCluster(t *testing.T) {
	s := newScene(t)
	config := "--kubeconfig=" + kubeconfig(t)
	command(t, s.now, "pause", "--reason", "storm", config)
	var b v1alpha1.RemediationBudget
	s.get(&b, v1alpha1.ClusterPauseBudget)
	if limit := b.Spec.Concurrent(); limit.IntValue() != 0 {
		t.Errorf("if somebody takes the pause away, the budget allows %s", limit.String())
	}
	command(t, s.now, "resume", "budget/"+v1alpha1.ClusterPauseBudget, config)
	if err := s.c.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterPauseBudget}, &b); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the budget is left (%v)", err)
	}
}
