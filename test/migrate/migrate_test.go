// Package migrate tests that what docs/migrate.md shows is what its worked examples are, that
// these are what the plugin converts, and that they are valid.
package migrate

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/nodemend/nodemend/config/convert"
	"github.com/nodemend/nodemend/config/offline"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
)

var update = flag.Bool("update", false, "write the results anew")

func TestEachResultIsWhatItsExampleIsConvertedTo(t *testing.T) {
	for _, name := range names(t) {
		result, mistakes := convert.Convert(v1alpha1.ModeDryRun, convert.File{Name: name, Data: []byte(read(t, example(name)))})
		for _, mistake := range mistakes {
			t.Error(mistake)
		}
		var said strings.Builder
		for _, note := range result.Notes {
			said.WriteString(note.String() + "\n")
		}
		for file, got := range map[string]string{golden(name): result.YAML, notes(name): said.String()} {
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(read(t, file), got); diff != "" {
				t.Errorf("%s (-want +got); write it with: go test ./test/migrate -update\n%s", file, diff)
			}
		}
	}
}

// What the page shows is word for word what testdata has; it links to what it does not show.
func TestThePageHasEveryExampleAndItsResult(t *testing.T) {
	page := read(t, "../../docs/migrate.md")
	var known []string
	for _, name := range names(t) {
		for _, file := range []string{example(name), golden(name)} {
			text := read(t, file)
			known = append(known, text)
			if !strings.Contains(page, "```yaml\n"+text+"```") && !strings.Contains(page, "(../test/migrate/"+filepath.ToSlash(file)+")") {
				t.Errorf("docs/migrate.md neither shows %s nor links to it", file)
			}
		}
	}
	for _, block := range strings.Split(page, "```yaml\n")[1:] {
		text, _, closed := strings.Cut(block, "```")
		if ofRemoteRunner := strings.HasPrefix(strings.TrimSpace(text), "switches:"); closed && !ofRemoteRunner && !slices.Contains(known, text) { // test/docs reads that
			t.Errorf("docs/migrate.md has a block that is none of testdata:\n%s", text)
		}
	}
}

func TestEveryResultIsValidOffline(t *testing.T) {
	validator, err := offline.Load(deploy.CRDs, offline.Known{Conditions: map[string]time.Duration{ // something of the examples' owners reports them
		"PLEGisUnhealthy": 0, "GPUReady": 0, "RebootRequired": 0, "BadCondition": 0, "ReallyBadCondition": 0,
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t) {
		file := golden(name)
		report := validator.Check(t.Context(), offline.File{Name: file, Data: []byte(read(t, file))})
		for _, warning := range report.Warnings {
			if !strings.HasPrefix(warning.Message, "left out: the policy applies to all nodes") { // as the original, and said
				t.Error(warning)
			}
		}
		for _, problem := range report.Problems {
			t.Error(problem)
		}
	}
}

// healthCheck is what matters of a NodeHealthCheck.
type healthCheck struct {
	Spec struct {
		UnhealthyConditions []struct {
			Type, Status, Duration string
		} `json:"unhealthyConditions"`
	} `json:"spec"`
}

func TestEveryUnhealthyConditionStartsThePolicyAfterTheSameTime(t *testing.T) {
	for _, name := range names(t) {
		if !strings.HasPrefix(name, "nhc-") || name == "nhc-remediators.yaml" { // a List
			continue
		}
		var from healthCheck
		var to v1alpha1.RemedyPolicy
		first(t, example(name), &from)
		first(t, golden(name), &to)
		if len(from.Spec.UnhealthyConditions) != len(to.Spec.Match) || len(to.Spec.Match) == 0 {
			t.Errorf("%s: %d unhealthyConditions became %d entries of match", name, len(from.Spec.UnhealthyConditions), len(to.Spec.Match))
			continue
		}
		for i, c := range from.Spec.UnhealthyConditions {
			duration, err := time.ParseDuration(c.Duration)
			if err != nil {
				t.Fatal(err)
			}
			if m := to.Spec.Match[i]; c.Type != m.Type || c.Status != string(m.Status) || duration != m.For.Duration {
				t.Errorf("%s: %+v became %+v", name, c, m)
			}
		}
	}
}

// example, golden and notes return the files of a worked example: what is converted, to
// what, and what is said about it.
func example(name string) string { return filepath.Join("testdata", "from", name) }
func golden(name string) string {
	return filepath.Join("testdata", "to", strings.TrimSuffix(name, filepath.Ext(name))+".yaml")
}
func notes(name string) string { return strings.TrimSuffix(golden(name), ".yaml") + ".txt" }

// names returns those of the examples, each of which has a result.
func names(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/from/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for i, file := range files {
		files[i] = filepath.Base(file)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// first decodes the first object of a file.
func first(t *testing.T, file string, into any) {
	t.Helper()
	if err := yaml.NewYAMLOrJSONDecoder(strings.NewReader(read(t, file)), 4096).Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
