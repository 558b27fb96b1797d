package gc

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/internal/deadline"
)

const day = 24 * time.Hour

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// record is a remediation that ended this long ago, with one action of this remedy.
func record(name, remedy string, ended time.Duration, change ...func(*v1alpha1.Remediation)) v1alpha1.Remediation {
	r := v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid")}}
	r.Spec.NodeUID, r.Spec.Policy.UID = "node-uid", "policy-uid"
	r.Spec.Match = []v1alpha1.ConditionMatch{{Type: "Sick", Status: "True"}}
	r.Spec.Steps = []v1alpha1.Step{{Timeout: v1alpha1.Duration{Duration: 10 * time.Second}}}
	r.Spec.Trigger = v1alpha1.Trigger{Type: "Sick", Status: "True", LastTransitionTime: ago(ended + 2*time.Hour)}
	r.Status.EndTime = ptr.To(ago(ended))
	if remedy != "" {
		r.Status.History = []v1alpha1.ActionRecord{{Remedy: remedy, Outcome: "Succeeded", Executed: true, FinishedAt: ago(ended + time.Minute)}}
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func open(r *v1alpha1.Remediation)     { r.Status.EndTime = nil }
func deleting(r *v1alpha1.Remediation) { r.DeletionTimestamp = ptr.To(ago(0)) }
func ofTheLastingIncident(r *v1alpha1.Remediation) {
	r.Spec.Trigger.LastTransitionTime = ago(time.Hour) // the node's
}
func ofAnotherNode(r *v1alpha1.Remediation)   { r.Spec.NodeUID = "former" }
func ofAnotherPolicy(r *v1alpha1.Remediation) { r.Spec.Policy.UID = "another" }
func interrupted(r *v1alpha1.Remediation) {
	r.Status.History[0].Outcome, r.Status.History[0].Executed = v1alpha1.ReasonInterrupted, false
	r.Status.History[0].Step = 1
}
func tombstone(r *v1alpha1.Remediation) {
	r.Annotations = map[string]string{v1alpha1.TombstoneAnnotation: "deleted", v1alpha1.TombstoneUIDAnnotation: "deleted-uid"}
}
func started(since time.Duration) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) { r.CreationTimestamp = ago(since) }
}
func endedAsDeleted(r *v1alpha1.Remediation) {
	r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationProgressing, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeleted}}
}

