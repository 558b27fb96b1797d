package detector

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/node-problem-detector/pkg/types"
)

func TestSeveralReportsOfOneConditionAreCombined(t *testing.T) {
	noon := time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)
	report := func(status types.ConditionStatus, reason string, minute int) *types.Condition {
		return &types.Condition{
			Type: "ReadonlyFilesystem", Status: status, Reason: reason, Message: "message of " + reason,
			Transition: noon.Add(time.Duration(minute) * time.Minute),
		}
	}
	with := func(c *types.Condition, message string) *types.Condition {
		c.Message = message
		return c
	}
	for name, tc := range map[string]struct {
		reports []*types.Condition
		want    *types.Condition
	}{
		"nothing before all have reported":   {[]*types.Condition{report(types.False, "Fine", 1), nil}, nil},
		"not even Unknown":                   {[]*types.Condition{report(types.Unknown, "Dark", 1), nil}, nil},
		"but a problem at once":              {[]*types.Condition{nil, report(types.True, "Bad", 1)}, report(types.True, "Bad", 1)},
		"healthy, as old as the oldest":      {[]*types.Condition{report(types.False, "Fine", 2), report(types.False, "Well", 1)}, with(report(types.False, "Fine", 1), "message of Fine")},
		"a problem beats all":                {[]*types.Condition{report(types.False, "Fine", 1), report(types.True, "Bad", 2), report(types.Unknown, "Dark", 3)}, report(types.True, "Bad", 2)},
		"not knowing beats health":           {[]*types.Condition{report(types.Unknown, "Dark", 3), report(types.False, "Fine", 1)}, report(types.Unknown, "Dark", 3)},
		"problems are joined":                {[]*types.Condition{report(types.True, "Bad", 2), report(types.True, "Worse", 1)}, with(report(types.True, "Bad,Worse", 2), "message of Bad; message of Worse")},
		"the same problem is mentioned once": {[]*types.Condition{report(types.True, "Bad", 2), report(types.True, "Bad", 1)}, report(types.True, "Bad", 2)},
	} {
		t.Run(name, func(t *testing.T) {
			var got *types.Condition
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
	c := &combiner{latest: map[string][]*types.Condition{"T": make([]*types.Condition, 2)}, reported: map[string]types.Condition{}}
	for i, step := range []struct {
		place, second int
		status        types.ConditionStatus
		want          types.ConditionStatus // empty: nothing is reported
		wantSecond    int
	}{
		{0, 0, types.False, "", 0},
		{1, 1, types.False, types.False, 0},
		{1, 2, types.False, "", 0}, // the other one has not looked again
		{0, 3, types.False, types.False, 2},
		{0, 4, types.True, types.True, 4},
		{1, 5, types.False, "", 0}, // that one alone sees the problem
		{1, 6, types.False, "", 0},
		{0, 7, types.True, types.True, 7},
		{1, 8, types.True, types.True, 8},
		{0, 9, types.False, "", 0},
		{1, 10, types.False, types.False, 9},
	} {
		got, ok := c.report(step.place, types.Condition{Type: "T", Status: step.status, Transition: noon.Add(time.Duration(step.second) * time.Second)})
		want := types.Condition{}
		if step.want != "" {
			want = types.Condition{Type: "T", Status: step.want, Transition: noon.Add(time.Duration(step.wantSecond) * time.Second)}
		}
		if got != want || ok != (step.want != "") {
			t.Errorf("step %d: reported %v %v, want %v", i, got, ok, want)
		}
	}
}
