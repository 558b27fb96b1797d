//go:build integration

package v1alpha1_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestARequestNamesAPolicyAndNeverChanges(t *testing.T) {
	c := newClient(t)
	for name, policy := range map[string]string{"no-policy": "", "no-name": "Not A Name"} {
		err := c.Create(t.Context(), request(name, policy))
		refuse(t, err, "spec.policy")
		template := &v1alpha1.NodemendRemediationTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		template.Spec.Template.Spec.Policy = policy
		refuse(t, c.Create(t.Context(), template), "spec.template.spec.policy")
	}
	r := request("immutable", "reboots")
	accept(t, c.Create(t.Context(), r))
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), r) })
	refuse(t, patch(t, c, r, map[string]any{"spec": map[string]any{"policy": "other"}}), "what a NodemendRemediation asks for never changes")
	accept(t, patch(t, c, r, map[string]any{"metadata": map[string]any{"annotations": map[string]string{v1alpha1.TimedOutAnnotation: "now"}}}))
}

func request(name, policy string) *v1alpha1.NodemendRemediation {
	return &v1alpha1.NodemendRemediation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1alpha1.NodemendRemediationSpec{Policy: policy},
	}
}

// A remediation was started by a condition or requested: without either nothing would end it.
func TestARemediationHasAMatchOrARequest(t *testing.T) {
	c := newClient(t)
	asked := v1alpha1.NewRequest(request("asked", "reboots"))
	asked.UID = types.UID("request-uid")
	for name, tt := range map[string]struct {
		match   bool
		request *v1alpha1.Request
		want    string
	}{
		"match": {true, nil, ""}, "request": {false, &asked, ""},
		"both": {true, &asked, "exactly one of match and request"}, "neither": {false, nil, "exactly one of match and request"},
	} {
		r := &v1alpha1.Remediation{
			ObjectMeta: metav1.ObjectMeta{Name: "either-" + name},
			Spec: v1alpha1.RemediationSpec{
				NodeName: "node-a", NodeUID: "node-uid", Policy: v1alpha1.PolicyReference{Name: "p", UID: "p-uid"}, Request: tt.request,
				Trigger: v1alpha1.Trigger{Type: v1alpha1.RequestTrigger, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
				Steps:   []v1alpha1.Step{{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/true"}}}},
			},
		}
		if tt.match {
			r.Spec.Match = []v1alpha1.ConditionMatch{{Type: "Sick", Status: corev1.ConditionTrue}}
		}
		judge(t, name, c.Create(t.Context(), r), tt.want)
		t.Cleanup(func() { _ = client.IgnoreNotFound(c.Delete(context.WithoutCancel(t.Context()), r)) })
	}
}

// Who drives a policy without match says when a node does not answer.
func TestAPolicyWithoutMatchMayCutThePower(t *testing.T) {
	c := newClient(t)
	p := &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "driven-power"}, Spec: v1alpha1.RemedyPolicySpec{Steps: []v1alpha1.Step{{
		Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}, Timeout: v1alpha1.Duration{Duration: 15 * 60e9},
	}}}}
	accept(t, c.Create(t.Context(), p))
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), p) })
	p2 := p.DeepCopy()
	p2.ResourceVersion, p2.Name = "", "driven-power-match"
	p2.Spec.Match = []v1alpha1.ConditionMatch{{Type: "Sick", Status: corev1.ConditionTrue}}
	refuse(t, c.Create(t.Context(), p2), "match must have {type: Ready, status: Unknown}")
}
