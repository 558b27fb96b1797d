package runner

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestEveryRunnerHasAnIDOfItsOwn(t *testing.T) {
	first, err := Options{NodeName: "worker-1"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	second, err := Options{NodeName: "worker-1"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if first.RunnerID == "" || first.RunnerID == second.RunnerID {
		t.Errorf("got runner IDs %q and %q, want two different ones", first.RunnerID, second.RunnerID)
	}
}

func TestWithoutANodeNameTheErrorSaysWhatToSet(t *testing.T) {
	if _, err := (Options{}).withDefaults(); err == nil || !strings.Contains(err.Error(), "kubectl get nodes") {
		t.Errorf("got error %v", err)
	}
}

func TestABootIDThatCanNotBeReadNamesTheFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	empty := filepath.Join(t.TempDir(), "empty")
	write(t, empty, "\n", 0o600)
	for _, path := range []string{missing, empty} {
		if _, err := readBootID(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got error %v, want one that names %s", err, path)
		}
	}
	good := filepath.Join(t.TempDir(), "good")
	write(t, good, "3f0c\n", 0o600)
	if id, err := readBootID(good); id != "3f0c" || err != nil {
		t.Errorf("got %q, %v", id, err)
	}
}

func TestRunnersOfOneProcessShareTheirMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		m, err := newMetrics(registry)
		if err != nil {
			t.Fatal(err)
		}
		m.observe(remedyCommand, outcome{reason: "Succeeded"})
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 1 || families[0].GetMetric()[0].GetCounter().GetValue() != 2 {
		t.Errorf("got %v, want one counter of 2", families)
	}
}
