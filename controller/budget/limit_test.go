package budget

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestLimit(t *testing.T) {
	tests := []struct {
		max   string
		nodes int
		want  int32
	}{
		{"3", 100, 3},
		{"3", 0, 3},
		{"0", 100, 0},
		{"10%", 100, 10},
		{"10%", 19, 1},
		{"10%", 1, 1},
		{"10%", 0, 0},
		{"0%", 100, 0},
		{"100%", 7, 7},
		{"50%", 3, 1},
	}
	for _, tt := range tests {
		got, err := Limit(intstr.Parse(tt.max), tt.nodes)
		if err != nil || got != tt.want {
			t.Errorf("%s of %d nodes: got %d, %v; want %d", tt.max, tt.nodes, got, err, tt.want)
		}
	}
	if _, err := Limit(intstr.FromString("ten"), 3); err == nil {
		t.Error("\"ten\" was taken for a number")
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
	if got := Allowed(&v1alpha1.RemediationBudget{}, "-"); got != 1 {
		t.Errorf("got %d, want the default of 1", got)
	}
}

func TestABudgetThatCannotBeReadSelects(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "a"}}}
	budgets := []v1alpha1.RemediationBudget{
		{ObjectMeta: metav1.ObjectMeta{Name: "all"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Spec: v1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Near"}}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"pool": "b"}}}},
	}
	got := Selecting(budgets, node)
	if len(got) != 2 || got[0].Name != "all" || got[1].Name != "broken" {
		t.Errorf("got %v, want all and broken", got)
	}
}
