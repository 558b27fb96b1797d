package budget

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// waiting is a remediation of the node of the same name that wants to reboot it or
// only to run a command.
func waiting(name string, age time.Duration, reboot bool) *v1alpha1.Remediation {
	step := v1alpha1.Step{Command: &v1alpha1.CommandRemedy{}}
	if reboot {
		step = v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{}}
	}
	return &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-age))},
		Spec:       v1alpha1.RemediationSpec{NodeName: name, Steps: []v1alpha1.Step{step}},
		Status:     v1alpha1.RemediationStatus{Step: 1},
	}
}

// budgetOf has the permits of others in a group.
func budgetOf(name, selects string, limit int32, held ...string) v1alpha1.RemediationBudget {
	b := v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.Spec.MaxConcurrent, b.Spec.GroupBy = ptr.To(intstr.FromInt32(limit)), "rack"
	if selects != "" {
		b.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{selects: "yes"}}
	}
	b.Status.Groups = map[string]v1alpha1.BudgetGroup{}
	for _, rack := range []string{"r6", "r7"} {
		g := v1alpha1.BudgetGroup{Limit: ptr.To(limit), DisruptionLimit: ptr.To(limit), Permits: map[string]v1alpha1.Permit{}}
		for _, node := range held {
			g.Permits[node] = v1alpha1.Permit{Remediation: node}
		}
		b.Status.Groups[rack] = g
	}
	return b
}

func nodes(all ...*corev1.Node) func(string) *corev1.Node {
	return func(name string) *corev1.Node {
		i := slices.IndexFunc(all, func(n *corev1.Node) bool { return n.Name == name })
		if i < 0 {
			return nil
		}
		return all[i]
	}
}

func TestTheOldestIsServedFirst(t *testing.T) {
	a, b, c := waiting("a", time.Minute, false), waiting("b", time.Hour, false), waiting("c", time.Hour, false)
	if !Before(b, a) || Before(a, b) || !Before(b, c) || Before(c, b) || Before(a, a) {
		t.Error("want b, c, a")
	}
}

