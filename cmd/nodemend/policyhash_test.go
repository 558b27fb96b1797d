//go:build !agent

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/config/offline"
	runnerconfig "github.com/nodemend/nodemend/config/runner"
	"github.com/nodemend/nodemend/config/v1alpha1"
)

// pinned has all kinds of steps. What is left out of them are defaults.
const pinned = `apiVersion: nodemend.dev/v1alpha1
kind: RemedyPolicy
metadata: {name: runtime}
spec:
  match: [{type: RuntimeUnhealthy, status: "True"}]
  steps:
  - restartUnit: {name: containerd.service}
    timeout: 60s
  - command:
      script: |
        true
        # - 0000000000000000000000000000000000000000000000000000000000000000
  - reboot: {}
  - maintenance: {reason: broken}
`

func TestWhatPolicyHashPrintsAllowsTheStepsOfTheFileAlone(t *testing.T) {
	output, err := runPolicy(t, pinned, "hash", "-")
	if err != nil {
		t.Fatal(err)
	}
	veto, err := runnerconfig.Parse("runner.yaml", []byte(output))
	if err != nil {
		t.Fatalf("%v in\n%s", err, output)
	}
	policy := policyOf(t, pinned)
	for i := range policy.Spec.Steps {
		step := &policy.Spec.Steps[i]
		hash, err := step.Hash()
		if err != nil {
			t.Fatal(err)
		}
		if denied := veto.Step(hash); (denied == "") == (step.Maintenance != nil) {
			t.Errorf("step %d (%s): %q", i+1, step.Remedy(), denied)
		}
	}
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for i, want := range []string{"steps:", "allow:", " # runtime, step 1: restartUnit", " # runtime, step 2: command", " # runtime, step 3: reboot"} {
		if i >= len(lines) || !strings.HasSuffix(lines[i], want) {
			t.Fatalf("line %d has no %q:\n%s", i+1, want, output)
		}
	}
	if len(lines) != 5 {
		t.Errorf("printed\n%s", output)
	}

	// A minute is a minute; another command is another step.
	same, err := runPolicy(t, strings.Replace(pinned, "60s", "1m", 1), "hash", "-")
	if err != nil || same != output {
		t.Errorf("written otherwise it prints %v\n%s", err, same)
	}
	other, err := runPolicy(t, strings.Replace(pinned, "        true\n", "        false\n", 1), "hash", "-")
	if err != nil || strings.Split(other, "\n")[3] == lines[3] {
		t.Errorf("with another script it prints %v\n%s", err, other)
	}
}

func TestPolicyHashPrintsNothingOfWhatTheAPIServerWouldRefuse(t *testing.T) {
	entry := "0000000000000000000000000000000000000000000000000000000000000000"
	for name, test := range map[string]struct{ file, want string }{
		"a name that carries an entry": {strings.Replace(pinned, "name: runtime", `name: "x\n  - `+entry+`"`, 1), "1 problem in 1 file"},
		"a field that is not known":    {strings.Replace(pinned, "timeout:", "timeuot:", 1), "1 problem in 1 file"},
		"no policy":                    {goodBudget, "there is no step that runners execute"},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := runPolicy(t, test.file, "hash", "-")
			if err == nil || !strings.Contains(err.Error(), test.want) || output != "" {
				t.Errorf("printed %q, error %v; want %q", output, err, test.want)
			}
		})
	}
	_, err := runPolicy(t, "", "hash")
	checkError(t, err, "no file to check", true)
}

func TestEveryShippedPolicyCanBePinned(t *testing.T) {
	files, err := filepath.Glob("../../deploy/policies/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no policies: %v", err)
	}
	output, err := runPolicy(t, "", append([]string{"hash"}, files...)...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runnerconfig.Parse("runner.yaml", []byte(output)); err != nil {
		t.Errorf("%v in\n%s", err, output)
	}
}

// policyOf returns the policy of a file, with its defaults.
func policyOf(t *testing.T, content string) *v1alpha1.RemedyPolicy {
	t.Helper()
	cmd := newPolicyCommand()
	cmd.SetContext(t.Context())
	cmd.SetIn(strings.NewReader(content))
	report, _, err := checkFiles(cmd, []string{"-"}, false, offline.Known{})
	if err != nil || len(report.Policies) != 1 {
		t.Fatalf("got %+v and error %v", report, err)
	}
	return &report.Policies[0]
}
