package offline

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/deploy"
)

var update = flag.Bool("update", false, "write testdata/*.golden from what the tests get; then read the difference")

func TestGoodFilesHaveNoProblems(t *testing.T) {
	validator := load(t)
	for _, file := range testdata(t, "good") {
		t.Run(file.Name, func(t *testing.T) {
			report := validator.Check(t.Context(), file)
			for _, problem := range report.Problems {
				t.Error(problem)
			}
			if report.Objects == 0 {
				t.Error("no object was found")
			}
		})
	}
}

// The golden files are the list of all messages, to be read by people.
func TestBadFilesAreRefusedWithTheMessagesInTheGoldenFile(t *testing.T) {
	validator := load(t)
	for _, dir := range []string{"bad", "refused-by-us-only"} {
		t.Run(dir, func(t *testing.T) {
			var got strings.Builder
			for _, file := range testdata(t, dir) {
				problems := validator.Check(t.Context(), file).Problems
				if len(problems) == 0 {
					t.Errorf("%s is accepted", file.Name)
				}
				for _, problem := range problems {
					got.WriteString(problem.String() + "\n")
				}
			}
			compareWithGolden(t, filepath.Join("testdata", dir+".golden"), got.String())
		})
	}
}

func TestProblemsOfSeveralFilesKeepTheOrderOfTheFiles(t *testing.T) {
	bad := File{Name: "z.yaml", Data: []byte("kind: RemedyPolicy\n---\nkind: Other\n")}
	empty := File{Name: "a.yaml", Data: []byte("# nothing\n---\n")}
	report := load(t).Check(t.Context(), bad, empty)

	var files []string
	for _, problem := range report.Problems {
		files = append(files, problem.File)
	}
	last := len(files) - 1
	if last < 2 || files[0] != "z.yaml" || files[last] != "a.yaml" {
		t.Errorf("problems are in the order of files %v, want those of z.yaml first and one of a.yaml last", files)
	}
	want := "a.yaml: no policy, budget or maintenance in it; accepted are objects of kind RemedyPolicy, RemediationBudget, NodeMaintenance and NodemendRemediationTemplate"
	if got := report.Problems[last].String(); got != want {
		t.Errorf("an empty file gives\n  %s\nwant\n  %s", got, want)
	}
}

func TestTwoObjectsOfOneNameAreReportedWithBothPlaces(t *testing.T) {
	const (
		first  = "apiVersion: nodemend.dev/v1alpha1\nkind: RemediationBudget\nmetadata: {name: workers}\nspec: {}\n"
		policy = "apiVersion: nodemend.dev/v1alpha1\nkind: RemedyPolicy\nmetadata: {name: workers}\n" +
			"spec: {match: [{type: Ready, status: Unknown}], steps: [{command: {argv: [/bin/true]}}]}\n"
	)
	report := load(t).Check(t.Context(),
		File{Name: "a.yaml", Data: []byte(policy + "---\n" + first)},
		File{Name: "b.yaml", Data: []byte(first)})

	want := []Problem{{
		File: "b.yaml", Line: 3, Column: 18, Object: "RemediationBudget/workers", Field: "metadata.name",
		Message: "Duplicate value: also in a.yaml:8:18",
	}}
	if diff := cmp.Diff(want, report.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if report.Objects != 3 {
		t.Errorf("%d objects, want 3", report.Objects)
	}
}

func TestAPolicyForAllNodesIsAWarning(t *testing.T) {
	file := File{Name: "p.yaml", Data: []byte("apiVersion: nodemend.dev/v1alpha1\nkind: RemedyPolicy\nmetadata: {name: all}\n" +
		"spec: {match: [{type: Ready, status: Unknown}], steps: [{command: {argv: [/bin/true]}}]}\n")}
	report := load(t).Check(t.Context(), file)

	want := Report{Objects: 1, Problems: []Problem{}, Warnings: []Problem{{
		File: "p.yaml", Line: 4, Column: 7, Object: "RemedyPolicy/all", Field: "spec.nodeSelector",
		Message: "left out: the policy applies to all nodes, control-plane nodes too",
	}}}
	report.Policies, report.Valid = nil, nil
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestTextAfterTheSeparatorIsRefused(t *testing.T) {
	file := File{Name: "s.yaml", Data: []byte("--- {kind: RemedyPolicy}\n")}
	report := load(t).Check(t.Context(), file)
	if len(report.Problems) != 1 || report.Problems[0].Line != 1 {
		t.Errorf("problems %v, want one in line 1", report.Problems)
	}
}

func TestWindowsLineEndsAreAccepted(t *testing.T) {
	text := "apiVersion: nodemend.dev/v1alpha1\nkind: RemediationBudget\nmetadata: {name: b}\nspec: {}\n---\n"
	file := File{Name: "w.yaml", Data: []byte(strings.ReplaceAll(text, "\n", "\r\n"))}
	if report := load(t).Check(t.Context(), file); len(report.Problems) > 0 || report.Objects != 1 {
		t.Errorf("report %+v, want one object and no problem", report)
	}
}

func FuzzCheck(f *testing.F) {
	for _, dir := range []string{"good", "bad", "refused-by-us-only"} {
		for _, file := range testdata(f, dir) {
			f.Add(file.Data)
		}
	}
	validator := load(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := strings.Count(string(data), "\n") + 1
		for _, problem := range validator.Check(t.Context(), File{Name: "fuzz", Data: data}).Problems {
			if problem.Line < 0 || problem.Line > lines {
				t.Errorf("line %d of %d: %s", problem.Line, lines, problem)
			}
		}
	})
}

func load(t testing.TB) *Validator {
	t.Helper()
	validator, err := Load(deploy.CRDs, Known{Conditions: map[string]time.Duration{"PLEGUnhealthy": 10 * time.Second, "HardwareFailure": 5 * time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	return validator
}

// testdata returns the files of a directory of testdata, by name.
func testdata(t testing.TB, dir string) (files []File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in testdata/%s: %v", dir, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, File{Name: filepath.Base(path), Data: data})
	}
	return files
}

func compareWithGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got), -update rewrites it:\n%s", path, diff)
	}
}
