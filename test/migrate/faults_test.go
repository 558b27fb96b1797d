package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/match"
)

// templateRef is a reference to one of a remediator.
type templateRef struct{ APIVersion, Kind, Namespace, Name string }

// healer is what matters of a NodeHealthCheck, or of a MachineHealthCheck of any version.
type healer struct {
	Kind     string            `json:"kind"`
	Items    []healer          `json:"items"` // of a List
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		UnhealthyConditions []unhealthy `json:"unhealthyConditions"`
		Checks              struct {
			UnhealthyNodeConditions []unhealthy `json:"unhealthyNodeConditions"`
		} `json:"checks"`
		RemediationTemplate    *templateRef `json:"remediationTemplate"`
		EscalatingRemediations []struct {
			Order               int         `json:"order"`
			RemediationTemplate templateRef `json:"remediationTemplate"`
		} `json:"escalatingRemediations"`
		Remediation struct {
			TemplateRef *templateRef `json:"templateRef"`
		} `json:"remediation"`
	} `json:"spec"`
}

type unhealthy struct {
	Type, Status, Duration, Timeout string
	TimeoutSeconds                  int
}

// lasts is for how long a node has to be so.
func (u unhealthy) lasts(t *testing.T) time.Duration {
	t.Helper()
	if u.TimeoutSeconds > 0 {
		return time.Duration(u.TimeoutSeconds) * time.Second
	}
	d, err := time.ParseDuration(cmp.Or(u.Duration, u.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Fault by fault: for whatever status of whatever condition, for however long, the policy starts when the original
// remediates, and then does in its order what that asks for.
func TestTheResultActsOnEachFaultAsTheOriginalDoes(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for _, name := range names(t) {
		if !strings.HasPrefix(name, "nhc-") && !strings.HasPrefix(name, "mhc-") {
			continue
		}
		var original healer
		var policy v1alpha1.RemedyPolicy
		first(t, example(name), &original)
		first(t, golden(name), &policy)
		if original.Kind == "List" {
			original = original.Items[0]
		}
		policy.Spec.NodeSelector = nil // other tests ask that
		entries := slices.Concat(original.Spec.UnhealthyConditions, original.Spec.Checks.UnhealthyNodeConditions)
		if len(entries) == 0 {
			t.Errorf("%s: has no conditions", name)
		}
		types := map[string]bool{"Ready": true, "DiskPressure": true, "Other": true}
		after := map[time.Duration]bool{0: true, 24 * time.Hour: true}
		for _, e := range entries {
			types[e.Type] = true
			after[e.lasts(t)], after[e.lasts(t)-time.Second] = true, true
		}
		for of := range types {
			for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown} {
				for held := range after {
					want := slices.ContainsFunc(entries, func(e unhealthy) bool {
						return e.Type == of && e.Status == string(status) && held >= e.lasts(t)
					})
					node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
						Type: corev1.NodeConditionType(of), Status: status, LastTransitionTime: metav1.NewTime(now.Add(-held)),
					}}}}
					if trigger, _ := match.Policy(&policy, node, now, nil, nil); (trigger != nil) != want {
						t.Errorf("%s: %s=%s for %s: starts %t, the original %t", name, of, status, held, trigger != nil, want)
					}
				}
			}
		}
		if got, want := does(&policy), asks(&original); !slices.Equal(got, want) {
			t.Errorf("%s: does %q, the original %q", name, got, want)
		}
	}
}

// asks is what the original has done, in its order, and then nothing.
func asks(h *healer) (all []string) {
	escalates := slices.Clone(h.Spec.EscalatingRemediations)
	slices.SortFunc(escalates, func(a, b struct {
		Order               int         `json:"order"`
		RemediationTemplate templateRef `json:"remediationTemplate"`
	}) int {
		return a.Order - b.Order
	})
	var refs []templateRef
	for _, ref := range []*templateRef{h.Spec.RemediationTemplate, h.Spec.Remediation.TemplateRef} {
		if ref != nil {
			refs = append(refs, *ref)
		}
	}
	for _, e := range escalates {
		refs = append(refs, e.RemediationTemplate)
	}
	for _, ref := range refs {
		switch {
		case ref.Kind == "SelfNodeRemediationTemplate", ref.Kind == "PoisonPillRemediationTemplate": // which is said
			all = append(all, "reboot")
		case h.Kind == "MachineHealthCheck":
			ref.Namespace = h.Metadata.Namespace
			fallthrough
		default:
			all = append(all, fmt.Sprintf("external %v", ref))
		}
	}
	if len(refs) == 0 && !strings.Contains(h.Metadata.Namespace, "openshift") {
		return []string{"replace"}
	}
	return append(all, "maintenance") // a person looks at what is still sick
}

// does is what the policy does.
func does(policy *v1alpha1.RemedyPolicy) (all []string) {
	for i := range policy.Spec.Steps {
		step := &policy.Spec.Steps[i]
		text := step.Remedy()
		if step.External != nil {
			text += " " + fmt.Sprint(templateRef(step.External.TemplateRef))
		}
		all = append(all, text)
	}
	return all
}
