package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestTheStatusNamesPoliciesThatCannotAct(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	policy := func(name string, ready metav1.ConditionStatus) *v1alpha1.RemedyPolicy {
		p := &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemedyPolicyReady, Status: ready, Reason: "NoNode", Message: "there is no node"}}
		return p
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(policy("a", metav1.ConditionFalse), policy("b", metav1.ConditionTrue),
		&v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "new"}}).Build()
	tool := &tool{clock: clocktesting.NewFakePassiveClock(noon)}
	s, open, err := tool.status(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	text := tool.statusText(s, open, false)
	if !strings.Contains(text, "\nCANNOT ACT: policy a (NoNode): there is no node\n") || strings.Count(text, "CANNOT ACT") != 1 {
		t.Error(text)
	}
}
