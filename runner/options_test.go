package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWithoutANodeNameTheErrorSaysWhatToSet(t *testing.T) {
	if _, err := (Options{}).withDefaults(); err == nil || !strings.Contains(err.Error(), "kubectl get nodes") {
		t.Errorf("got error %v", err)
	}
}

func TestABootIDThatCanNotBeReadNamesTheFile(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	empty := filepath.Join(t.TempDir(), "empty")
	must(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, path := range []string{missing, empty} {
		if _, err := readBootID(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got error %v, want one that names %s", err, path)
		}
	}
	good := filepath.Join(t.TempDir(), "good")
	must(t, os.WriteFile(good, []byte("3f0c\n"), 0o600))
	if id, err := readBootID(good); id != "3f0c" || err != nil {
		t.Errorf("got %q, %v", id, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
