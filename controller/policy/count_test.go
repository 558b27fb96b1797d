package policy

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// selecting is a node selector for the label pool.
func selecting(operator metav1.LabelSelectorOperator, pools ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: operator, Values: pools}}}
}

func policyFor(selector *metav1.LabelSelector, conditions ...string) v1alpha1.RemedyPolicy {
	var p v1alpha1.RemedyPolicy
	p.Spec.NodeSelector = selector
	for _, c := range conditions {
		p.Spec.Match = append(p.Spec.Match, v1alpha1.ConditionMatch{Type: c, Status: "True"})
	}
	return p
}

func budgetFor(selector *metav1.LabelSelector, change ...func(*v1alpha1.RemediationBudget)) v1alpha1.RemediationBudget {
	var b v1alpha1.RemediationBudget
	b.Spec.NodeSelector = selector
	for _, c := range change {
		c(&b)
	}
	return b
}

func nodeIn(pool string, conditions ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"other": fmt.Sprint(len(conditions))}}}
	if pool != "" {
		node.Labels["pool"] = pool
	}
	for _, c := range conditions {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(c), Status: "False"})
	}
	return node
}

func excluded(node *corev1.Node) *corev1.Node {
	node.Labels[v1alpha1.ExcludeLabel] = "true"
	return node
}

// fleetOfFive has two nodes in pool a, one in b, one in c, and one in none.
func fleetOfFive() []*corev1.Node {
	return []*corev1.Node{
		nodeIn("a", "Ready", "Sick"), nodeIn("a", "Ready"), nodeIn("b", "Sick"), excluded(nodeIn("c", "Ready", "Ill")), nodeIn(""),
	}
}

