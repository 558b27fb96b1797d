//go:build integration

package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/match"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

// scene is a fleet with something of everything. What the controller would write it
// writes itself, so that the same is there at every run.
type scene struct {
	*testing.T
	c client.WithWatch
	// now is half an hour after everything was created.
	now time.Time
}

func newScene(t *testing.T) *scene {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(clustertest.Shared(t).Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, c: c, now: time.Now().Add(30*time.Minute + 50*time.Second).Truncate(time.Second)}
	s.wipe()
	t.Cleanup(s.wipe)

	s.node("worker-15", nil, s.condition("HardwareFailure", "True", "PSUFailed", "power supply 2 has failed", 25*time.Minute))
	s.node("worker-16", nil, s.condition("ContainerRuntimeUnhealthy", "False", "Healthy", "it answers", 10*time.Minute))
	s.node("worker-17", nil, s.condition("ContainerRuntimeUnhealthy", "True", "Timeout", "no answer in 5s", 12*time.Minute))
	s.node("worker-18", nil, s.condition("ContainerRuntimeUnhealthy", "True", "Timeout", "no answer in 5s", 20*time.Second))
	s.node("worker-19", nil, s.condition("ContainerRuntimeUnhealthy", "True", "Timeout", "no answer in 5s", 15*time.Minute))
	s.node("worker-20", nil, s.condition("ContainerRuntimeUnhealthy", "False", "Healthy", "it answers", 40*time.Minute))
	s.node("worker-21", func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Annotations = map[string]string{v1alpha1.CordonedAnnotation: "worker-21-hardware"}
	}, s.condition("HardwareFailure", "True", "UncorrectableECC", "DIMM A1", 25*time.Minute))
	s.node("worker-22", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	s.node("worker-23", func(n *corev1.Node) { n.Labels[v1alpha1.ExcludeLabel] = "true" })

	s.budget()
	runtime := s.policy("container-runtime", nil, "ContainerRuntimeUnhealthy", time.Minute, v1alpha1.ModeEnforce,
		v1alpha1.Step{RestartUnit: &v1alpha1.RestartUnitRemedy{Name: "containerd.service"}, Attempts: 2},
		v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootSysRq}, RequireApproval: true})
	hardware := s.policy("hardware", nil, "HardwareFailure", 0, v1alpha1.ModeEnforce,
		v1alpha1.Step{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "hardware failure", Drain: &v1alpha1.Drain{}}})
	s.policy("kubelet", map[string]string{"pool": "other"}, "KubeletUnhealthy", time.Minute, v1alpha1.ModeDryRun,
		v1alpha1.Step{RestartUnit: &v1alpha1.RestartUnitRemedy{Name: "kubelet.service"}})

	// In the order in which they are listed, newest first, however long this takes.
	out := s.remediation("worker-21", hardware, func(r *v1alpha1.RemediationStatus) {
		r.Step, r.Attempt, r.Maintenance = 1, 1, "worker-21-hardware"
		s.says(r, "Progressing", "True", v1alpha1.ReasonTakingOut, "node worker-21 is being drained")
	})
	s.maintenance(out)
	s.remediation("worker-19", runtime, func(r *v1alpha1.RemediationStatus) {
		r.Step, r.Attempt = 2, 1
		s.says(r, "Progressing", "True", v1alpha1.ReasonWaiting, "step 2, attempt 1 is next")
		s.says(r, "Blocked", "True", "ApprovalRequired", "step 2 (reboot) waits for approval")
	})
	s.remediation("worker-17", runtime, func(r *v1alpha1.RemediationStatus) {
		r.Step, r.Attempt, r.Actions = 1, 2, 1
		r.History = []v1alpha1.ActionRecord{{Action: "b-1", Step: 1, Attempt: 2, Remedy: "restartUnit", Outcome: "Refused",
			Message: "the node's own file denies the unit", StartedAt: ptr.To(s.ago(12 * time.Second)), FinishedAt: s.ago(10 * time.Second)}}
		s.says(r, "Progressing", "True", v1alpha1.ReasonWaiting, "step 1, attempt 2 is next")
		s.says(r, "Blocked", "True", "Refused", "action b-1 was not executed")
	})
	s.rebooted(s.remediation("worker-16", runtime, func(r *v1alpha1.RemediationStatus) {
		r.Step, r.Attempt, r.Actions, r.EndTime = 1, 2, 2, ptr.To(s.ago(5*time.Minute))
		r.History = []v1alpha1.ActionRecord{
			{Action: "a-1", Step: 1, Attempt: 1, Remedy: "restartUnit", Outcome: "Failed", Message: "the unit is not active", Executed: true,
				StartedAt: ptr.To(s.ago(20 * time.Minute)), FinishedAt: s.ago(19 * time.Minute)},
			{Action: "a-2", Step: 1, Attempt: 2, Remedy: "restartUnit", Outcome: "Succeeded", Message: "MainPID 17 is 42 now", Executed: true,
				StartedAt: ptr.To(s.ago(15 * time.Minute)), FinishedAt: s.ago(14 * time.Minute), Output: "stopped\nstarted\n"},
		}
		s.says(r, "Progressing", "False", v1alpha1.ReasonRecovered, "clear since a while")
		s.says(r, "Recovered", "True", v1alpha1.ReasonRecovered, "")
	}))
	s.remediation("worker-15", hardware, func(r *v1alpha1.RemediationStatus) {
		r.Step, r.Attempt = 1, 1
		s.says(r, "Progressing", "False", v1alpha1.ReasonExhausted, "every step was executed and the fault is still there")
	})
	return s
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) ago(d time.Duration) metav1.Time { return metav1.NewTime(s.now.Add(-d)) }

