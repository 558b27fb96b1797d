package atomicfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFileIsMadeAndReplacedWithNothingLeftBeside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "file")
	for _, content := range []string{"old", "new"} {
		if err := Replace(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("read %q, %v, want %q", got, err, content)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("it has mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestAFailedReplaceLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.Mkdir(path, 0o700); err != nil { // can't be replaced by a file
		t.Fatal(err)
	}
	if err := Replace(path, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