func TestNodesAreCounted(t *testing.T) {
	everywhere := []v1alpha1.RemediationBudget{budgetFor(nil)}
	concurrent := func(m intstr.IntOrString) func(*v1alpha1.RemediationBudget) {
		return func(b *v1alpha1.RemediationBudget) { b.Spec.MaxConcurrent = ptr.To(m) }
	}
	pause := func(b *v1alpha1.RemediationBudget) { b.Name, b.Spec.Paused = v1alpha1.ClusterPauseBudget, true }
	resumed := func(b *v1alpha1.RemediationBudget) { b.Name = v1alpha1.ClusterPauseBudget }
	for _, tt := range []struct {
		name    string
		policy  v1alpha1.RemedyPolicy
		budgets []v1alpha1.RemediationBudget
		want    string // nodes, without a budget, closed, excluded
		reports []int32
	}{
		{"all", policyFor(nil, "Ready", "Sick"), everywhere, "5 0 0 1", []int32{3, 2}},
		{"those with a value", policyFor(selecting("In", "a", "x"), "Sick"), everywhere, "2 0 0 0", []int32{1}},
		{"those without", policyFor(selecting("NotIn", "a"), "Sick"), everywhere, "3 0 0 1", []int32{1}},
		{"those with the label", policyFor(selecting("Exists"), "Ill"), everywhere, "4 0 0 1", []int32{1}},
		{"those without the label", policyFor(selecting("DoesNotExist"), "Ill"), everywhere, "1 0 0 0", []int32{0}},
		{"none", policyFor(selecting("In", "x"), "Ready"), everywhere, "0 0 0 0", []int32{0}},
		{"a condition that is named twice", policyFor(nil, "Ready", "Ready"), everywhere, "5 0 0 1", []int32{3}},
		{"no budget", policyFor(nil, "Ready"), nil, "5 5 0 0", []int32{3}},
		{"a budget for some", policyFor(nil, "Ready"), []v1alpha1.RemediationBudget{budgetFor(selecting("In", "a"))}, "5 3 0 0", []int32{3}},
		{"two budgets for one node", policyFor(nil, "Ready"), []v1alpha1.RemediationBudget{budgetFor(selecting("In", "a")), budgetFor(selecting("In", "a", "b"))}, "5 2 0 0", []int32{3}},
		{"a budget of none", policyFor(nil, "Ready"), []v1alpha1.RemediationBudget{budgetFor(nil), budgetFor(selecting("In", "a"), concurrent(intstr.FromInt32(0)))}, "5 0 2 1", []int32{3}},
		{"a budget of 0%", policyFor(nil, "Ready"), []v1alpha1.RemediationBudget{budgetFor(nil, concurrent(intstr.FromString("0%")))}, "5 0 5 0", []int32{3}},
		{"a budget of a few", policyFor(nil, "Ready"), []v1alpha1.RemediationBudget{budgetFor(nil, concurrent(intstr.FromString("1%")))}, "5 0 0 1", []int32{3}},
		{"a budget that cannot be read", policyFor(nil, "Ready"), []v1alpha1.RemediationBudget{budgetFor(selecting("What", "a"))}, "5 0 5 0", []int32{3}},
		{"the pause of the cluster is no budget", policyFor(nil, "Ready"), []v1alpha1.RemediationBudget{budgetFor(nil, pause)}, "5 5 0 0", []int32{3}},
		{"unless it does not pause", policyFor(nil, "Ready"), []v1alpha1.RemediationBudget{budgetFor(nil, resumed)}, "5 0 0 1", []int32{3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Another policy asks for other labels and conditions.
			policies := []v1alpha1.RemedyPolicy{policyFor(&metav1.LabelSelector{MatchLabels: map[string]string{"other": "1"}}, "Other"), tt.policy}
			c := Count(policies, tt.budgets, fleetOfFive())[1]
			if got := fmt.Sprint(c.Nodes, c.WithoutBudget, c.Closed, c.Excluded); got != tt.want || c.All != 5 {
				t.Errorf("got %s of %d, want %s of 5", got, c.All, tt.want)
			}
			var reports []int32
			for _, r := range c.Reports {
				reports = append(reports, r.Nodes)
			}
			if diff := cmp.Diff(tt.reports, reports); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodesAreCountedThatNobodyCouldSwitchOff(t *testing.T) {
	nodes := fleetOfFive()
	for i, status := range []corev1.ConditionStatus{"True", "False", "True"} { // two in pool a, one in b; the others were not tried
		nodes[i].Status.Conditions = append(nodes[i].Status.Conditions, corev1.NodeCondition{Type: v1alpha1.NodeFenceable, Status: status})
	}
	c := Count([]v1alpha1.RemedyPolicy{policyFor(nil, "Ready"), policyFor(selecting("In", "a"), "Ready"), policyFor(selecting("In", "b"), "Ready")}, nil, nodes)
	if c[0].WithoutFence != 3 || c[1].WithoutFence != 1 || c[2].WithoutFence != 0 {
		t.Errorf("got %d, %d and %d", c[0].WithoutFence, c[1].WithoutFence, c[2].WithoutFence)
	}
	changed := nodes[0].DeepCopy()
	last := &changed.Status.Conditions[len(changed.Status.Conditions)-1]
	if last.LastHeartbeatTime = metav1.Now(); countsOtherwise(nodes[0], changed) {
		t.Error("all is counted for a heartbeat")
	}
	if last.Status = corev1.ConditionFalse; !countsOtherwise(nodes[0], changed) {
		t.Error("nothing is counted when a node's switch does not answer any more")
	}
}

func TestASelectorThatCannotBeReadSelectsNoNode(t *testing.T) {
	c := Count([]v1alpha1.RemedyPolicy{policyFor(selecting("What", "a"), "Ready")}, nil, fleetOfFive())[0]
	if c.Invalid == nil || c.Nodes != 0 {
		t.Errorf("got %+v", c)
	}
}

// Nodes whose labels differ only in what nobody asks for are of one sort, or each node would be
// asked about for each policy.
func TestWhatNobodyAsksForMakesNoOtherSort(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 1000 {
		node := nodeIn(fmt.Sprint("pool-", i), "Ready", fmt.Sprint("Other", i))
		node.Labels[corev1.LabelHostname] = fmt.Sprint("node-", i)
		nodes = append(nodes, node)
	}
	policies := []v1alpha1.RemedyPolicy{policyFor(selecting("In", "pool-7", "pool-8"), "Ready", "Sick")}
	selector, err := v1alpha1.SelectorOf(policies[0].Spec.NodeSelector)
	if err != nil {
		t.Fatal(err)
	}
	if sorts := newSorter(policies, []labels.Selector{selector}, nil).sort(nodes); len(sorts) != 3 {
		t.Errorf("%d sorts, want that of pool-7, of pool-8 and of all others", len(sorts))
	}
}
