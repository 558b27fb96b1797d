package command

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

func TestUnitNamesAreValidAndDiffer(t *testing.T) {
	if got := unitName("node-1.policy-2-1"); got != "nodemend-action-node-1.policy-2-1.service" {
		t.Errorf("got %q", got)
	}
	long := strings.Repeat("a", 253)
	seen := map[string]string{}
	for _, action := range []string{
		long, long[1:] + "b", strings.Repeat("a", 231), strings.Repeat("a", 232), "a/b", "a_b", "a b", "a%b", "ä",
	} {
		name := unitName(action)
		if len(name) > maxUnitName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-") != "" {
			t.Errorf("%q has the unit name %q", action, name)
		}
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q share the name %q", action, other, name)
		}
		seen[name] = action
	}
	for action := range maps.Values(seen) { // what is changed looks like nothing that is not
		again := strings.TrimSuffix(strings.TrimPrefix(unitName(action), unitPrefix), unitSuffix)
		if again != action && unitName(again) == unitName(action) {
			t.Errorf("%q and %q share the name %q", action, again, unitName(action))
		}
	}
}

func TestACommandThatNoProgramCanReceiveIsRefused(t *testing.T) {
	r := New(Options{Execution: Direct})
	for want, order := range map[string]remedy.Order{
		"the step has no command":                    {},
		"entry 2 of the command contains a NUL byte": {Step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/echo", "a\x00b"}}}},
		"entry 3 of the command contains a NUL byte": {Step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: "a\x00b"}}},
		"entry 3 of the command has 131072 bytes":    {Step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: strings.Repeat("x", 32*os.Getpagesize())}}},
		`variable "B" has 140002 bytes`:              {Step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: "a"}}, Env: []string{"A=", "B=" + strings.Repeat("x", 140000)}},
		`variable "A" contains a NUL byte`:           {Step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: "a"}}, Env: []string{"A=\x00"}},
	} {
		_, got := r.Prepare(t.Context(), order)
		if got == nil || got.Reason != v1alpha1.ReasonStartFailed || !strings.Contains(got.Message, want) || !strings.Contains(got.Message, "nothing was executed") || got.Result != nil {
			t.Errorf("got %+v, want StartFailed with %q", got, want)
		}
	}
}

func TestTextThatSystemdDoesNotTakeIsTold(t *testing.T) {
	for text, want := range map[string]string{
		"\ufffe": "U+FFFE", "a\uffffb": "U+FFFF", "\ufdd0": "U+FDD0", "\U0010ffff": "U+10FFFF", "\xff": "not valid UTF-8",
		"plain €\ufffd\ufdf0\x01\n": "",
	} {
		order := remedy.Order{Step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: text}}}
		if err := checkText(order); (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "entry 3 of the command")) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestTheExecutionIsChosenByWhetherSystemdAnswers(t *testing.T) {
	order := remedy.Order{UID: "1", Step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: "true"}}}
	if _, got := New(Options{Execution: TransientUnit}).Prepare(t.Context(), order); got == nil || got.Reason != v1alpha1.ReasonStartFailed || !strings.HasPrefix(got.Message, "systemd does not answer: ") {
		t.Errorf("without systemd, got %+v, want StartFailed", got)
	}
	if prepared, got := New(Options{}).Prepare(t.Context(), order); got != nil || prepared.Execution != v1alpha1.ExecutionDirect {
		t.Errorf("got %+v, %+v, want a direct execution", prepared, got)
	}
}

func TestTheEnvironmentIsThatOfTheOrderAlone(t *testing.T) {
	got := unwanted([]string{"PATH=/bin", "PROXY=own"}, []string{"PROXY=x", "LANG=C", "EXTRA=a=b"})
	for name, want := range map[string]bool{"EXTRA": true, "LANG": true, "INVOCATION_ID": true, "PATH": false, "PROXY": false} {
		if slices.Contains(got, name) != want {
			t.Errorf("%s is removed: %t, want %t (of %q)", name, !want, want, got)
		}
	}
}

// hostProc makes a directory that looks like a proc file system in which process 1
// has this root.
func hostProc(t *testing.T, root string) string {
	t.Helper()
	proc := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(proc, "1"), 0o755), os.Symlink(root, filepath.Join(proc, "1", "root")), os.Symlink("/proc/self/ns", filepath.Join(proc, "1", "ns"))); err != nil {
		t.Fatal(err)
	}
	return proc
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}
