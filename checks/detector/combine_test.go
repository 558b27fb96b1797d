package detector

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/checks"
)

func TestSeveralReportsOfOneConditionAreCombined(t *testing.T) {
	noon := time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)
	report := func(status checks.Status, reason string, minute int) *checks.Observation {
		return &checks.Observation{
			Type: "ReadonlyFilesystem", Status: status, Reason: reason, Message: "message of " + reason,
			At: noon.Add(time.Duration(minute) * time.Minute),
		}
	}
	with := func(c *checks.Observation, message string) *checks.Observation {
		c.Message = message
		return c
	}
	for name, tc := range map[string]struct {
		reports []*checks.Observation
		want    *checks.Observation
	}{
		"nothing before all have reported":   {[]*checks.Observation{report(checks.False, "Fine", 1), nil}, nil},
		"not even Unknown":                   {[]*checks.Observation{report(checks.Unknown, "Dark", 1), nil}, nil},
		"but a problem at once":              {[]*checks.Observation{nil, report(checks.True, "Bad", 1)}, report(checks.True, "Bad", 1)},
		"healthy, as old as the oldest":      {[]*checks.Observation{report(checks.False, "Fine", 2), report(checks.False, "Well", 1)}, with(report(checks.False, "Fine", 1), "message of Fine")},
		"a problem beats all":                {[]*checks.Observation{report(checks.False, "Fine", 1), report(checks.True, "Bad", 2), report(checks.Unknown, "Dark", 3)}, report(checks.True, "Bad", 2)},
		"not knowing beats health":           {[]*checks.Observation{report(checks.Unknown, "Dark", 3), report(checks.False, "Fine", 1)}, report(checks.Unknown, "Dark", 3)},
		"problems are joined":                {[]*checks.Observation{report(checks.True, "Bad", 2), report(checks.True, "Worse", 1)}, with(report(checks.True, "Bad,Worse", 2), "message of Bad; message of Worse")},
		"the same problem is mentioned once": {[]*checks.Observation{report(checks.True, "Bad", 2), report(checks.True, "Bad", 1)}, report(checks.True, "Bad", 2)},
	} {
		t.Run(name, func(t *testing.T) {
			var got *checks.Observation
			if combined, ok := judge(tc.reports); ok {
				got = &combined
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportsThatBringNothingNewAreNotCountedAsRuns(t *testing.T) {
	noon := time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)
	c := &combiner{latest: map[string][]*checks.Observation{"T": make([]*checks.Observation, 2)}, reported: map[string]checks.Observation{}}
	for i, step := range []struct {
		place, second int
		status        checks.Status
		want          checks.Status // empty: nothing is reported
		wantSecond    int
	}{
		{0, 0, checks.False, "", 0},
		{1, 1, checks.False, checks.False, 0},
		{1, 2, checks.False, "", 0}, // the other one has not looked again
		{0, 3, checks.False, checks.False, 2},
		{0, 4, checks.True, checks.True, 4},
		{1, 5, checks.False, "", 0}, // that one alone sees the problem
		{1, 6, checks.False, "", 0},
		{0, 7, checks.True, checks.True, 7},
		{1, 8, checks.True, checks.True, 8},
		{0, 9, checks.False, "", 0},
		{1, 10, checks.False, checks.False, 9},
	} {
		got, ok := c.report(step.place, checks.Observation{Type: "T", Status: step.status, At: noon.Add(time.Duration(step.second) * time.Second)})
		want := checks.Observation{}
		if step.want != "" {
			want = checks.Observation{Type: "T", Status: step.want, At: noon.Add(time.Duration(step.wantSecond) * time.Second)}
		}
		if got != want || ok != (step.want != "") {
			t.Errorf("step %d: reported %v %v, want %v", i, got, ok, want)
		}
	}
}