func TestWhichRemediationsAreDeleted(t *testing.T) {
	for _, tt := range []struct {
		name   string
		all    []v1alpha1.Remediation
		change func(*keeping)
		want   []string
		next   time.Duration
	}{
		{"too many: the oldest", []v1alpha1.Remediation{record("a", "", 3*time.Hour), record("b", "", time.Hour), record("c", "", 2*time.Hour)}, nil, []string{"a"}, 10*day - 2*time.Hour},
		{"too old", []v1alpha1.Remediation{record("a", "", 10*day), record("b", "", 10*day-time.Hour)}, nil, []string{"a"}, time.Hour},
		{"never an open one, which does not count either", []v1alpha1.Remediation{record("a", "", 11*day, open), record("b", "", 2*day), record("c", "", day)}, nil, nil, 8 * day},
		{"not one that is being deleted", []v1alpha1.Remediation{record("a", "", 11*day, deleting)}, nil, nil, 0},
		{"not one whose incident lasts", []v1alpha1.Remediation{record("a", "", 11*day, ofTheLastingIncident)}, nil, nil, lookAgain},
		{"not a deleted one from after the transition of the incident that lasts", []v1alpha1.Remediation{record("a", "", 30*time.Minute, endedAsDeleted)}, func(k *keeping) { k.limit = 0 }, nil, lookAgain},
		{"one of an earlier incident is", []v1alpha1.Remediation{record("a", "", 2*time.Hour, endedAsDeleted)}, func(k *keeping) { k.limit = 0 }, []string{"a"}, 0},
		{"one whose node is gone is", []v1alpha1.Remediation{record("a", "", 11*day, ofTheLastingIncident)}, func(k *keeping) { k.node = nil }, []string{"a"}, 0},
		{"one of another node of that name is", []v1alpha1.Remediation{record("a", "", 11*day, ofTheLastingIncident, ofAnotherNode)}, nil, []string{"a"}, 0},
		{"not within the cooldown of its policy", []v1alpha1.Remediation{record("a", "command", time.Hour)}, func(k *keeping) { k.limit = 0 }, nil, time.Hour},
		{"unless it was another node", []v1alpha1.Remediation{record("a", "command", time.Hour, ofAnotherNode)}, func(k *keeping) { k.limit = 0 }, []string{"a"}, 0},
		{"which another program may have replaced", []v1alpha1.Remediation{record("a", "external", time.Hour, ofAnotherNode)}, func(k *keeping) { k.limit = 0 }, nil, time.Hour},
		{"whose machine was replaced", []v1alpha1.Remediation{record("a", "replace", time.Hour, ofAnotherNode)}, func(k *keeping) { k.limit = 0 }, nil, time.Hour},
		{"and that is not there at the moment", []v1alpha1.Remediation{record("a", "external", time.Hour)}, func(k *keeping) { k.limit, k.node = 0, nil }, nil, time.Hour},
		{"but not while a report from before its action's end is fresh", []v1alpha1.Remediation{record("a", "command", time.Minute, ofAnotherNode)}, func(k *keeping) { k.limit = 0 }, nil, evidence.MaxHealthyAge - 2*time.Minute},
		{"which may run on", []v1alpha1.Remediation{record("a", "command", 3*time.Minute, ofAnotherNode, interrupted)}, func(k *keeping) { k.limit = 0 }, nil, evidence.MaxHealthyAge - 4*time.Minute + 10*time.Second + deadline.ReportGrace},
		{"but if nothing was executed", []v1alpha1.Remediation{record("a", "", time.Hour)}, func(k *keeping) { k.limit = 0 }, []string{"a"}, 0},
		{"or the policy is gone", []v1alpha1.Remediation{record("a", "command", time.Hour, ofAnotherPolicy)}, func(k *keeping) { k.limit = 0 }, []string{"a"}, 0},
		{"not while maxRemediations counts it", []v1alpha1.Remediation{record("a", "command", 2*time.Hour)}, func(k *keeping) {
			k.limit, k.policies[0].Spec.MaxRemediations = 0, rate(3*time.Hour)
		}, nil, time.Hour - time.Minute},
		{"not while maxReboots counts it", []v1alpha1.Remediation{record("a", "reboot", 2*time.Hour), record("b", "command", 2*time.Hour)}, func(k *keeping) {
			k.limit, k.budgets[0].Spec.MaxReboots = 0, rate(4*time.Hour)
		}, []string{"b"}, 2*time.Hour - time.Minute},
		{"not the latest of its policy", []v1alpha1.Remediation{record("a", "", 2*day, started(3*day)), record("b", "", 3*day, started(4*day))}, func(k *keeping) {
			k.limit = 0
		}, []string{"b"}, 8 * day},
		{"nor the tombstone of the latest", []v1alpha1.Remediation{record("a", "", 2*day, started(3*day), tombstone), record("b", "", day, started(4*day))}, func(k *keeping) {
			k.limit = 0
		}, []string{"b"}, 8 * day},
		{"but if the latest is too old", []v1alpha1.Remediation{record("a", "", 11*day)}, nil, []string{"a"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := keeping{limit: 2, age: 10 * day, node: &corev1.Node{}, policies: make([]v1alpha1.RemedyPolicy, 1), budgets: make([]v1alpha1.RemediationBudget, 1), now: now}
			k.node.UID, k.policies[0].UID = "node-uid", "policy-uid"
			k.node.Status.Conditions = []corev1.NodeCondition{{Type: "Sick", Status: "True", LastTransitionTime: ago(time.Hour)}}
			k.policies[0].Spec.Cooldown = &v1alpha1.Duration{Duration: 2 * time.Hour}
			if tt.change != nil {
				tt.change(&k)
			}
			if !strings.Contains(tt.name, "latest") {
				tt.all = append(tt.all, record("latest", "", 0, open, started(0)))
			}
			expendable, next := k.sort(tt.all)
			var names []string
			for _, r := range expendable {
				names = append(names, r.Name)
			}
			if !slices.Equal(names, tt.want) || next != tt.next {
				t.Errorf("got %v, next look after %s; want %v, %s", names, next, tt.want, tt.next)
			}
		})
	}
}

func rate(per time.Duration) *v1alpha1.Rate {
	return &v1alpha1.Rate{Count: 1, Per: v1alpha1.Duration{Duration: per}}
}
