package budget

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestSmallGroupsBehaveAsAnOperatorExpects(t *testing.T) {
	sizes := []int{0, 1, 2, 3, 9, 100}
	tests := []struct {
		value                                  string
		concurrent, maxUnavailable, minHealthy []int32
	}{
		{"0", []int32{0, 0, 0, 0, 0, 0}, []int32{0, 0, 0, 0, 0, 0}, []int32{0, 0, 0, 0, 0, 0}},
		{"1", []int32{1, 1, 1, 1, 1, 1}, []int32{1, 1, 1, 1, 1, 1}, []int32{1, 1, 1, 1, 1, 1}},
		{"3", []int32{3, 3, 3, 3, 3, 3}, []int32{3, 3, 3, 3, 3, 3}, []int32{3, 3, 3, 3, 3, 3}},
		{"0%", []int32{0, 0, 0, 0, 0, 0}, []int32{0, 0, 0, 0, 0, 0}, []int32{0, 0, 0, 0, 0, 0}},
		{"10%", []int32{0, 1, 1, 1, 1, 10}, []int32{0, 0, 1, 1, 1, 10}, []int32{0, 1, 1, 1, 1, 10}},
		{"34%", []int32{0, 1, 1, 1, 3, 34}, []int32{0, 0, 1, 1, 3, 34}, []int32{0, 1, 1, 2, 4, 34}},
		{"50%", []int32{0, 1, 1, 1, 4, 50}, []int32{0, 0, 1, 1, 4, 50}, []int32{0, 1, 1, 2, 5, 50}},
		{"66%", []int32{0, 1, 1, 1, 5, 66}, []int32{0, 0, 1, 1, 5, 66}, []int32{0, 1, 1, 2, 6, 66}},
		{"90%", []int32{0, 1, 1, 2, 8, 90}, []int32{0, 0, 1, 2, 8, 90}, []int32{0, 1, 1, 2, 8, 90}},
		{"99%", []int32{0, 1, 1, 2, 8, 99}, []int32{0, 0, 1, 2, 8, 99}, []int32{0, 1, 1, 2, 8, 99}},
		{"100%", []int32{0, 1, 2, 3, 9, 100}, []int32{0, 1, 2, 3, 9, 100}, []int32{0, 1, 2, 3, 9, 100}},
	}
	for _, tt := range tests {
		for i, nodes := range sizes {
			for name, f := range map[string]struct {
				of   func(intstr.IntOrString, int) (int32, error)
				want int32
			}{
				"maxConcurrent":  {Limit, tt.concurrent[i]},
				"maxUnavailable": {MaxUnavailable, tt.maxUnavailable[i]},
				"minHealthy":     {MinHealthy, tt.minHealthy[i]},
			} {
				if got, err := f.of(intstr.Parse(tt.value), nodes); err != nil || got != f.want {
					t.Errorf("%s %s of %d nodes: got %d, %v; want %d", name, tt.value, nodes, got, err, f.want)
				}
				if _, err := f.of(intstr.FromString("ten"), 3); err == nil {
					t.Errorf("%s: \"ten\" was taken for a number", name)
				}
			}
		}
	}
}

func TestAllowed(t *testing.T) {
	percent := intstr.FromString("10%")
	if got := Allowed(&v1alpha1.RemediationBudget{Spec: v1alpha1.RemediationBudgetSpec{MaxConcurrent: &percent}}, "-"); got != 0 {
		t.Errorf("a percentage of an unknown number of nodes allows %d, want 0", got)
	}
	b := &v1alpha1.RemediationBudget{Spec: v1alpha1.RemediationBudgetSpec{MaxConcurrent: &percent}}
	b.Status.Groups = map[string]v1alpha1.BudgetGroup{"-": {Limit: ptr.To[int32](4)}}
	if got := Allowed(b, "-"); got != 4 {
		t.Errorf("got %d, want the written limit of 4", got)
	}
	two := intstr.FromInt32(2)
	b.Spec.MaxConcurrent = &two
	if got := Allowed(b, "-"); got != 2 {
		t.Errorf("got %d, want the spec's 2, not an old limit", got)
	}
	many := intstr.FromInt32(1000)
	b.Spec.MaxConcurrent = &many
	if got := Allowed(b, "-"); got != 4 {
		t.Errorf("got %d, want the written limit of 4, which may be less than the spec's number", got)
	}
	b.Status.Groups["-"] = v1alpha1.BudgetGroup{Limit: &many.IntVal}
	if got := Allowed(b, "-"); got != MaxPermits {
		t.Errorf("got %d, want no more than the API server takes", got)
	}
	if got := Allowed(&v1alpha1.RemediationBudget{}, "-"); got != 1 {
		t.Errorf("got %d, want the default of 1", got)
	}
}

