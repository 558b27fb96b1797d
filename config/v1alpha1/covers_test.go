package v1alpha1

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhichIncidentsARemediationCovers(t *testing.T) {
	at := func(minute int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC))
	}
	end := at(30)
	match := []ConditionMatch{{Type: "Sick", Status: "True"}, {Type: "Ill", Status: "True"}}
	ended := func(reason string) *Remediation {
		return &Remediation{
			Spec: RemediationSpec{Trigger: Trigger{Type: "Sick", Status: "True", LastTransitionTime: at(10)}, Match: match},
			Status: RemediationStatus{EndTime: &end, Conditions: []metav1.Condition{
				{Type: RemediationProgressing, Status: metav1.ConditionFalse, Reason: reason},
			}},
		}
	}
	for _, tt := range []struct {
		name    string
		r       *Remediation
		trigger Trigger
		want    bool
	}{
		{"its own", ended("Recovered"), Trigger{Type: "Sick", Status: "True", LastTransitionTime: at(10)}, true},
		{"not a later one", ended("Recovered"), Trigger{Type: "Sick", Status: "True", LastTransitionTime: at(20)}, false},
		{"not another status", ended("Recovered"), Trigger{Type: "Sick", Status: "Unknown", LastTransitionTime: at(10)}, false},
		{"not another condition", ended("Recovered"), Trigger{Type: "Ill", Status: "True", LastTransitionTime: at(10)}, false},
		{"a deleted one its own", ended("Deleted"), Trigger{Type: "Sick", Status: "True", LastTransitionTime: at(10)}, true},
		{"and what came until it ended", ended("Deleted"), Trigger{Type: "Sick", Status: "True", LastTransitionTime: end}, true},
		{"of all that it matched", ended("Deleted"), Trigger{Type: "Ill", Status: "True", LastTransitionTime: at(20)}, true},
		{"but nothing else", ended("Deleted"), Trigger{Type: "Ready", Status: "False", LastTransitionTime: at(20)}, false},
		{"one whose node was given back sick", ended("Released"), Trigger{Type: "Sick", Status: "True", LastTransitionTime: at(10)}, true},
		{"though it was well in between", ended("Released"), Trigger{Type: "Sick", Status: "True", LastTransitionTime: at(20)}, true},
		{"but not what comes later", ended("Released"), Trigger{Type: "Sick", Status: "True", LastTransitionTime: at(31)}, false},
		{"nor what has not started it", ended("Released"), Trigger{Type: "Ill", Status: "True", LastTransitionTime: at(20)}, false},
		{"a duplicate not even its own", ended("Duplicate"), Trigger{Type: "Sick", Status: "True", LastTransitionTime: at(10)}, false},
		{"of a deleted one nothing later", ended("Deleted"), Trigger{Type: "Sick", Status: "True", LastTransitionTime: at(31)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.r.Covers(&tt.trigger, Duration{}); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestWhichIncidentsWithDebounceARemediationCovers(t *testing.T) {
	at := func(minute int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC))
	}
	end, two := at(30), Duration{2 * time.Minute}
	ended := func(reason string, healthy ...string) *Remediation {
		return &Remediation{
			Spec: RemediationSpec{
				Trigger: Trigger{Type: "Sick", Status: "True", LastTransitionTime: at(10)},
				Match:   []ConditionMatch{{Type: "Sick", Status: "True", Debounce: two}, {Type: "Ill", Status: "True", Debounce: two}},
			},
			Status: RemediationStatus{EndTime: &end, SeenHealthy: healthy, Conditions: []metav1.Condition{
				{Type: RemediationProgressing, Status: metav1.ConditionFalse, Reason: reason},
			}},
		}
	}
	trigger := func(conditionType string, seen metav1.Time) Trigger {
		return Trigger{Type: conditionType, Status: "True", LastTransitionTime: at(40), SeenSince: &seen}
	}
	for _, tt := range []struct {
		name     string
		r        *Remediation
		trigger  Trigger
		debounce Duration
		want     bool
	}{
		{"what was seen since before it ended", ended("Recovered"), trigger("Sick", at(29)), two, true},
		{"what was seen since the second in which a person ended it", ended("Deleted", "Sick", "Ill"), trigger("Sick", end), two, true},
		{"not what came back in the second in which it ended as recovered", ended("Recovered"), trigger("Sick", end), two, false},
		{"nor by itself", ended("RecoveredByItself"), trigger("Sick", end), two, false},
		{"not what was seen only later", ended("Recovered"), trigger("Sick", at(31)), two, false},
		{"not what another debounce was counted for", ended("Recovered"), trigger("Sick", at(29)), Duration{time.Minute}, false},
		{"one that is given back, after a restart", ended("Released"), trigger("Sick", at(31)), two, true},
		{"not once it was seen healthy", ended("Released", "Sick"), trigger("Sick", at(31)), two, false},
		{"but what began before", ended("Released", "Sick"), trigger("Sick", at(29)), two, true},
		{"of one that is given back its own alone", ended("Released"), trigger("Ill", at(31)), two, false},
		{"of one that is deleted all", ended("Deleted", "Sick"), trigger("Ill", at(31)), two, true},
		{"until they were seen healthy", ended("Deleted", "Sick", "Ill"), trigger("Ill", at(31)), two, false},
		{"a duplicate nothing", ended("Duplicate"), trigger("Sick", at(29)), two, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.r.Covers(&tt.trigger, tt.debounce); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
