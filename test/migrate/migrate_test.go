// Package migrate tests that what docs/migrate.md shows is what its worked examples are, and
// that they are valid.
package migrate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/nodemend/nodemend/config/offline"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
)

// What the page shows is word for word what testdata has; it links to what it does not show.
func TestThePageHasEveryExampleAndItsResult(t *testing.T) {
	page := read(t, "../../docs/migrate.md")
	var known []string
	for _, name := range names(t) {
		for _, file := range []string{example(name), result(name)} {
			text := read(t, file)
			known = append(known, text)
			if !strings.Contains(page, "```yaml\n"+text+"```") && !strings.Contains(page, "(../test/migrate/"+filepath.ToSlash(file)+")") {
				t.Errorf("docs/migrate.md neither shows %s nor links to it", file)
			}
		}
	}
	for block := range strings.SplitSeq(page, "```yaml\n") {
		if text, _, closed := strings.Cut(block, "```"); closed && !slices.Contains(known, text) {
			t.Errorf("docs/migrate.md has a block that is none of testdata:\n%s", text)
		}
	}
}

func TestEveryResultIsValidOffline(t *testing.T) {
	validator, err := offline.Load(deploy.CRDs, offline.Known{Conditions: map[string]time.Duration{"PLEGisUnhealthy": 0}}) // a plugin reports it
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t) {
		file := result(name)
		report := validator.Check(t.Context(), offline.File{Name: file, Data: []byte(read(t, file))})
		for _, problem := range append(report.Problems, report.Warnings...) {
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
		if !strings.HasPrefix(name, "nhc-") {
			continue
		}
		var from healthCheck
		var to v1alpha1.RemedyPolicy
		first(t, example(name), &from)
		first(t, result(name), &to)
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

// example and result return the files of a worked example.
func example(name string) string { return filepath.Join("testdata", "from", name) }
func result(name string) string  { return filepath.Join("testdata", "to", name) }

// names returns those of the examples, each of which has a result.
func names(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/from/*.yaml")
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
