package gates

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
)

func TestNothingHoldsBackWhatIsSafe(t *testing.T) {
	for step := range input().Remediation.Spec.Steps {
		if v := First(input(atStep(int32(step+1))), Chain()); v.Held() {
			t.Errorf("step %d is held: %s: %s", step+1, v.Reason, v.Message)
		}
	}
}

// hindrance makes a gate hold for the reason.
type hindrance struct {
	reason string
	hinder func(*Input)
}

// hindrances has what makes each gate hold a reboot, in the order of the chain.
var hindrances = []hindrance{
	{ReasonPaused, func(in *Input) { in.Budgets[0].Spec.Paused = true }},
	{ReasonExcluded, func(in *Input) { in.Node.Labels[v1alpha1.ExcludeLabel] = "true" }},
	{v1alpha1.ReasonSuperseded, func(in *Input) { in.Policy.UID = "other-uid" }},
	{ReasonNodeLeaving, func(in *Input) { at := ago(0); in.Node.DeletionTimestamp = &at }},
	{ReasonOtherHealer, func(in *Input) {
		in.Node.Spec.Taints = append(in.Node.Spec.Taints, corev1.Taint{Key: "remediation.medik8s.io/self-node-remediation"})
	}},
	{ReasonInMaintenance, func(in *Input) {
		in.Maintenances = []v1alpha1.NodeMaintenance{{
			ObjectMeta: metav1.ObjectMeta{Name: "swap-dimm"},
			Spec:       v1alpha1.NodeMaintenanceSpec{Reason: "swap DIMM A1", RequestedBy: "jane@example.com"},
		}}
	}},
	{ReasonCordoned, func(in *Input) { in.Node.Spec.Unschedulable = true }},
	{ReasonBusy, func(in *Input) {
		in.Past = append(in.Past, v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: "w17-89ab"}, Status: v1alpha1.RemediationStatus{Action: "w17-89ab-0123ab-1"}})
	}},
	{ReasonNoEvidence, func(in *Input) {
		in.Findings = []evidence.Finding{{Why: "node w17 has no condition ContainerRuntimeUnhealthy: is its check running?"}}
	}},
	{ReasonJoining, func(in *Input) { in.Policy.Spec.DelayAfterJoin = duration(90 * time.Minute) }},
	{v1alpha1.ReasonRefused, func(in *Input) {
		refused := record(3, v1alpha1.ReasonRefused, 0)
		refused.Action, refused.Message = "w17-0123-4567ab-3", "the node's veto file denies reboot"
		in.Remediation.Status.History = append(in.Remediation.Status.History, refused)
	}},
	{ReasonCooldown, func(in *Input) {
		past("w17-a", time.Minute, record(3, v1alpha1.ReasonFailed, time.Hour))(in)
		in.Policy.Spec.Cooldown = duration(time.Hour)
	}},
	{ReasonMaxRemediations, func(in *Input) {
		past("w17-b", time.Hour, record(1, v1alpha1.ReasonSucceeded, 2*time.Hour))(in)
		past("w17-c", 20*time.Hour, record(1, v1alpha1.ReasonSucceeded, 21*time.Hour))(in)
		in.Policy.Spec.MaxRemediations = rate(2, 24*time.Hour)
	}},
	{ReasonMaxReboots, func(in *Input) {
		past("w17-d", 2*time.Hour, record(3, v1alpha1.ReasonSucceeded, 3*time.Hour))(in)
		in.Budgets[0].Spec.MaxReboots = rate(1, 24*time.Hour)
	}},
	// The policy has the same steps.
	{ReasonApprovalRequired, func(in *Input) { in.Remediation.Spec.Steps[2].RequireApproval = true }},
	{ReasonOutsideWindow, func(in *Input) {
		in.Budgets[0].Spec.AllowedWindows = []v1alpha1.Window{window([]string{"Mon", "Tue", "Wed", "Thu"}, "22:00", "05:00", "Europe/Berlin")}
	}},
	{ReasonStorm, func(in *Input) {
		in.Budgets[0].Spec.MinHealthy = ptr.To(intstr.FromString("50%"))
		in.Budgets[0].Status.Groups = map[string]v1alpha1.BudgetGroup{"-": {Nodes: 40, Healthy: 18, Storm: &v1alpha1.Storm{Since: ago(time.Hour)}}}
	}},
	{ReasonControlPlane, func(in *Input) { in.ControlPlane = &ControlPlane{Nodes: 3, ReadyOthers: 1} }},
	{ReasonBudgetExhausted, func(in *Input) {
		groups := in.Budgets[0].Status.Groups
		if groups == nil {
			groups = map[string]v1alpha1.BudgetGroup{}
		}
		group := groups["-"]
		group.Limit, group.Permits = ptr.To[int32](1), map[string]v1alpha1.Permit{"w18": {Remediation: "w18-0123"}}
		groups["-"] = group
		in.Budgets[0].Status.Groups = groups
	}},
	{ReasonDryRun, func(in *Input) { in.Policy.Spec.Mode = v1alpha1.ModeDryRun }},
}

