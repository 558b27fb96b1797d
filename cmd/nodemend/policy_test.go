//go:build !agent

package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"

	"github.com/nodemend/nodemend/config/offline"
)

const (
	goodBudget   = "apiVersion: nodemend.dev/v1alpha1\nkind: RemediationBudget\nmetadata: {name: workers}\nspec: {maxConcurrent: 2}\n"
	badBudget    = "apiVersion: nodemend.dev/v1alpha1\nkind: RemediationBudget\nmetadata: {name: racks}\nspec: {maxConcurrent: -2}\n"
	closedBudget = "apiVersion: nodemend.dev/v1alpha1\nkind: RemediationBudget\nmetadata: {name: racks}\nspec: {maxConcurrent: 0%}\n"
	closedLine   = "stdin:4:23: warning: RemediationBudget/racks: spec.maxConcurrent: 0 lets no action through, ever; the off switch is spec.paused\n"
	othersPolicy = "apiVersion: nodemend.dev/v1alpha1\nkind: RemedyPolicy\nmetadata: {name: p}\nspec: {nodeSelector: {matchLabels: {a: b}}, match: [{type: Others, status: \"True\"}], steps: [{command: {argv: [/bin/true]}}]}\n"
	othersLine   = "stdin:4:60: warning: RemedyPolicy/p: spec.match[0].type: neither Kubernetes nor a check of Nodemend nor a file that node-problem-detector comes with reports Others: make sure that something on the nodes does\n"
	badLine      = `:4:23: RemediationBudget/racks: spec.maxConcurrent: Invalid value: -2: must be a number from 0 to 100000 or a percentage from "0%" to "100%"` + "\n"
)

func TestProblemsFitATerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, []byte(othersPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	seen, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = seen.Close() }()
	if err := pty.Setsize(terminal, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"policy", "check", file}, {"policy", "check", "--help"}} {
		cmd := newRootCommand(newTestLog(t, io.Discard))
		cmd.SetOut(terminal)
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(seen) // it ends with EIO
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\r\n"); utf8.RuneCountInString(line) > 80 {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
	if !strings.Contains(string(text), "p.yaml:4:60: warning:") || !strings.Contains(string(text), "1 object in 1 file is valid") {
		t.Errorf("got %s", text)
	}
}

func TestPolicyCheck(t *testing.T) {
	dir := t.TempDir()
	good, bad, missing := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "missing.yaml")
	below := t.TempDir()
	other := filepath.Join(below, "others", "kustomization.yaml")
	for path, text := range map[string]string{
		good: goodBudget, bad: badBudget, filepath.Join(dir, "README.md"): "text",
		other: "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
		filepath.Join(below, "ours", "values.yaml"): "image: x\nimage: y\n", filepath.Join(below, "ours", "patch.yaml"): "- {op: remove, path: /x}\n",
		filepath.Join(below, "ours", "b.yml"): goodBudget,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	odd := t.TempDir() + "/a\x1b[2Jb"
	oneProblem := strconv.Quote(odd) + ": cannot be read: no such file or directory\n"
	for name, test := range map[string]struct {
		args       []string
		stdin      string
		wantOutput string
		wantError  string
		wantUsage  bool
	}{
		"a valid file":                       {args: []string{good}, wantOutput: "1 object in 1 file is valid\n"},
		"a valid standard input":             {args: []string{"-"}, stdin: goodBudget, wantOutput: "1 object in 1 file is valid\n"},
		"a bad standard input":               {args: []string{"-"}, stdin: badBudget, wantOutput: "stdin" + badLine, wantError: "1 problem in 1 file"},
		"a bad file among good ones":         {args: []string{good, bad}, wantOutput: bad + badLine, wantError: "1 problem in 2 files"},
		"a missing file does not stop it":    {args: []string{missing, bad}, wantOutput: missing + ": cannot be read: no such file or directory\n" + bad + badLine, wantError: "2 problems in 2 files"},
		"a directory":                        {args: []string{dir}, wantOutput: bad + badLine, wantError: "1 problem in 2 files"},
		"a directory with those below":       {args: []string{"-R", below}, wantOutput: "1 object in 4 files is valid\n"},
		"nothing in a directory":             {args: []string{below}, wantOutput: below + ": no .yaml, .yml or .json file in it; -R also looks below it\n", wantError: "1 problem in 1 file"},
		"nothing of ours in a directory":     {args: []string{filepath.Join(below, "others")}, wantOutput: filepath.Join(below, "others") + ": no policy, budget or maintenance in it\n", wantError: "1 problem in 1 file"},
		"a link to a directory":              {args: []string{link}, wantOutput: filepath.Join(link, "bad.yaml") + badLine, wantError: "1 problem in 2 files"},
		"a file that is given twice":         {args: []string{"-R", dir, bad, good, link}, wantOutput: bad + badLine, wantError: "1 problem in 2 files"},
		"a name that a terminal obeys":       {args: []string{odd}, wantOutput: oneProblem, wantError: "1 problem in 1 file"},
		"a file of others by its name":       {args: []string{other}, wantOutput: other + `:2:7: Kustomization: kind: Unsupported value: "Kustomization": accepted are RemedyPolicy, RemediationBudget, NodeMaintenance and NodemendRemediationTemplate` + "\n", wantError: "1 problem in 1 file"},
		"a kubeconfig that nobody asks for":  {args: []string{"--kubeconfig", "x", good}, wantError: "only --server asks", wantUsage: true},
		"another agent's condition":          {args: []string{"--strict", "--condition", "Others", "-"}, stdin: othersPolicy, wantOutput: "1 object in 1 file is valid\n"},
		"a condition that nobody reports":    {args: []string{"--strict", "-"}, stdin: othersPolicy, wantOutput: othersLine + "1 object in 1 file is valid\n", wantError: "1 warning in 1 file"},
		"a warning":                          {args: []string{"-"}, stdin: closedBudget, wantOutput: closedLine + "1 object in 1 file is valid\n"},
		"a warning, strictly":                {args: []string{"--strict", "-"}, stdin: closedBudget, wantOutput: closedLine + "1 object in 1 file is valid\n", wantError: "1 warning in 1 file"},
		"no file is wrong usage":             {wantError: "no file to check", wantUsage: true},
		"an unknown output is wrong usage":   {args: []string{"-o", "xml", good}, wantError: `unknown output "xml"; accepted are text and json`, wantUsage: true},
		"an unknown flag is wrong usage":     {args: []string{"--strikt", good}, wantError: "unknown flag: --strikt", wantUsage: true},
		"an object in two files, both times": {args: []string{good, "-"}, stdin: goodBudget, wantOutput: "stdin:3:18: RemediationBudget/workers: metadata.name: Duplicate value: also in " + good + ":3:18\n", wantError: "1 problem in 2 files"},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := runPolicy(t, test.stdin, append([]string{"check"}, test.args...)...)
			if output != test.wantOutput {
				t.Errorf("printed\n%swant\n%s", output, test.wantOutput)
			}
			checkError(t, err, test.wantError, test.wantUsage)
		})
	}
}

