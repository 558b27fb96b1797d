package boot_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/internal/boot"
)

func TestABootIDThatCanNotBeReadNamesTheFile(t *testing.T) {
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "missing"), write("empty", "\n")} {
		if _, err := boot.ID(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("got error %v, want one that names %s", err, path)
		}
	}
	if id, err := boot.ID(write("good", "3f0c\n")); id != "3f0c" || err != nil {
		t.Errorf("got %q, %v", id, err)
	}
}

func TestTheNodeHasBootedBeforeThisProgramBegan(t *testing.T) {
	began := clock.RealClock{}.Now()
	at, err := boot.Time(clocktesting.NewFakePassiveClock(began))
	if err != nil {
		t.Fatal(err)
	}
	if up := began.Sub(at); up <= 0 || up > 100*365*24*time.Hour {
		t.Errorf("it has been up for %s", up)
	}
}
