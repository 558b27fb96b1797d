package runner

import (
	"strings"
	"testing"
)

func TestWithoutANodeNameTheErrorSaysWhatToSet(t *testing.T) {
	if _, err := (Options{}).withDefaults(); err == nil || !strings.Contains(err.Error(), "kubectl get nodes") {
		t.Errorf("got error %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