func TestAheadAreThoseWhoCouldTakeThePermit(t *testing.T) {
	nodeOf := nodes(
		readyNode("mine", "rack", "r7"), readyNode("older", "rack", "r7"), readyNode("oldest", "rack", "r7"),
		readyNode("younger", "rack", "r7"), readyNode("elsewhere", "rack", "r6"), readyNode("gpu", "rack", "r7", "gpu", "yes"),
		readyNode("reboot", "rack", "r7"),
	)
	mine := waiting("mine", time.Hour, false)
	everybody := []*v1alpha1.Remediation{
		mine, waiting("older", 2*time.Hour, false), waiting("oldest", 3*time.Hour, false), waiting("younger", time.Minute, false),
		waiting("elsewhere", 4*time.Hour, false), waiting("gpu", 4*time.Hour, false), waiting("reboot", 4*time.Hour, true),
		waiting("gone", 5*time.Hour, false),
	}
	noDisruption := budgetOf("workers", "", 9)
	g := noDisruption.Status.Groups["r7"]
	g.DisruptionLimit = ptr.To[int32](0)
	noDisruption.Status.Groups["r7"] = g
	itsNodeIsTaken := budgetOf("workers", "", 9)
	itsNodeIsTaken.Status.Groups["r7"].Permits["older"] = v1alpha1.Permit{Remediation: "of-another-policy"}
	for name, tt := range map[string]struct {
		budgets []v1alpha1.RemediationBudget
		want    map[string]int
	}{
		"one budget":                           {[]v1alpha1.RemediationBudget{budgetOf("workers", "", 9)}, map[string]int{"workers": 4}},
		"no permit, so nobody is ahead":        {[]v1alpha1.RemediationBudget{budgetOf("workers", "", 1, "x")}, map[string]int{}},
		"who waits for another budget":         {[]v1alpha1.RemediationBudget{budgetOf("workers", "", 9), budgetOf("gpus", "gpu", 0)}, map[string]int{"workers": 3}},
		"who waits to be allowed a disruption": {[]v1alpha1.RemediationBudget{noDisruption}, map[string]int{"workers": 3}},
		"who waits for its own node":           {[]v1alpha1.RemediationBudget{itsNodeIsTaken}, map[string]int{"workers": 3}},
		"budgets of others":                    {[]v1alpha1.RemediationBudget{budgetOf("gpus", "gpu", 9)}, map[string]int{}},
	} {
		if got := Ahead(mine, nodeOf("mine"), Selecting(tt.budgets, nodeOf("mine")), tt.budgets, func() []*v1alpha1.Remediation { return everybody }, nodeOf); !maps.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestThoseAheadAreCountedAsFarAsItMatters(t *testing.T) {
	mine := waiting("mine", 0, false)
	all, queue := []*corev1.Node{readyNode("mine", "rack", "r7")}, []*v1alpha1.Remediation{mine}
	for i := range 100 {
		name := fmt.Sprint("older-", i)
		all, queue = append(all, readyNode(name, "rack", "r7")), append(queue, waiting(name, time.Hour, false))
	}
	in, nodeOf := func() []*v1alpha1.Remediation { return queue }, nodes(all...)
	its := budgetOf("a", "", 30)
	its.Status.Groups["r7"].Permits["mine"] = v1alpha1.Permit{Remediation: "mine"}
	for name, tt := range map[string]struct {
		budgets []v1alpha1.RemediationBudget
		want    map[string]int
	}{
		"all, where a permit is left for many": {[]v1alpha1.RemediationBudget{budgetOf("a", "", 50)}, map[string]int{"a": 100}},
		"no farther than it matters":           {[]v1alpha1.RemediationBudget{budgetOf("a", "", 3)}, map[string]int{"a": 63}},
		"the first decides":                    {[]v1alpha1.RemediationBudget{budgetOf("a", "", 3), budgetOf("b", "", 99)}, map[string]int{"a": 63}},
		"all, where the second has less":       {[]v1alpha1.RemediationBudget{budgetOf("a", "", 50), budgetOf("b", "", 3)}, map[string]int{"a": 100, "b": 63}},
		"not where it has the permit":          {[]v1alpha1.RemediationBudget{its, budgetOf("b", "", 50)}, map[string]int{"b": 100}},
	} {
		if got := Ahead(mine, all[0], tt.budgets, tt.budgets, in, nodeOf); !maps.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestAsManyAreWokenAsThereArePermitsAndAFewMore(t *testing.T) {
	var all []*corev1.Node
	var queue []*v1alpha1.Remediation
	for i, name := range []string{"f", "e", "d", "c", "b", "a"} { // the later the older
		all = append(all, readyNode(name, "rack", "r7"))
		queue = append(queue, waiting(name, time.Duration(i)*time.Hour, name != "a" && name != "f"))
	}
	all = append(all, readyNode("other", "rack", "r6"), readyNode("no"))
	queue = append(queue, waiting("other", 0, false), waiting("no", 0, false), waiting("gone", 0, false))

	in := func() []*v1alpha1.Remediation { return queue }
	r7 := func(limit, disruptions int32, held ...string) v1alpha1.RemediationBudget {
		b := budgetOf("workers", "rack", limit, held...)
		b.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "r7"}}
		g := b.Status.Groups["r7"]
		g.DisruptionLimit = &disruptions
		b.Status.Groups["r7"] = g
		return b
	}
	for name, tt := range map[string]struct {
		b    v1alpha1.RemediationBudget
		want []string
	}{
		"none free":              {r7(1, 1, "x"), nil},
		"one free":               {r7(2, 2, "x"), []string{"a", "b", "c"}},
		"two free":               {r7(2, 2), []string{"a", "b", "c", "d"}},
		"no disruption is free":  {r7(2, 0), []string{"a", "f"}},
		"one disruption is free": {r7(100, 1), []string{"a", "b", "c", "d", "f"}},
		"all are":                {r7(100, 100), []string{"a", "b", "c", "d", "e", "f"}},
	} {
		if got := Wake(&tt.b, nil, in, nodes(all...)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	for _, node := range all[4:6] { // b and a
		node.Labels[fleet.ControlPlaneLabel] = ""
	}
	one := r7(2, 2, "x")
	if got := Wake(&one, nil, in, nodes(all...)); !slices.Equal(got, []string{"a", "b", "c", "d", "e"}) {
		t.Errorf("two of the control plane, which wait for one another, are not woken besides: woke %v", got)
	}
	for _, node := range all[4:6] {
		delete(node.Labels, fleet.ControlPlaneLabel)
	}
	taken := r7(2, 2)
	taken.Status.Groups["r7"].Permits["a"] = v1alpha1.Permit{Remediation: "of-another-policy"}
	if got := Wake(&taken, nil, in, nodes(all...)); !slices.Equal(got, []string{"b", "c", "d"}) {
		t.Errorf("one free, and the node of the oldest taken, woke %v", got)
	}
	both := budgetOf("workers", "", 1, "x")
	g := both.Status.Groups["r6"]
	g.Permits = nil
	both.Status.Groups["r6"] = g
	if got := Wake(&both, nil, in, nodes(all...)); !slices.Equal(got, []string{"other"}) {
		t.Errorf("the permit of one group woke %v, want who waits in it", got)
	}
	free, stormy := r7(2, 2), budgetOf("stormy", "", 9)
	g = stormy.Status.Groups["r7"]
	g.DisruptionLimit = ptr.To[int32](0)
	stormy.Status.Groups["r7"] = g
	if got := Wake(&free, []v1alpha1.RemediationBudget{stormy}, in, nodes(all...)); !slices.Equal(got, []string{"a", "f"}) {
		t.Errorf("a permit for which some wait who get none of another budget woke %v, want the others", got)
	}
}

func TestTheControlPlaneIsActedOnOneNodeAtATime(t *testing.T) {
	label := func(name string) *corev1.Node { return readyNode(name, "rack", "r7", fleet.ControlPlaneLabel, "") }
	nodeOf := nodes(label("a"), label("b"), label("c"), readyNode("worker", "rack", "r7"))
	for name, tt := range map[string]struct {
		held   []string
		acting string // without a permit
		was    *bool  // one of the control plane, as the remediation of acting has seen
		want   string
	}{
		"nobody":                                {want: ""},
		"itself":                                {held: []string{"a"}, acting: "a"},
		"a worker":                              {held: []string{"worker"}, acting: "worker"},
		"another":                               {held: []string{"worker", "c"}, want: "c"},
		"the first of two":                      {held: []string{"c", "b"}, want: "b"},
		"one that may have been":                {held: []string{"gone"}, want: "gone"},
		"one whose budget is gone":              {acting: "b", want: "b"},
		"one that was":                          {held: []string{"gone"}, acting: "gone", was: ptr.To(true), want: "gone"},
		"a worker that is gone":                 {held: []string{"gone"}, acting: "gone", was: ptr.To(false)},
		"a worker and its budget are":           {acting: "gone", was: ptr.To(false)},
		"nobody has seen what it was":           {acting: "gone", want: "gone"},
		"a worker that has become one":          {held: []string{"b"}, acting: "b", was: ptr.To(false), want: "b"},
		"gone ones, of one a remediation tells": {held: []string{"gone", "lost"}, acting: "gone", was: ptr.To(false), want: "lost"},
	} {
		acting := waiting(tt.acting, 0, false)
		acting.Status.Action, acting.Status.ControlPlane = "action", tt.was
		open := []*v1alpha1.Remediation{waiting("c", 0, false)}
		if tt.acting != "" {
			open = append(open, acting)
		}
		budgets := []v1alpha1.RemediationBudget{budgetOf("others", "", 9), budgetOf("workers", "", 9, tt.held...)}
		if got := OtherInControlPlane(budgets, open, "a", nodeOf); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
