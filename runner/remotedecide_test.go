package runner

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power/proof"
)

// goodRemoteInput is one for which every check of the remote runner lets the action pass.
func goodRemoteInput(t *testing.T) input {
	t.Helper()
	in := goodInput(t)
	in.policy.Spec.Steps[1] = v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}}
	in.remediation.Spec.Steps = in.policy.Spec.Steps
	in.action.Spec.StepHash, in.action.Spec.Executor = hashOf(t, &in.policy.Spec.Steps[1]), v1alpha1.ExecutorRemote
	in.action.Spec.Timeout.Duration = 15 * time.Minute
	in.action.Finalizers = []string{v1alpha1.PowerFinalizer}
	in.remote, in.remedies = true, []string{v1alpha1.RemedyReboot}
	in.node.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: corev1.ConditionUnknown}}
	in.node.Status.NodeInfo.BootID, in.node.Status.NodeInfo.SystemUUID = "boot-1", machineUUID
	in.node.Spec.Unschedulable = true
	in.lease = leaseOf(10 * time.Minute)
	return in
}

// leaseOf is a Lease that was renewed so long ago, by a kubelet whose clock is wrong.
func leaseOf(ago time.Duration) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{ManagedFields: writtenBy("kubelet", ago)},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: testNow}},
	}
}

func writtenBy(manager string, ago time.Duration) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{Manager: manager, Time: &metav1.Time{Time: testNow.Add(-ago)}}}
}

func TestDecideRemote(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*input)
		reason  string // "": executed
		message string
	}{
		"a good action":                  {change: func(*input) {}},
		"no Lease":                       {change: func(in *input) { in.lease = nil }},
		"the node controller's own word": {change: func(in *input) { in.node.ManagedFields = writtenBy("kube-controller-manager", time.Second) }},
		"a claim that is gone on with": {change: func(in *input) {
			in.action.Status.Claim = claimBy("other", "boot-1")
			in.action.Status.Claim.Time.Time = testNow
		}},
		"an action that a finalizer keeps": {func(in *input) { in.action.DeletionTimestamp = &metav1.Time{Time: testNow} }, v1alpha1.ReasonCancelled, "deleted"},
		"one that has expired":             {func(in *input) { in.now = testNow.Add(time.Hour) }, v1alpha1.ReasonExpired, ""},
		"a step of the node's runner":      {func(in *input) { in.action.Spec.Step, in.action.Spec.StepHash = 1, hashOf(t, &in.policy.Spec.Steps[0]) }, v1alpha1.ReasonUnsupported, "is for the node's runner"},
		"another node of the name":         {func(in *input) { in.node.UID = "node-2" }, v1alpha1.ReasonRefused, "UID"},
		"an excluded node":                 {func(in *input) { in.node.Labels[v1alpha1.ExcludeLabel] = "true" }, v1alpha1.ReasonRefused, v1alpha1.ExcludeLabel},
		"a paused cluster":                 {func(in *input) { in.pause = clusterPause() }, v1alpha1.ReasonRefused, "rack move"},
		"a node that is back in service":   {func(in *input) { in.node.Spec.Unschedulable = false }, v1alpha1.ReasonRefused, "nothing was switched: node worker-1 is not cordoned"},
		"a step without its approval":      {func(in *input) { in.remediation.Spec.Steps[1].RequireApproval = true }, v1alpha1.ReasonRefused, "requires approval"},
		"a node that is Ready":             {func(in *input) { in.node.Status.Conditions[0].Status = corev1.ConditionTrue }, v1alpha1.ReasonNotNeeded, "no condition matched"},
		"one that is Ready, and matched so": {func(in *input) {
			in.node.Status.Conditions[0].Status = corev1.ConditionTrue
			in.policy.Spec.Match[1].Status = corev1.ConditionTrue
		}, v1alpha1.ReasonNotNeeded, "it is Ready"},
		"a kubelet that renews its Lease": {func(in *input) { in.lease = leaseOf(50 * time.Second) }, v1alpha1.ReasonNotNeeded, "renewed its Lease at 2026-03-01T11:59:10Z"},
		"a Lease without managers":        {func(in *input) { in.lease.ManagedFields = nil }, v1alpha1.ReasonNotNeeded, "renewed its Lease"},
		"a Lease from the future":         {func(in *input) { in.lease = leaseOf(-time.Hour) }, v1alpha1.ReasonNotNeeded, "renewed its Lease"},
		"a detector that writes":          {func(in *input) { in.node.ManagedFields = writtenBy("nodemend-detector", 40*time.Second) }, v1alpha1.ReasonNotNeeded, "something on it wrote its status"},
		"a fault of a node that says not Ready": {func(in *input) {
			in.node.Status.Conditions[0].Status = corev1.ConditionFalse
			in.policy.Spec.Match[1].Status = corev1.ConditionFalse
		}, v1alpha1.ReasonNotNeeded, "nobody says that the node does not answer"},
		"another fault than silence": {func(in *input) {
			in.node.Status.Conditions = append(in.node.Status.Conditions, corev1.NodeCondition{Type: "RuntimeUnhealthy", Status: corev1.ConditionTrue})
			in.policy.Spec.Match = in.policy.Spec.Match[:1]
		}, v1alpha1.ReasonNotNeeded, "does not match Ready"},
		"no boot ID":           {func(in *input) { in.node.Status.NodeInfo.BootID = "" }, v1alpha1.ReasonRefused, "no boot ID"},
		"no systemUUID":        {func(in *input) { in.node.Status.NodeInfo.SystemUUID = "" }, v1alpha1.ReasonRefused, "systemUUID"},
		"a systemUUID of many": {func(in *input) { in.node.Status.NodeInfo.SystemUUID = "03000200-0400-0500-0006-000700080009" }, v1alpha1.ReasonRefused, "systemUUID"},
		"a boot after the claim": {func(in *input) {
			in.action.Status.Claim = claimBy("me", "boot-0")
			in.action.Status.Claim.Time.Time = testNow
		}, v1alpha1.ReasonNotNeeded, "has booted since the claim: boot ID boot-0, now boot-1"},
		"too late to begin": {func(in *input) {
			in.action.Status.Claim = claimBy("me", "boot-1")
			in.action.Status.Claim.Time.Time = testNow.Add(-4*time.Minute - time.Second)
		}, v1alpha1.ReasonNotStarted, "11m0s before its timeout"},
		"a claimed one that is deleted": {func(in *input) {
			in.action.Status.Claim = claimBy("me", "boot-1")
			in.action.Status.Claim.Time.Time, in.action.DeletionTimestamp = testNow, &metav1.Time{Time: testNow}
		}, v1alpha1.ReasonCancelled, "deleted"},
		"one that nothing would remember": {func(in *input) { in.action.Finalizers = nil }, v1alpha1.ReasonRefused, "no finalizer nodemend.dev/power"},
		"a paused budget":                 {func(in *input) { in.holds.Budgets = pausedBudgets() }, v1alpha1.ReasonRefused, "RemediationBudget rack-7"},
		"a maintenance of a person": {func(in *input) {
			in.holds.Maintenances = maintenances("")
			in.holds.Maintenances[0].Spec.NodeName = in.node.Name
		}, v1alpha1.ReasonRefused, "is in maintenance m (new DIMM)"},
		"late, and in time": {change: func(in *input) {
			in.now = testNow.Add(time.Hour) // after it has expired
			in.action.Status.Claim = claimBy("me", "boot-1")
			in.action.Status.Claim.Time.Time = in.now.Add(-4 * time.Minute)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in := goodRemoteInput(t)
			test.change(&in)
			d := decideRemote(in)
			if want := (map[bool]verb{true: execute, false: finish})[test.reason == ""]; d.verb != want || d.outcome.Reason != test.reason || !strings.Contains(d.outcome.Message, test.message) {
				t.Errorf("got %s %+v, want %s %q", d.verb, d.outcome, test.reason, test.message)
			}
		})
	}
}

