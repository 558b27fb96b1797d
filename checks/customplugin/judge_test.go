package customplugin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/checks"
)

func TestRulesOfOneConditionCombine(t *testing.T) {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(second int, r result) *run {
		return &run{started: began.Add(time.Duration(second) * time.Second), result: r}
	}
	fine := result{status: checks.False, message: "printed and not reported"}
	bad := func(message string) result { return result{status: checks.True, message: message} }
	lost := func(reason, message string) result {
		return result{status: checks.Unknown, reason: reason, message: message}
	}
	condition := func(second int, status checks.Status, reason, message string) *checks.Observation {
		return &checks.Observation{
			Type: "DiskBad", Status: status, Reason: reason, Message: message,
			At: began.Add(time.Duration(second) * time.Second),
		}
	}
	// The three rules of the condition have the reasons A, B and B.
	for name, tc := range map[string]struct {
		runs []*run
		want *checks.Observation
	}{
		"no rule finds a problem":           {[]*run{at(2, fine), at(1, fine), at(3, fine)}, condition(1, checks.False, "DiskGood", "all disks are fine")},
		"the first finds a problem":         {[]*run{at(1, bad("sda")), at(2, fine), at(3, fine)}, condition(1, checks.True, "A", "sda")},
		"the last finds a problem":          {[]*run{at(1, fine), at(2, fine), at(3, bad("sdc"))}, condition(1, checks.True, "B", "sdc")},
		"several find problems":             {[]*run{at(3, bad("sda")), at(2, bad("sdb")), at(1, fine)}, condition(1, checks.True, "A,B", "sda; sdb")},
		"several find the same":             {[]*run{at(1, fine), at(2, bad("sdb")), at(3, bad("sdc"))}, condition(1, checks.True, "B", "sdb; sdc")},
		"a problem beside one that's lost":  {[]*run{at(1, lost("PluginTimeout", "late")), at(2, bad("sdb")), at(3, fine)}, condition(1, checks.True, "B", "sdb")},
		"a problem beside one not run":      {[]*run{nil, at(2, bad("sdb")), nil}, condition(2, checks.True, "B", "sdb")},
		"one could not tell":                {[]*run{at(1, fine), at(2, lost("PluginTimeout", "late")), at(3, fine)}, condition(1, checks.Unknown, "PluginTimeout", "late")},
		"two could not tell":                {[]*run{at(1, lost("PluginFailed", "broken")), at(2, lost("PluginTimeout", "late")), at(3, fine)}, condition(1, checks.Unknown, "PluginFailed,PluginTimeout", "broken; late")},
		"no problem, but one was not run":   {[]*run{at(1, fine), nil, at(3, fine)}, nil},
		"one lost, and one was not run":     {[]*run{at(1, lost("PluginFailed", "broken")), nil, at(3, fine)}, nil},
		"none was run":                      {[]*run{nil, nil, nil}, nil},
		"a problem without a message":       {[]*run{at(1, bad("")), at(2, fine), at(3, fine)}, condition(1, checks.True, "A", "")},
		"not telling without any message":   {[]*run{at(1, fine), at(2, fine), at(3, lost("PluginFailed", ""))}, condition(1, checks.Unknown, "PluginFailed", "")},
		"a problem outweighs all not told":  {[]*run{at(1, lost("PluginFailed", "x")), at(2, lost("PluginFailed", "y")), at(3, bad("sdc"))}, condition(1, checks.True, "B", "sdc")},
		"all could not tell, the same way":  {[]*run{at(1, lost("PluginFailed", "x")), at(2, lost("PluginFailed", "y")), at(3, lost("PluginFailed", "z"))}, condition(1, checks.Unknown, "PluginFailed", "x; y; z")},
		"all find problems in rules' order": {[]*run{at(3, bad("1")), at(1, bad("2")), at(2, bad("3"))}, condition(1, checks.True, "A,B", "1; 2; 3")},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := judge(
				checks.Observation{Type: "DiskBad", Reason: "DiskGood", Message: "all disks are fine"},
				[]rule{{reason: "A"}, {reason: "B"}, {reason: "B"}}, tc.runs)
			if tc.want == nil {
				if ok {
					t.Errorf("got %+v, want nothing", got)
				}
				return
			}
			if diff := cmp.Diff(*tc.want, got); diff != "" || !ok {
				t.Errorf("ok=%v; want (-), got (+):\n%s", ok, diff)
			}
		})
	}
}