func TestDisruptionsAreUnlimitedOnlyWithoutALimit(t *testing.T) {
	b := &v1alpha1.RemediationBudget{}
	if got := Disruptions(b, "-"); got != MaxPermits {
		t.Errorf("got %d, want any number", got)
	}
	b.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(3))
	if got := Disruptions(b, "-"); got != 0 {
		t.Errorf("got %d before the nodes were counted, want 0", got)
	}
	b.Status.Groups = map[string]v1alpha1.BudgetGroup{"-": {DisruptionLimit: ptr.To[int32](2), Permits: map[string]v1alpha1.Permit{
		"a": {Remediation: "a", Disruptive: true}, "b": {Remediation: "b"},
	}}}
	if got := FreeDisruptions(b, "-"); got != 1 {
		t.Errorf("%d left, want 1: the permit for a gentle step does not count", got)
	}
}

func TestNodesThatTheBudgetHasNotCountedAsSickAreNotHealthy(t *testing.T) {
	member := func(name, rack string, cordoned bool) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"rack": rack}},
			Spec:       corev1.NodeSpec{Unschedulable: cordoned},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
	}
	a, b, c := member("a", "1", false), member("b", "1", false), member("c", "1", false)
	others := []*corev1.Node{b, c, member("d", "2", true), member("e", "2", true)}
	open := func(nodes ...string) (all []*v1alpha1.Remediation) {
		for _, node := range nodes {
			all = append(all, &v1alpha1.Remediation{Spec: v1alpha1.RemediationSpec{NodeName: node, NodeUID: types.UID(node)}})
		}
		return all
	}
	two := intstr.FromInt32(2)
	counted := v1alpha1.RemediationBudget{ // when all were healthy
		Spec:   v1alpha1.RemediationBudgetSpec{MinHealthy: &two, GroupBy: "rack"},
		Status: v1alpha1.RemediationBudgetStatus{Groups: map[string]v1alpha1.BudgetGroup{"1": {Nodes: 3, Healthy: 3}}},
	}
	disrupted := *counted.DeepCopy()
	disrupted.Status.Groups["1"] = v1alpha1.BudgetGroup{Permits: map[string]v1alpha1.Permit{"b": {Disruptive: true}}}
	unlimited := *counted.DeepCopy()
	unlimited.Spec.MinHealthy = nil
	zero := intstr.FromInt32(0)
	few := v1alpha1.RemediationBudget{Spec: v1alpha1.RemediationBudgetSpec{
		MinHealthy: &zero, NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "1"}},
	}}
	for name, tt := range map[string]struct {
		budget v1alpha1.RemediationBudget
		nodes  []*corev1.Node
		open   []*v1alpha1.Remediation
		want   bool
	}{
		"its own remediation alone":           {counted, append(others, a), open("a"), false},
		"another one has just been opened":    {counted, append(others, a), open("a", "b"), true},
		"of another group":                    {counted, append(others, a), open("a", "d"), false},
		"another one is cordoned":             {counted, []*corev1.Node{a, member("b", "1", true), c}, open("a"), true},
		"another one is being taken out":      {disrupted, append(others, a), open("a"), true},
		"no minimum":                          {unlimited, append(others, a), open("a", "b", "c"), false},
		"a node that nobody has a problem on": {counted, append(others, a), nil, false},
	} {
		got, err := TooFewHealthy([]v1alpha1.RemediationBudget{few, tt.budget}, a, tt.nodes, Sick(tt.open, nil))
		if err != nil || (got != nil) != tt.want {
			t.Errorf("%s: got %v and %v, want %t", name, got, err, tt.want)
		}
	}
}