func TestSomethingHindersEachGate(t *testing.T) {
	for _, gate := range Chain() {
		if !slices.ContainsFunc(hindrances, func(h hindrance) bool { return gate.Ask(input(atStep(3), h.hinder)).Held() }) {
			t.Errorf("nothing of hindrances makes gate %s hold", gate.Name)
		}
	}
}

func TestTheFirstGateThatHoldsIsShown(t *testing.T) {
	for i, first := range hindrances {
		in := input(atStep(3))
		for _, h := range hindrances[i:] {
			h.hinder(&in)
		}
		before := in
		before.Remediation, before.Node = in.Remediation.DeepCopy(), in.Node.DeepCopy()
		if v := First(in, Chain()); v.Reason != first.reason {
			t.Errorf("with all from %s on, %q is shown: %s", first.reason, v.Reason, v.Message)
		}
		if diff := cmp.Diff(before, in); diff != "" {
			t.Errorf("a gate has changed its input:\n%s", diff)
		}
	}
}

func TestTheDocumentationHasEveryReasonAndItsMessage(t *testing.T) {
	data, err := os.ReadFile("../../docs/gates.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	for _, h := range hindrances {
		in := input(atStep(3), h.hinder)
		if !strings.Contains(doc, "`"+h.reason+"`") {
			t.Errorf("docs/gates.md has no row for %s", h.reason)
		}
		if v := First(in, Chain()); !strings.Contains(doc, v.Message+"\n") {
			t.Errorf("docs/gates.md does not have the message of %s:\n%s", h.reason, v.Message)
		}
	}
}

// The same fact has the same text at any time: it would be written again and
// again if it had not.
func TestAMessageStaysTheSameWhileTimePasses(t *testing.T) {
	for _, h := range hindrances {
		in := input(atStep(3), h.hinder)
		v := First(in, Chain())
		in.Now = in.Now.Add(17 * time.Second)
		if later := First(in, Chain()); v.Message != later.Message {
			t.Errorf("%s says first\n  %s\nand later\n  %s", h.reason, v.Message, later.Message)
		}
		if !v.Held() {
			t.Errorf("%s does not hold", h.reason)
		}
	}
}

func TestLookingAgainWhenToldToIsNotTooEarly(t *testing.T) {
	for _, h := range hindrances {
		in := input(atStep(3), h.hinder)
		v := First(in, Chain())
		if v.Recheck == 0 || v.Recheck == BudgetRecheck || v.Reason == ReasonNoEvidence {
			continue // when something changes, which may go unseen
		}
		in.Now = now.Add(v.Recheck)
		if later := First(in, Chain()); later.Reason == h.reason {
			t.Errorf("%s holds after %s as well: %s", h.reason, v.Recheck, later.Message)
		}
		in.Now = in.Now.Add(-time.Nanosecond)
		if earlier := First(in, Chain()); earlier.Reason != h.reason {
			t.Errorf("%s lets through before %s", h.reason, v.Recheck)
		}
	}
}
