package statefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func example() State {
	return State{
		NodeName: "worker-1", NodeUID: "uid-1", SeenThere: []string{"PLEGUnhealthy"},
		Conditions: []Condition{{
			BootID: "boot-1", Type: "PLEGUnhealthy", Status: corev1.ConditionTrue, Reason: "RelistOutdated", Message: "3m",
			LastTransitionTime: time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC),
		}},
	}
}

func TestWhatIsSavedIsLoaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "state.json")
	for range 2 { // the second time it replaces a file
		if err := Save(path, example()); err != nil {
			t.Fatal(err)
		}
		got, err := Load(path, "worker-1")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(example(), got); diff != "" {
			t.Errorf("(-saved +loaded):\n%s", diff)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestAFileThatIsOfNoUseIsRefusedWithTheReason(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	if err := Save(path, example()); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ content, want string }{
		"truncated":       {string(good[:len(good)/2]), "no valid JSON"},
		"empty":           {"", "no valid JSON"},
		"zeros":           {strings.Repeat("\x00", 300), "no valid JSON"},
		"more than one":   {string(good) + "{}", "more after"},
		"another version": {strings.Replace(string(good), `"version": 1`, `"version": 2`, 1), "version 2, accepted is 1"},
		"another node":    {strings.Replace(string(good), "worker-1", "worker-2", 1), `of node "worker-2"`},
		"a wrong status":  {strings.Replace(string(good), `"True"`, `"true"`, 1), `status "true"`},
		"no transition":   {strings.Replace(string(good), "2030-05-01T12:00:00Z", "0001-01-01T00:00:00Z", 1), "no lastTransitionTime"},
		"huge":            {strings.Repeat(" ", maxSize) + string(good), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(path, "worker-1"); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	if _, err := Load(path+".none", "worker-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

func TestAFailedSaveLeavesTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	if err := os.Mkdir(path, 0o700); err != nil { // can't be replaced by a file
		t.Fatal(err)
	}
	if err := Save(path, example()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 || !entries[0].IsDir() {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"nodeName":"n","conditions":[{"type":"T","status":"True","lastTransitionTime":"2030-05-01T12:00:00Z"}]}`))
	f.Add([]byte(`{"version":1,"conditions":null}`))
	f.Add([]byte(`{"version":1}{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		state, err := parse(data)
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "state.json")
		if err := Save(path, state); err != nil {
			return // a time that JSON can't hold
		}
		again, err := Load(path, state.NodeName)
		if err != nil {
			t.Fatalf("what was parsed and saved is refused: %v", err)
		}
		if len(again.Conditions) != len(state.Conditions) {
			t.Errorf("saved %v, loaded %v", state, again)
		}
	})
}
