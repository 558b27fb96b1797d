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
		"problems are joined":                {[]*types.Condition{report(types.True, "Bad", 2), report(types.True, "Worse", 1)}, with(report(types.True, "Bad,Worse", 1), "message of Bad; message of Worse")},
		"the same problem is mentioned once": {[]*types.Condition{report(types.True, "Bad", 2), report(types.True, "Bad", 1)}, report(types.True, "Bad", 1)},
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