func TestEachRunnerLeavesTheActionsOfTheOther(t *testing.T) {
	in := goodRemoteInput(t)
	in.action.Spec.Executor = ""
	if d := decideRemote(in); d.verb != leave {
		t.Errorf("the remote runner does %+v", d)
	}
	in = goodInput(t)
	in.action.Spec.Executor = v1alpha1.ExecutorRemote
	if d := decide(in); d.verb != leave {
		t.Errorf("the node's runner does %+v", d)
	}
	in = goodRemoteInput(t) // of a controller that does not know the remote runner
	in.remote, in.action.Spec.Executor = false, ""
	if d := decide(in); d.verb != finish || d.outcome.Reason != v1alpha1.ReasonUnsupported {
		t.Errorf("the node's runner does %+v", d)
	}
}

func TestAnActionKeepsTheProgressOfAPowerCycle(t *testing.T) {
	d := newDeadNode(t)
	d.work()
	kept, err := progressOf(d.action)
	if err != nil || kept.Phase != proof.Ended || kept.Outcome != proof.PowerCycled || kept.Proof == nil || !kept.Proof.Proves("worker-1", "boot-1") {
		t.Fatalf("got %+v, %v", kept, err)
	}
	again := powerStatus("runner-0", kept)
	again.Machine, again.Labels = machineUUID, map[string]string{"rack": "7"}
	if !sameJSON(t, again, d.action.Status.Power) {
		t.Errorf("got %+v, want %+v", again, d.action.Status.Power)
	}
	for name, change := range map[string]func(*v1alpha1.PowerProof){
		"readings that are too near": func(p *v1alpha1.PowerProof) { p.Apart.Duration = time.Second },
		"another machine's reading":  func(p *v1alpha1.PowerProof) { p.Second.GUID = "5" + p.Second.GUID[1:] },
		"no UUID":                    func(p *v1alpha1.PowerProof) { p.Machine = "mine" },
		"no GUID":                    func(p *v1alpha1.PowerProof) { p.First.GUID = "mine" },
		"another order":              func(p *v1alpha1.PowerProof) { p.First.Order = "IPMI" },
		"another kind":               func(p *v1alpha1.PowerProof) { p.Kind = "Time" },
		"another boot":               func(p *v1alpha1.PowerProof) { p.BootID = "boot-0" },
	} {
		action := d.action.DeepCopy()
		change(action.Status.Power.Proof)
		got, err := progressOf(action)
		if got.Proof != nil || got.Phase != proof.Ended || (err == nil) != (name == "another boot") {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	if got, err := progressOf(&v1alpha1.NodeAction{}); err != nil || got.Phase != proof.Looking {
		t.Errorf("got %+v, %v", got, err)
	}
}

func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	must(t, err)
	y, err := json.Marshal(b)
	must(t, err)
	return bytes.Equal(x, y)
}
