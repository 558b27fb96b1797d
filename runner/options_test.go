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

func TestARunnerThatIsProcessOneDoesNotTakeItsOwnRootForTheNodes(t *testing.T) {
	for self, refused := range map[string]bool{"1": true, "11": false} {
		proc := t.TempDir()
		must(t, os.Symlink(self, filepath.Join(proc, "self")))
		_, err := (Options{NodeName: "a", Proc: proc}).withDefaults()
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "hostPID: true, or say by --host-root") {
			t.Errorf("as process %s: got the error %v", self, err)
		}
		if _, err := (Options{NodeName: "a", Proc: proc, HostRoot: "/host"}).withDefaults(); err != nil {
			t.Errorf("as process %s with a host root: %v", self, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