func TestPolicyCheckWritesJSON(t *testing.T) {
	output, err := runPolicy(t, badBudget, "check", "-o", "json", "-")
	checkError(t, err, "1 problem in 1 file", false)
	var report offline.Report
	if err := json.Unmarshal([]byte(output), &report); err != nil {
		t.Fatalf("%v in %s", err, output)
	}
	if report.Objects != 1 || len(report.Problems) != 1 || report.Problems[0].Field != "spec.maxConcurrent" {
		t.Errorf("report %+v, want one object and one problem in spec.maxConcurrent", report)
	}
}

func TestListsOfTheReportAreNeverNull(t *testing.T) {
	output, err := runPolicy(t, goodBudget, "check", "-o", "json", "-")
	if err != nil || !strings.Contains(output, `"problems": []`) || !strings.Contains(output, `"warnings": []`) {
		t.Errorf("%v in %s", err, output)
	}
}

func TestPolicyCheckAcceptsThePoliciesAndSamples(t *testing.T) {
	files, err := filepath.Glob("../../deploy/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var samples []string
	instead := []string{"../../deploy/samples/node-dead.yaml", "../../deploy/samples/external.yaml", "../../deploy/samples/replace.yaml"} // of node-not-ready, as they say
	for _, file := range slices.DeleteFunc(files, func(file string) bool { return slices.Contains(instead, file) }) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains("\n"+string(data), "\napiVersion: nodemend.dev/v1alpha1") {
			samples = append(samples, file)
		}
	}
	if len(samples) == 0 {
		t.Fatalf("no object of nodemend.dev/v1alpha1 in %v", files)
	}
	for _, checked := range [][]string{samples, instead[:1], instead[1:2], instead[2:]} {
		if output, err := runPolicy(t, "", append([]string{"check", "--strict", "--condition", "QuickstartProblem", "--condition", "AcceleratedHardwareReady"}, checked...)...); err != nil {
			t.Errorf("%v:\n%s", err, output)
		}
	}
}

func TestAnUnknownPolicyCommandIsWrongUsage(t *testing.T) {
	_, err := runPolicy(t, "", "chekc", "x.yaml")
	checkError(t, err, `unknown command "chekc"; accepted are: nodemend policy check FILE, nodemend policy hash FILE`, true)
}

func runPolicy(t *testing.T, stdin string, args ...string) (output string, err error) {
	t.Helper()
	var out strings.Builder
	cmd := newPolicyCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}
