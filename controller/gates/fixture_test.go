package gates

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
)

// now is a Wednesday.
var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func duration(d time.Duration) *v1alpha1.Duration { return &v1alpha1.Duration{Duration: d} }

func rate(count int32, per time.Duration) *v1alpha1.Rate {
	return &v1alpha1.Rate{Count: count, Per: v1alpha1.Duration{Duration: per}}
}

// input is that of a remediation which nothing holds back: its first step is
// next. Step 2 is a script, step 3 a reboot.
func input(changes ...func(*Input)) Input {
	steps := []v1alpha1.Step{
		{RestartUnit: &v1alpha1.RestartUnitRemedy{Name: "containerd.service"}, Attempts: 2},
		{Command: &v1alpha1.CommandRemedy{Script: "exit 0"}, Attempts: 1},
		{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootSysRq}, Attempts: 1},
	}
	policy := &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "container-runtime", UID: "policy-uid"},
		Spec:       v1alpha1.RemedyPolicySpec{Steps: steps, Mode: v1alpha1.ModeEnforce},
	}
	in := Input{
		Now: now,
		Remediation: &v1alpha1.Remediation{
			ObjectMeta: metav1.ObjectMeta{Name: "w17-0123", UID: "remediation-uid"},
			Spec: v1alpha1.RemediationSpec{
				NodeName: "w17", NodeUID: "node-uid", Steps: steps,
				Policy: v1alpha1.PolicyReference{Name: policy.Name, UID: policy.UID},
			},
			Status: v1alpha1.RemediationStatus{Step: 1, Attempt: 1},
		},
		Node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "w17", UID: "node-uid", CreationTimestamp: ago(time.Hour), Labels: map[string]string{}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		},
		Policy:   policy,
		Findings: []evidence.Finding{{State: evidence.Faulty}},
		Budgets: []v1alpha1.RemediationBudget{{
			ObjectMeta: metav1.ObjectMeta{Name: "workers"},
			Spec:       v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromInt32(1))},
		}},
	}
	for _, change := range changes {
		change(&in)
	}
	for i := range in.Budgets {
		if status := &in.Budgets[i].Status; status.Groups == nil { // counted, and no more
			status.Groups = map[string]v1alpha1.BudgetGroup{v1alpha1.UngroupedNodes: {Limit: ptr.To[int32](1)}}
		}
	}
	return in
}

func atStep(n int32) func(*Input) {
	return func(in *Input) { in.Remediation.Status.Step = n }
}

// budgets replaces the budgets by some with these specs, named a, b, ….
func budgets(specs ...v1alpha1.RemediationBudgetSpec) func(*Input) {
	return func(in *Input) {
		in.Budgets = nil
		for i, spec := range specs {
			spec.MaxConcurrent = ptr.To(intstr.FromInt32(1))
			in.Budgets = append(in.Budgets, v1alpha1.RemediationBudget{
				ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + i))}, Spec: spec,
			})
		}
	}
}

// past adds a remediation of the policy; one that ended if ended is not 0.
func past(name string, ended time.Duration, history ...v1alpha1.ActionRecord) func(*Input) {
	return func(in *Input) {
		r := v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: in.Remediation.Spec}
		r.Status.History = history
		if ended > 0 {
			r.Status.EndTime = ptr.To(ago(ended))
		}
		in.Past = append(in.Past, r)
	}
}

// ofFormerNode makes the last of the past remediations one of a former node of the name.
func ofFormerNode(in *Input) {
	r := in.Past[len(in.Past)-1]
	r.Spec.NodeUID = "former-uid"
	in.Past, in.Former = in.Past[:len(in.Past)-1], append(in.Former, r)
}

// handedOver is a record of a step that another program has done, so long ago.
func handedOver(finished time.Duration) v1alpha1.ActionRecord {
	r := record(1, "TimedOut", finished)
	r.Remedy = v1alpha1.RemedyExternal
	return r
}

// ofOtherPolicy makes the last of the past remediations one of another policy.
func ofOtherPolicy(in *Input) { in.Past[len(in.Past)-1].Spec.Policy.UID = "other-uid" }

// record is an action of a step that ended so, so long ago.
func record(step int32, outcome string, finished time.Duration) v1alpha1.ActionRecord {
	return v1alpha1.ActionRecord{
		Action: "action", Step: step, Attempt: 1, Outcome: outcome,
		Executed: v1alpha1.Executed(outcome), FinishedAt: ago(finished),
	}
}

// gateTest is one line of a gate's table.
type gateTest struct {
	name string
	in   Input
	// reason "" lets through.
	reason string
	// messages are parts of the message.
	messages []string
	recheck  time.Duration
}

func runGate(t *testing.T, gate func(Input) Verdict, tests []gateTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := gate(tt.in)
			if v.Reason != tt.reason || v.Recheck != tt.recheck {
				t.Errorf("reason %q, look again after %s; want %q, %s\n%s", v.Reason, v.Recheck, tt.reason, tt.recheck, v.Message)
			}
			for _, want := range tt.messages {
				if !strings.Contains(v.Message, want) {
					t.Errorf("message\n  %s\ndoes not contain\n  %s", v.Message, want)
				}
			}
			if v.Held() && v.Message == "" {
				t.Errorf("reason %q without a message", v.Reason)
			}
		})
	}
}
