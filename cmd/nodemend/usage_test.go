package main

import (
	"io"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/detector"
)

func runRoot(t *testing.T, out io.Writer, args ...string) (status int, text string) {
	t.Helper()
	root := newRootCommand(newTestLog(t, io.Discard))
	root.SetArgs(args)
	root.SetOut(out)
	err := root.ExecuteContext(t.Context())
	if err != nil {
		text = err.Error()
	}
	return exitStatus(err), text
}

// One means that a check has found a problem.
func TestAWrongCommandLineExitsWithTwo(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	for args, want := range map[string]string{
		"chek":                            `unknown command "chek"; did you mean check? nodemend --help lists all`,
		"frobnicate":                      `unknown command "frobnicate"; nodemend --help lists all`,
		"detector now":                    `unknown command "now" for "nodemend detector"`,
		"version 2":                       `unknown command "2" for "nodemend version"`,
		"runner all":                      `unknown command "all" for "nodemend runner"`,
		"hardware fix":                    `unknown command "fix"`,
		"policy chek":                     `unknown command "chek"`,
		"host-units x":                    `"x"`,
		"--frob":                          "unknown flag: --frob; nodemend --help lists all",
		"detector --frob":                 "unknown flag: --frob; nodemend detector --help lists all",
		"policy check --strikt x":         "unknown flag: --strikt; nodemend policy check --help lists all",
		"check --node-name=Bad_Name!":     `no Node can have the name "Bad_Name!" (--node-name): accepted are lower-case letters`,
		"detector --node-name=Bad_Name!":  `no Node can have the name "Bad_Name!" (--node-name)`,
		"detector --hostname-override=a_": `no Node can have the name "a_" (--node-name)`,
		"runner --node-name=-a":           `no Node can have the name "-a" (--node-name)`,
	} {
		t.Run(args, func(t *testing.T) {
			status, text := runRoot(t, io.Discard, strings.Fields(args)...)
			if status != 2 || !strings.Contains(text, want) {
				t.Errorf("exit status %d (%s), want 2 (%s)", status, text, want)
			}
		})
	}
	for _, args := range []string{"", "help", "--help", "version", "policy", "hardware"} {
		var out strings.Builder
		if status, text := runRoot(t, &out, strings.Fields(args)...); status != 0 || out.Len() == 0 {
			t.Errorf("%q: exit status %d (%s) with %q, want 0 and some text", args, status, text, out.String())
		}
	}
}

func TestANameOfTheNodeIsOne(t *testing.T) {
	for _, name := range []string{"worker-17", "ip-10-0-0-1.eu-west-1.compute.internal", "1"} {
		if got, err := nodeName(name); got != name || err != nil {
			t.Errorf("%q: got %q, %v", name, got, err)
		}
	}
	t.Setenv("NODE_NAME", "a/b")
	if _, err := nodeName(""); err == nil || !strings.Contains(err.Error(), `"a/b" (NODE_NAME)`) {
		t.Errorf("got %v", err)
	}
}

func TestTablesShowNoControlCharacters(t *testing.T) {
	var out strings.Builder
	if err := writeOutcomes(&out, []detector.Outcome{{
		Check: "runtime", Status: checks.True, Reason: "RPCFailed", Message: "no\x1b[2J\x1b]0;title\a such\n\tthing\xff",
	}}); err != nil {
		t.Fatal(err)
	}
	want := "CHECK    RESULT   REASON     TOOK   MESSAGE\nruntime  PROBLEM  RPCFailed  0.00s  no�[2J�]0;title� such thing�\n"
	if out.String() != want {
		t.Errorf("got %q\nwant %q", out.String(), want)
	}
}
