package ledger

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// What a runner has begun before an upgrade is known after it. testdata has a ledger that the code
// of the date has written.
func TestALedgerOfAnEarlierVersionIsUnderstood(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "2026-11-21"))); err != nil {
		t.Fatal(err)
	}
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !l.Knows("e525e8c8-5d1b-438d-a2ab-69a22ec576b8.01234567") {
		t.Error("it has another ID: what its runners have begun counts as unknown")
	}
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	minute := v1alpha1.Duration{Duration: time.Minute}
	for i, want := range []Entry{
		{Order: remedy.Order{
			Action: "n1-a-000000-1", UID: "uid-1", Env: []string{"A=b"}, Output: &v1alpha1.OutputPolicy{},
			Step:     v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/true", "x"}}, Timeout: minute},
			Prepared: remedy.Prepared{Execution: v1alpha1.ExecutionTransientUnit},
		}},
		{Order: remedy.Order{
			Action: "n1-b-000000-1", UID: "uid-2",
			Step:     v1alpha1.Step{RestartUnit: &v1alpha1.RestartUnitRemedy{Name: "containerd.service"}, Timeout: minute},
			Prepared: remedy.Prepared{Execution: "Unit", InvocationID: "0123456789abcdef0123456789abcdef", MainPID: 7, UnitNames: []string{"containerd.service"}},
		}},
		{Order: remedy.Order{
			Action: "n1-c-000000-1", UID: "uid-3",
			Step:     v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootSysRq}, Timeout: minute},
			Prepared: remedy.Prepared{Execution: "SysRq"},
		}},
		{Order: remedy.Order{
			Action: "n1-d-000000-1", UID: "uid-4",
			Step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: "exit 1"}},
		}, Outcome: &remedy.Outcome{Reason: v1alpha1.ReasonFailed, Message: "exit status 1"}},
		{Order: remedy.Order{Action: "n1-e-000000-1", UID: "uid-5"}, Reported: true},
	} {
		want.Order.BootID, want.Order.StartedAt = "boot", at.Add(time.Duration(i)*time.Second)
		if diff := cmp.Diff(&want, l.Find(want.Order.Action)); diff != "" {
			t.Errorf("%s is understood otherwise:\n%s", want.Order.Action, diff)
		}
	}
}
