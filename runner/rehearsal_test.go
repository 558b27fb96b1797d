package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nodemend/nodemend/internal/systemd"
)

func TestARehearsalComesToTheResetAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	opts, err := Options{NodeName: "node-a", RunDir: dir, HostRoot: filepath.Join(dir, "root"), Systemd: &systemd.Dialer{}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if err := rehearse(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, error %v", left, err)
	}
}
