package remediation

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/index"
)

// opened is a store with these open remediations.
type opened struct {
	index.Store
	all []*v1alpha1.Remediation
}

func (o opened) Open(context.Context) []*v1alpha1.Remediation { return o.all }

// emptyCache is a cache without any object.
type emptyCache struct{ client.Client }

func (emptyCache) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func TestAStepIsHeldByTheNodesThatAreHealthyNow(t *testing.T) {
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}}
	}
	nodes := []*corev1.Node{node("n1"), node("n2"), node("n3"), node("n4")}
	sick := func(names ...string) (all []*v1alpha1.Remediation) {
		for _, name := range names {
			all = append(all, &v1alpha1.Remediation{Spec: v1alpha1.RemediationSpec{NodeName: name, NodeUID: types.UID(name)}})
		}
		return all
	}
	budgets := func(minHealthy string) []v1alpha1.RemediationBudget {
		return []v1alpha1.RemediationBudget{{
			ObjectMeta: metav1.ObjectMeta{Name: "all"},
			Spec:       v1alpha1.RemediationBudgetSpec{MinHealthy: ptr.To(intstr.Parse(minHealthy))},
		}}
	}
	reboots, announced := v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{}}, func(s *situation) { s.remediation.Status.Action = "n1-0123-1-1" }
	for name, tt := range map[string]struct {
		open    []*v1alpha1.Remediation
		step    v1alpha1.Step
		budgets []v1alpha1.RemediationBudget
		option  func(*situation)
		held    bool
	}{
		"enough are healthy":                        {open: sick(), step: reboots, budgets: budgets("3")},
		"too few are":                               {open: sick("n2", "n3"), step: reboots, budgets: budgets("3"), held: true},
		"too few are, one by this remediation":      {open: sick("n2"), step: reboots, budgets: budgets("3"), held: true},
		"too few are, by percent":                   {open: sick("n1", "n2"), step: reboots, budgets: budgets("51%"), held: true},
		"too few are for a gentle step":             {open: sick("n1", "n2"), step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{}}, budgets: budgets("3")},
		"too few are, but the step is announced":    {open: sick("n1", "n2"), step: reboots, budgets: budgets("3"), option: announced},
		"no budget says how many have to be":        {open: sick("n1", "n2"), step: reboots, budgets: incident().budgets},
		"too few are, by the second of two budgets": {open: sick("n1", "n2"), step: reboots, budgets: append(budgets("2"), budgets("3")...), held: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := incident()
			s.node, s.budgets, s.remediation.Spec.Steps = nodes[0], tt.budgets, []v1alpha1.Step{tt.step}
			if tt.option != nil {
				tt.option(&s)
			}
			r := &Reconciler{
				Client: emptyCache{}, Store: opened{all: tt.open},
				Nodes: func() ([]*corev1.Node, string) { return nodes, "1" },
			}
			verdict, err := r.stormMeanwhile(t.Context(), s, 1, tt.step.Disruptive())
			if err != nil {
				t.Fatal(err)
			}
			if verdict.Held() != tt.held {
				t.Errorf("held: %t, want %t: %s", verdict.Held(), tt.held, verdict.Message)
			}
		})
	}
}
