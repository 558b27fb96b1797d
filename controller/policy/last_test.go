package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

// of is a remediation that started so long ago.
func of(policy types.UID, name string, started time.Duration, changes ...func(*v1alpha1.Remediation)) v1alpha1.Remediation {
	var r v1alpha1.Remediation
	r.Name, r.CreationTimestamp, r.Spec.Policy.UID, r.Spec.NodeName = name, ago(started), policy, "n1"
	for _, change := range changes {
		change(&r)
	}
	return r
}

func over(reason string) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) {
		r.Status.EndTime = ptr.To(ago(time.Minute))
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationProgressing, Status: "False", Reason: reason}}
	}
}

func tombstoneOf(started time.Duration) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) {
		r.Annotations = map[string]string{v1alpha1.TombstoneAnnotation: "r", v1alpha1.TombstoneStartedAnnotation: ago(started).UTC().Format(time.RFC3339)}
	}
}

func TestThePolicysRemediationsAreTold(t *testing.T) {
	for _, tt := range []struct {
		name          string
		remediations  []v1alpha1.Remediation
		open          int32
		last, outcome string
	}{
		{"none", nil, 0, "", ""},
		{"of another policy", []v1alpha1.Remediation{of("q", "r", time.Hour)}, 0, "", ""},
		{"open ones", []v1alpha1.Remediation{of("p", "a", time.Hour), of("p", "b", time.Minute)}, 2, "b", ""},
		{"the last has ended", []v1alpha1.Remediation{of("p", "a", time.Hour), of("p", "b", 30*time.Minute, over("Recovered"))}, 1, "b", "Recovered"},
		{"an older one has ended", []v1alpha1.Remediation{of("p", "a", time.Hour, over("Recovered")), of("p", "b", 30*time.Minute)}, 1, "b", ""},
		{"a duplicate", []v1alpha1.Remediation{of("p", "a", time.Hour), of("p", "b", 30*time.Minute, over("Duplicate"))}, 1, "a", ""},
		{"a tombstone started when its remediation did", []v1alpha1.Remediation{
			of("p", "a-deleted", 0, tombstoneOf(time.Hour), over("Deleted")), of("p", "b", 30*time.Minute, over("Recovered")),
		}, 0, "b", "Recovered"},
		{"a tombstone beside its remediation", []v1alpha1.Remediation{of("p", "a-deleted", 0, tombstoneOf(time.Hour), over("Deleted")), of("p", "a", time.Hour, over("Deleted"))}, 0, "a-deleted", "Deleted"},
		{"a tombstone without its memory yet", []v1alpha1.Remediation{of("p", "a-deleted", 0, tombstoneOf(time.Hour)), of("p", "a", time.Hour, over("Deleted"))}, 0, "a", "Deleted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tally := Tallies(tt.remediations)["p"]
			got := ptr.Deref(tally.Last, v1alpha1.LastRemediation{})
			if tally.Open != tt.open || got.Name != tt.last || got.Outcome != tt.outcome || (got.EndedAt == nil) != (tt.outcome == "") {
				t.Errorf("got %d open, %+v", tally.Open, got)
			}
		})
	}
}

func TestWhatWasToldLastIsKeptWhenItIsGone(t *testing.T) {
	last := func(name string, started time.Duration, ended bool) *v1alpha1.LastRemediation {
		l := &v1alpha1.LastRemediation{Name: name, StartedAt: ago(started)}
		if ended {
			l.EndedAt = ptr.To(ago(0))
		}
		return l
	}
	for name, tt := range map[string]struct{ told, known, want *v1alpha1.LastRemediation }{
		"nothing":                         {nil, nil, nil},
		"the first":                       {nil, last("a", time.Hour, false), last("a", time.Hour, false)},
		"it has ended":                    {last("a", time.Hour, false), last("a", time.Hour, true), last("a", time.Hour, true)},
		"it is gone":                      {last("a", time.Hour, true), nil, last("a", time.Hour, true)},
		"it is gone, an older one is not": {last("a", time.Hour, true), last("b", 2*time.Hour, true), last("a", time.Hour, true)},
		"a later one":                     {last("a", time.Hour, true), last("b", time.Minute, false), last("b", time.Minute, false)},
		"it was open and is gone":         {last("a", time.Hour, false), nil, nil},
	} {
		if diff := cmp.Diff(tt.want, latest(tt.told, tt.known)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A patch decodes its answer into what it wrote, and caches are read by others meanwhile.
func TestAStatusSharesNothingWithTheCache(t *testing.T) {
	r := of("p", "r", time.Hour, over(v1alpha1.ReasonSucceeded))
	tally := Tallies([]v1alpha1.Remediation{r})["p"]
	if tally.Last.EndedAt == r.Status.EndTime {
		t.Error("the end is that of the remediation")
	}
	p := &v1alpha1.RemedyPolicy{}
	p.Status.LastRemediation = tally.Last
	if got := Status(p, &Counts{}, Tally{}, metav1.NewTime(noon)).LastRemediation; got == nil || got == p.Status.LastRemediation {
		t.Errorf("the last remediation of the status is %p, that of the policy %p", got, p.Status.LastRemediation)
	}
}
