package main

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestAWrongCommandLineIsRefusedAndTheRightOneShown(t *testing.T) {
	for line, want := range map[string]string{
		"statsu":              `unknown command "statsu"; did you mean status?`,
		"hardware reprot":     `unknown command "reprot"; did you mean report?`,
		"maintenance statsu":  "usage: kubectl nodemend maintenance",
		"status now":          `kubectl nodemend status takes no arguments, and got "now"`,
		"why":                 "kubectl nodemend why takes NODE, and got nothing\nusage: kubectl nodemend why NODE",
		"why a b":             `kubectl nodemend why takes NODE, and got "a b"`,
		"run a":               `kubectl nodemend run takes POLICY NODE, and got "a"`,
		"exclude":             "usage: kubectl nodemend exclude NODE...",
		"exclude a -l b=c":    "not both",
		"maintenance start":   "usage: kubectl nodemend maintenance start NODE...",
		"history --since 1x":  "accepted are numbers with the units d, h, m and s",
		"status --nonsense":   "examples: kubectl nodemend status --help",
		"status -o table":     "accepted are wide, json and yaml",
		"status -w -o json":   "-w shows text, not json",
		"status -l a=b=c":     "--selector",
		"pause":               "--reason is required",
		"maintenance start a": "--reason is required",
		"maintenance end a --all --maintenance b":                           "not both",
		"maintenance start a --reason x --grace-period -5":                  "accepted are 0 or more seconds",
		"maintenance start a --reason x --grace-period soon":                `invalid argument "soon" for "--grace-period" flag: invalid syntax`,
		"maintenance start a --reason x --on-timeout Never":                 "accepted are Wait, Proceed, Abort",
		"maintenance start a --reason x --timeout 0s":                       "at least 1s",
		"maintenance start a --reason x --timeout 41d --cordon-only":        "leave out --timeout",
		"maintenance start a --reason x --cordon-only --force":              "leave out --force",
		"maintenance start a --reason x --cordon-only --power-off":          "leave out --power-off",
		"maintenance start a --reason x --out-of-service":                   "--out-of-service is for --power-off only",
		"maintenance start a --reason x --cordon-only --pod-selector app=w": "leave out --pod-selector",
	} {
		var out bytes.Buffer
		root := newRootCommand(genericiooptions.IOStreams{In: &out, Out: &out, ErrOut: &out}, clocktesting.NewFakePassiveClock(noon))
		root.SetArgs(append(strings.Fields(line), "--server=https://127.0.0.1:1", "--kubeconfig=/dev/null"))
		err := root.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", line, err, want)
		}
		for _, inside := range []string{"strconv", "v1alpha1", "%!", "<nil>", "arg(s)"} {
			if err != nil && strings.Contains(err.Error(), inside) {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

func TestABlankReasonIsNone(t *testing.T) {
	for _, args := range [][]string{{"pause"}, {"maintenance", "start", "a"}} {
		var out bytes.Buffer
		root := newRootCommand(genericiooptions.IOStreams{In: &out, Out: &out, ErrOut: &out}, clocktesting.NewFakePassiveClock(noon))
		root.SetArgs(append(args, "--reason", " ", "--server=https://127.0.0.1:1", "--kubeconfig=/dev/null"))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--reason is required") {
			t.Errorf("%v: %v", args, err)
		}
	}
}