func (s *scene) condition(kind, status, reason, message string, since time.Duration) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(status), Reason: reason, Message: message,
		LastTransitionTime: s.ago(since), LastHeartbeatTime: s.ago(10 * time.Second),
	}
}

func (s *scene) node(name string, change func(*corev1.Node), conditions ...corev1.NodeCondition) {
	s.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	if change != nil {
		change(n)
	}
	s.must(s.c.Create(s.Context(), n, client.FieldOwner("nodemend-controller")))
	n.Status.Conditions = append([]corev1.NodeCondition{s.condition("Ready", "True", "KubeletReady", "ready", time.Hour)}, conditions...)
	s.must(s.c.Status().Update(s.Context(), n))
}

func (s *scene) budget() {
	b := &v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "workers"},
		Spec:       v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromInt32(2))},
	}
	s.must(s.c.Create(s.Context(), b))
	before := b.DeepCopy()
	b.Status = v1alpha1.RemediationBudgetStatus{ObservedGeneration: b.Generation, Nodes: ptr.To[int32](9), Groups: map[string]v1alpha1.BudgetGroup{"-": {
		Nodes: 9, Healthy: 3, Unavailable: 2, Limit: ptr.To[int32](2),
		Storm:   &v1alpha1.Storm{Since: s.ago(8 * time.Minute)},
		Permits: map[string]v1alpha1.Permit{"worker-21": {Remediation: "worker-21-hardware"}},
	}}}
	s.must(s.c.Status().Patch(s.Context(), b, client.MergeFrom(before)))
}

func (s *scene) policy(name string, selector map[string]string, condition string, hold time.Duration, mode v1alpha1.PolicyMode, steps ...v1alpha1.Step) *v1alpha1.RemedyPolicy {
	p := &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.RemedyPolicySpec{
			Match: []v1alpha1.ConditionMatch{{Type: condition, Status: "True", For: v1alpha1.Duration{Duration: hold}}},
			Steps: steps, Mode: mode,
		},
	}
	if selector != nil {
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: selector}
	}
	s.must(s.c.Create(s.Context(), p))
	return p
}

// remediation creates one as the controller does, and writes its status.
func (s *scene) remediation(name string, policy *v1alpha1.RemedyPolicy, change func(*v1alpha1.RemediationStatus)) *v1alpha1.Remediation {
	var n corev1.Node
	s.must(s.c.Get(s.Context(), client.ObjectKey{Name: name}, &n))
	trigger := match.Now(policy, &n, s.now)
	if trigger == nil { // it has recovered
		trigger = &v1alpha1.Trigger{Type: policy.Spec.Match[0].Type, Status: "True", Reason: "Timeout", Message: "no answer in 5s", LastTransitionTime: s.ago(25 * time.Minute)}
	}
	r := match.NewRemediation(policy, &n, *trigger, "")
	s.must(s.c.Create(s.Context(), r))
	change(&r.Status)
	status, err := json.Marshal(map[string]any{"status": r.Status})
	s.must(err)
	s.must(s.c.Status().Patch(s.Context(), r, client.RawPatch("application/merge-patch+json", status)))
	return r
}

