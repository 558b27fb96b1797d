package customplugin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/checks"
)

// TestMain makes this program log-counter where it is called so.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "log-counter" {
		fmt.Println(os.Args[1:])
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestACounterThatNPDShipsIsThisProgramIfThereIsNone(t *testing.T) {
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/node-problem-detector").Output()
	if err != nil {
		t.Skip(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "config", "*-counter.json"))
	if err != nil || len(files) != 3 {
		t.Skip(err, files)
	}
	for _, file := range files {
		config, err := Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, r := range config.rules {
			if exists(r.path) {
				t.Skip(r.path, "is there")
			}
			r.args = r.args[:1]
			got := execute(t.Context(), r, 80, nil)
			if want := fmt.Sprint(r.args); got.status != checks.True || got.message != want {
				t.Errorf("%s: got %+v, want the message %s", r.path, got, want)
			}
		}
	}
}

func TestAPluginOfThatNameThatIsThereIsExecuted(t *testing.T) {
	path := script(t, "log-counter", "echo mine; exit 1")
	config, err := Parse("own.json", fmt.Appendf(nil, `{"plugin": "custom", "source": "own", "rules": [{"type": "temporary", "reason": "A", "path": %q}]}`, path))
	if err != nil {
		t.Fatal(err)
	}
	if got := execute(t.Context(), config.rules[0], 80, nil); got.message != "mine" {
		t.Errorf("got %+v", got)
	}
}
