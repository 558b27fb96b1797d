package counters_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	testclock "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/checks/counters"
)

const window = 24 * time.Hour

func TestWhatWasAddedWithinTheWindowIsCounted(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := counters.Counter{Last: 100}
	for _, look := range []struct {
		after       time.Duration
		value, want uint64
		changed     bool
	}{
		{0, 100, 0, false},
		{time.Hour, 103, 3, true},
		{time.Hour + time.Minute, 104, 4, true},
		{2 * time.Hour, 104, 4, false},
		{10 * time.Hour, 50, 4, true}, // set back
		{12 * time.Hour, 52, 6, true},
		{25 * time.Hour, 52, 6, false},
		{25*time.Hour + time.Second, 52, 2, true},
		{12*time.Hour - time.Second, 52, 2, true}, // the clock was set
		{36*time.Hour - time.Second, 52, 2, false},
		{36 * time.Hour, 52, 0, true},
	} {
		changed := c.See(look.value, start.Add(look.after), window)
		if got := c.Added(); got != look.want || changed != look.changed {
			t.Errorf("after %s, at %d: added %d, changed %t; want %d, %t", look.after, look.value, got, changed, look.want, look.changed)
		}
	}
}

func TestACounterThatGrowsAllTheTimeTakesLittleRoom(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var c counters.Counter
	for n := range uint64(10_000) {
		c.See(n, now, window)
		now = now.Add(time.Minute)
	}
	if len(c.Grown) > 25 {
		t.Errorf("it remembers %d growths", len(c.Grown))
	}
	if got := c.Added(); got < 1380 || got > 1440 {
		t.Errorf("it has grown by %d within a day, want 1440, and at most an hour less", got)
	}
}

type value struct{ N int }

func file(path string) *counters.File[value] {
	return &counters.File[value]{Path: path, Clock: testclock.NewFakeClock(time.Unix(0, 0))}
}

func TestAFileKeepsAValueOverRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "file.json")
	f := file(path)
	f.Save(t.Context(), value{1}) // before it is known what is there
	if got, first := f.Load(t.Context()); got.N != 0 || !first {
		t.Errorf("without a file: got %+v, %t", got, first)
	}
	if _, first := f.Load(t.Context()); first || f.Unread() != nil {
		t.Error("it is loaded twice")
	}
	f.Save(t.Context(), value{2})
	if got, first := file(path).Load(t.Context()); got.N != 2 || !first {
		t.Errorf("after a restart: got %+v, %t", got, first)
	}
	written, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Save(t.Context(), value{2})
	if again, err := os.Stat(path); err != nil || !os.SameFile(written, again) {
		t.Errorf("what has not changed is written anew: %v", err)
	}
	if err := os.WriteFile(path, []byte(`{"N": 3`), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := file(path)
	if got, first := damaged.Load(t.Context()); got.N != 0 || first || damaged.Unread() == nil {
		t.Errorf("of a damaged file: got %+v, %t, %v", got, first, damaged.Unread())
	}
	damaged.Save(t.Context(), value{4}) // replaces nothing
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, first := damaged.Load(t.Context()); got.N != 0 || !first || damaged.Unread() != nil {
		t.Errorf("of one that was removed: got %+v, %t, %v", got, first, damaged.Unread())
	}
}

// A pipe that nobody writes to does not answer, as a disk that has died.
func TestAFileWhoseDiskHangsIsNotKnownUntilItAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.json")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	clk := testclock.NewFakeClock(time.Unix(0, 0))
	f := &counters.File[value]{Path: path, Clock: clk}
	known := make(chan bool)
	go func() {
		_, first := f.Load(t.Context())
		known <- first
	}()
	NewWithT(t).Eventually(clk.HasWaiters, time.Minute).Should(BeTrue())
	clk.Step(2 * time.Second)
	if <-known || f.Unread() == nil {
		t.Error("what the file has is known before it was read")
	}
	f.Save(t.Context(), value{1}) // replaces nothing
	go func() {
		pipe, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			_, err = pipe.WriteString(`{"N": 7}`)
			err = errors.Join(err, pipe.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}()
	if got, first := f.Load(t.Context()); got.N != 7 || !first {
		t.Errorf("got %+v, %t", got, first)
	}
}

func TestAFileOfWhoOnlyLooksIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "file.json")
	looks := func(want int) {
		t.Helper()
		f := file(path)
		f.LookOnly = true
		if got, first := f.Load(t.Context()); got.N != want || !first {
			t.Errorf("got %+v, %t, want %d", got, first, want)
		}
		f.Save(t.Context(), value{7})
	}
	looks(0)
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
	f := file(path)
	f.Load(t.Context())
	f.Save(t.Context(), value{1})
	looks(1)
	looks(1)
}

func TestADisposableFileThatIsDamagedIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.json")
	if err := os.WriteFile(path, []byte(`{"N": 3`), 0o600); err != nil {
		t.Fatal(err)
	}
	f := file(path)
	f.Disposable = true
	if got, first := f.Load(t.Context()); got.N != 0 || !first || f.Unread() != nil {
		t.Errorf("got %+v, %t, %v", got, first, f.Unread())
	}
	f.Save(t.Context(), value{4})
	if got, first := file(path).Load(t.Context()); got.N != 4 || !first {
		t.Errorf("after a restart: got %+v, %t", got, first)
	}
}

func TestWithoutAPathNothingIsKept(t *testing.T) {
	f := file("")
	if got, first := f.Load(t.Context()); got.N != 0 || !first {
		t.Errorf("got %+v, %t", got, first)
	}
	f.Save(t.Context(), value{1})
}