// rebooted is an action of the remediation by which a boot has ended, and what that has left.
func (s *scene) rebooted(r *v1alpha1.Remediation) {
	a := &v1alpha1.NodeAction{ObjectMeta: metav1.ObjectMeta{Name: "a-3"}, Spec: v1alpha1.NodeActionSpec{
		NodeName: r.Spec.NodeName, NodeUID: r.Spec.NodeUID, Remediation: r.Name, RemediationUID: r.UID, Policy: r.Spec.Policy,
		StepHash: strings.Repeat("0", 64), Step: 2, Attempt: 1, ExpiresAt: metav1.NewTime(s.now.Add(time.Minute)),
	}}
	s.must(s.c.Create(s.Context(), a))
	a.Status.Claim = &v1alpha1.Claim{RunnerID: "r", BootID: "dead", Time: s.ago(12 * time.Minute), Remedy: v1alpha1.RemedyReboot}
	s.must(s.c.Status().Update(s.Context(), a))
	a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, LastTransitionTime: s.ago(11 * time.Minute)}}
	s.must(s.c.Status().Update(s.Context(), a))
	a.Status.Aftermath = &v1alpha1.Aftermath{BootID: "now", Left: []v1alpha1.Leftover{
		{Source: v1alpha1.LeftoverJournal, Text: "containerd: fatal error: all goroutines are asleep", Truncated: true},
		{Source: v1alpha1.LeftoverPstore},
		{Source: v1alpha1.LeftoverEventLog, Problem: "the node has no /dev/ipmi0: no BMC, or no driver"},
	}}
	s.must(s.c.Status().Update(s.Context(), a))
}

// newestOf returns the newest remediation of a node.
func (s *scene) newestOf(node string) *v1alpha1.Remediation {
	s.Helper()
	all, err := remediationsOf(s.Context(), s.c, node)
	if err != nil || len(all) == 0 {
		s.Fatalf("node %s has no remediation: %v", node, err)
	}
	return &all[0]
}

func (s *scene) says(r *v1alpha1.RemediationStatus, kind, status, reason, message string) {
	r.Conditions = append(r.Conditions, metav1.Condition{
		Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, LastTransitionTime: s.ago(5 * time.Minute),
	})
}

func (s *scene) maintenance(of *v1alpha1.Remediation) {
	m := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "worker-21-hardware"},
		Spec: v1alpha1.NodeMaintenanceSpec{
			NodeName: of.Spec.NodeName, NodeUID: of.Spec.NodeUID, Reason: "hardware failure: DIMM A1", Drain: &v1alpha1.Drain{},
			Remediation: &v1alpha1.RemediationReference{Name: of.Name, UID: of.UID},
		},
	}
	s.must(s.c.Create(s.Context(), m))
	m.Status = v1alpha1.NodeMaintenanceStatus{
		NodeUID: of.Spec.NodeUID,
		Drain: &v1alpha1.DrainStatus{StartedAt: s.ago(6 * time.Minute), Total: 4, Left: 1, Percent: 75, Pods: []v1alpha1.RemainingPod{
			{Namespace: "shop", Name: "db-0", Reason: v1alpha1.PodDisruptionBudget, Message: "PodDisruptionBudget db allows no disruption"}}},
		Conditions: []metav1.Condition{
			{Type: v1alpha1.MaintenanceCordoned, Status: "True", Reason: v1alpha1.ReasonCordoned, ObservedGeneration: 1, LastTransitionTime: s.ago(6 * time.Minute)},
			{Type: v1alpha1.MaintenanceDrained, Status: "False", Reason: v1alpha1.ReasonDraining, Message: "1 pod is left", ObservedGeneration: 1, LastTransitionTime: s.ago(6 * time.Minute)},
		},
	}
	s.must(s.c.Status().Update(s.Context(), m))
}

// wipe removes everything, finalizers as well.
func (s *scene) wipe() {
	ctx := context.WithoutCancel(s.Context()) // the test may be over
	for _, kind := range []client.Object{
		&v1alpha1.RemedyPolicy{}, &v1alpha1.RemediationBudget{}, &v1alpha1.Remediation{}, &v1alpha1.NodeMaintenance{}, &v1alpha1.NodeAction{}, &corev1.Node{},
	} {
		if err := s.c.DeleteAllOf(ctx, kind); err != nil {
			s.Error(err)
		}
	}
	u := &uninstall{tool: &tool{}, c: s.c}
	for _, list := range []client.ObjectList{&v1alpha1.RemediationList{}, &v1alpha1.NodeMaintenanceList{}} {
		left, err := u.all(ctx, list)
		if err := errors.Join(err, u.release(ctx, left)); err != nil {
			s.Error(err)
		}
	}
}
