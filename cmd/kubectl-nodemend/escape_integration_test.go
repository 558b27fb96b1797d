//go:build integration

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestANodeCanNotWriteOnTheScreenOfWhoLooksAtIt(t *testing.T) {
	const forged = "Policy x (Enforce): all is well"
	const text = "\x1b[2J\x1b[Hno\u009b2Jan\u202eswer\r\n\n" + forged + "\x7f\u2028" + forged
	s := newScene(t)
	config := "--kubeconfig=" + kubeconfig(t)
	s.node("worker-31", nil, s.condition("ContainerRuntimeUnhealthy", "True", text, text, 12*time.Minute))
	var policy v1alpha1.RemedyPolicy
	s.get(&policy, "container-runtime")
	told := func(r *v1alpha1.RemediationStatus) {
		r.Step, r.Attempt, r.Actions = 1, 1, 1
		r.History = []v1alpha1.ActionRecord{{Action: "b-1", Step: 1, Attempt: 1, Remedy: "restartUnit", Outcome: "Refused", Message: text, Output: text, FinishedAt: s.ago(time.Second)}}
		s.says(r, "Progressing", "True", v1alpha1.ReasonWaiting, text)
		s.says(r, "Blocked", "True", "Refused", text)
	}
	s.remediation("worker-31", &policy, told)
	s.node("worker-32", nil, s.condition("ContainerRuntimeUnhealthy", "Unknown", text, text, 12*time.Minute))
	s.remediation("worker-32", &policy, func(r *v1alpha1.RemediationStatus) { r.Step, r.Attempt = 1, 1 })
	s.node("worker-33", nil, s.condition("ContainerRuntimeUnhealthy", "True", text, text, 12*time.Minute))
	s.node("worker-34", nil, s.condition("ContainerRuntimeUnhealthy", "False", text, text, 12*time.Minute))
	s.node("worker-35", nil, s.condition("ContainerRuntimeUnhealthy", text, text, text, 12*time.Minute))
	m := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: "worker-34", Reason: text, RequestedBy: text, Drain: &v1alpha1.Drain{}},
	}
	s.must(s.c.Create(s.Context(), m))
	status, err := json.Marshal(map[string]any{"status": v1alpha1.NodeMaintenanceStatus{Drain: &v1alpha1.DrainStatus{
		StartedAt: s.ago(0), Pods: []v1alpha1.RemainingPod{{Namespace: "shop", Name: "db-0", Reason: v1alpha1.PodDisruptionBudget, Message: text}},
	}}})
	s.must(err)
	s.must(s.c.Status().Patch(s.Context(), m, client.RawPatch("application/merge-patch+json", status)))
	s.must(s.c.Patch(s.Context(), &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "workers"}},
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"paused":true,"pauseReason":"\u001b[2J"}}`))))
	check := func(what, got string) {
		t.Helper()
		for line := range strings.Lines(got) {
			if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }) || strings.HasPrefix(line, forged) {
				t.Errorf("%s printed the line %q", what, line)
			}
		}
	}
	for _, line := range []string{
		"why worker-31", "why worker-31 -o wide", "why worker-32", "why worker-34", "why worker-35", "run container-runtime worker-33 --dry-run", "run container-runtime worker-34", "run container-runtime worker-35",
		"status -o wide", "history -o wide", "describe worker-31", "maintenance status -o wide", "maintenance end worker-34",
	} {
		check(line, command(t, s.now, append(strings.Fields(line), config)...))
	}
	lines, stop := s.watching("worker-31")
	lines.Scan()
	check("watch", lines.Text())
	stop()
	if got := command(t, s.now, "describe", "worker-31", "-o", "json", config); !strings.Contains(got, `\u001b[2J`) {
		t.Errorf("data are not as they are:\n%s", got)
	}
}
