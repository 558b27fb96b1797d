package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
)

// runConvert runs `convert`, and returns what it prints and its exit status.
func runConvert(t *testing.T, stdin string, args ...string) (out, errOut string, status int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newRootCommand(genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &stdout, ErrOut: &stderr}, clocktesting.NewFakePassiveClock(noon))
	root.SetArgs(append([]string{"convert"}, args...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		return stdout.String(), stderr.String() + err.Error(), exitStatus(err)
	}
	return stdout.String(), stderr.String(), 0
}

func TestConvertTellsByItsExitStatusHowMuchWasCarriedOver(t *testing.T) {
	const maintenance = "apiVersion: nodemaintenance.medik8s.io/v1beta1\nkind: NodeMaintenance\nmetadata: {name: a}\nspec: {nodeName: b, reason: c}\n"
	for name, test := range map[string]struct {
		stdin             string
		args              []string
		status            int
		out, errOut, none string
	}{
		"all":              {maintenance, []string{"-"}, 0, "kind: NodeMaintenance", "1 maintenance from 1 file", "not carried over"},
		"not all":          {"draino A", []string{"-"}, 1, "mode: DryRun", "stdin:1: --evict-statefulset-pods: not carried over: pods of StatefulSets", "error"},
		"a number of them": {"draino A", []string{"-"}, 1, "", "1 policy, 1 budget from 1 file; not carried over: 1, to decide: 0", ""},
		"in force":         {"draino A", []string{"-", "--mode", "Enforce"}, 1, "mode: Enforce", "1 policy", "DryRun"},
		"a mistake":        {"kured --concurrency=x", []string{"-"}, 2, "", "stdin:1: --concurrency: expected a number from 0 to 500", "policy"},
		"no such file":     {"", []string{"/nonexistent"}, 2, "", "open /nonexistent: no such file", "policy"},
		"no file":          {"", nil, 2, "", "usage: kubectl nodemend convert FILE...", ""},
		"another mode":     {"", []string{"-", "--mode=Act"}, 2, "", `unknown mode "Act"; accepted are DryRun and Enforce`, ""},
		"another flag":     {"", []string{"-", "--force"}, 2, "", "unknown flag: --force", ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, status := runConvert(t, test.stdin, test.args...)
			if status != test.status || !strings.Contains(out, test.out) || !strings.Contains(errOut, test.errOut) {
				t.Errorf("status %d, want %d\nout\n%s\nwant %s\nerr\n%s\nwant %s", status, test.status, out, test.out, errOut, test.errOut)
			}
			if test.none != "" && strings.Contains(out+errOut, test.none) {
				t.Errorf("it says %q:\n%s%s", test.none, out, errOut)
			}
			if status == 2 && out != "" {
				t.Errorf("in spite of a mistake it prints\n%s", out)
			}
		})
	}
}

// What --help shows is what it does, without a cluster.
func TestTheExampleOfConvertWithALineOfFlagsIsConverted(t *testing.T) {
	line, _, found := strings.Cut(strings.SplitAfter(convertExample, "echo '")[1], "'")
	if !found {
		t.Fatal("there is no echo in the examples")
	}
	out, errOut, _ := runConvert(t, line, "-")
	for _, want := range []string{"nodeSelector: {matchLabels: {pool: batch}}", "{type: KernelDeadlock,", "{type: Ready, status: Unknown, for: 30m}"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s%s", want, out, errOut)
		}
	}
}

func TestConvertReadsSeveralFiles(t *testing.T) {
	from := "../../test/migrate/testdata/from"
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, errOut, status := runConvert(t, "", filepath.Join(from, "nhc-default.yaml"), filepath.Join(from, "kured-flags.txt"))
	if status != 1 || !strings.Contains(errOut, "2 policies, 2 budgets from 2 files") {
		t.Errorf("status %d:\n%s", status, errOut)
	}
	if _, errOut, status := runConvert(t, "", filepath.Join(from, "nhc-default.yaml"), empty); status != 2 || !strings.Contains(errOut, "empty: nothing in it to convert") {
		t.Errorf("status %d:\n%s", status, errOut)
	}
}
