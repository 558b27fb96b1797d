package gates

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
)

// rack makes the first budget one by racks, with limit permits in each; that of the
// node is r7.
func rack(limit int32, g v1alpha1.BudgetGroup) func(*Input) {
	return func(in *Input) {
		in.Node.Labels["rack"] = "r7"
		spec := &in.Budgets[0].Spec
		spec.GroupBy, spec.MaxConcurrent = "rack", ptr.To(intstr.FromInt32(limit))
		g.Limit = &limit
		in.Budgets[0].Status.Groups = map[string]v1alpha1.BudgetGroup{"r7": g, "r6": {Permits: held("x", "y", "z")}}
	}
}

func held(nodes ...string) map[string]v1alpha1.Permit {
	permits := map[string]v1alpha1.Permit{}
	for _, node := range nodes {
		permits[node] = v1alpha1.Permit{Remediation: node + "-0123"}
	}
	return permits
}

func disrupting(permits map[string]v1alpha1.Permit, node string) map[string]v1alpha1.Permit {
	permit := permits[node]
	permit.Remediation, permit.Disruptive = node+"-0123", true
	permits[node] = permit
	return permits
}

func ahead(n int) func(*Input) {
	return func(in *Input) { in.Ahead = map[string]int{"workers": n, "other": 9} }
}

func limits(maxUnavailable, minHealthy string) func(*Input) {
	return func(in *Input) {
		if maxUnavailable != "" {
			in.Budgets[0].Spec.MaxUnavailable = ptr.To(intstr.Parse(maxUnavailable))
		}
		if minHealthy != "" {
			in.Budgets[0].Spec.MinHealthy = ptr.To(intstr.Parse(minHealthy))
		}
	}
}

// formerly makes the permits those of another group, in which the node was.
func formerly(permits map[string]v1alpha1.Permit) func(*Input) {
	return func(in *Input) { in.Budgets[0].Status.Groups["r6"] = v1alpha1.BudgetGroup{Permits: permits} }
}

func notReady(in *Input) { in.Node.Status.Conditions[0].Status = corev1.ConditionUnknown }

func TestBudget(t *testing.T) {
	broken := func(in *Input) {
		in.Budgets[0].Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	}
	second := func(in *Input) {
		in.Budgets = append(in.Budgets, v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "z"}, Spec: v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromInt32(0))}})
	}
	none := v1alpha1.BudgetGroup{Nodes: 40, Unavailable: 3, DisruptionLimit: ptr.To[int32](1), Permits: disrupting(held("a"), "b")}
	runGate(t, Budget, []gateTest{
		{name: "a free permit", in: input()},
		{name: "no budget", in: input(budgets()), reason: "NoBudget", messages: []string{"no RemediationBudget selects node w17: create one"}},
		{name: "an unreadable selector", in: input(broken), reason: "BudgetInvalid", recheck: time.Minute, messages: []string{"budget workers: cannot tell whether it is meant for node w17"}},
		{name: "none free", in: input(rack(2, v1alpha1.BudgetGroup{Permits: held("a", "b")})), reason: "BudgetExhausted", recheck: time.Minute,
			messages: []string{"budget workers: 2 of 2 allowed nodes of group r7 are being acted on"}},
		{name: "one free in the group", in: input(rack(2, v1alpha1.BudgetGroup{Permits: held("a")}))},
		{name: "its own", in: input(rack(1, v1alpha1.BudgetGroup{Permits: held("w17")}), ahead(5))},
		{name: "that of another on the node", in: input(rack(3, v1alpha1.BudgetGroup{Permits: map[string]v1alpha1.Permit{"w17": {Remediation: "w17-other"}}})),
			reason: "BudgetExhausted", recheck: time.Minute, messages: []string{"budget workers: remediation w17-other acts on node w17"}},
		{name: "others first", in: input(rack(3, v1alpha1.BudgetGroup{Permits: held("a", "b")}), ahead(2)), reason: "BudgetExhausted", recheck: 2 * time.Second,
			messages: []string{"budget workers: 2 remediations are before this one for the 1 free of 3 permits of group r7"}},
		{name: "one before", in: input(ahead(1)), reason: "BudgetExhausted", recheck: time.Second, messages: []string{"1 remediation is before this one for the 1 free of 1 permits"}},
		{name: "many before", in: input(ahead(60)), reason: "BudgetExhausted", recheck: time.Minute, messages: []string{"workers: 60 remediations are before"}},
		{name: "as many as are counted", in: input(ahead(1 + budget.MostAhead)), reason: "BudgetExhausted", recheck: time.Minute,
			messages: []string{"at least 61 remediations are before this one"}},
		{name: "enough for those before", in: input(rack(3, v1alpha1.BudgetGroup{}), ahead(2))},
		{name: "the second of two", in: input(second), reason: "BudgetExhausted", recheck: time.Minute, messages: []string{"budget z: 0 of 0 allowed nodes are being acted on"}},

		{name: "gentle", in: input(rack(9, none), limits("10%", ""))},
		{name: "too many are out", in: input(rack(9, none), limits("4", ""), atStep(3)), reason: "DisruptionLimit", recheck: time.Minute,
			messages: []string{"budget workers: 40 nodes of group r7: 3 not Ready, cordoned or leaving, 1 taken out by remediations; one more is too many: spec.maxUnavailable allows 4"}},
		{name: "too few healthy", in: input(rack(9, none), limits("10%", "90%"), atStep(3)), reason: "DisruptionLimit", recheck: time.Minute,
			messages: []string{"spec.maxUnavailable allows 10%, spec.minHealthy requires 90%"}},
		{name: "out already", in: input(rack(9, none), limits("4", ""), atStep(3), notReady)},
		{name: "its own for a gentle step", in: input(rack(9, v1alpha1.BudgetGroup{DisruptionLimit: ptr.To[int32](0), Permits: held("w17")}), limits("4", ""), atStep(3)),
			reason: "DisruptionLimit", recheck: time.Minute},
		{name: "its own for a disruptive step", in: input(rack(9, v1alpha1.BudgetGroup{DisruptionLimit: ptr.To[int32](0), Permits: disrupting(held("w17"), "w17")}), limits("4", ""), atStep(3))},
		{name: "one of its former group for a gentle step", in: input(rack(9, none), formerly(held("w17")), limits("4", ""), atStep(3), notReady)},
		{name: "one of its former group for a disruptive step", in: input(rack(9, none), formerly(disrupting(held("w17"), "w17")), limits("4", ""), atStep(3), notReady),
			reason: "DisruptionLimit", recheck: time.Minute},
		{name: "not counted", in: input(limits("4", ""), atStep(3)), reason: "DisruptionLimit", recheck: time.Minute, messages: []string{"budget workers: the nodes are not counted yet"}},
		{name: "any number", in: input(atStep(3))},
	})
}
