package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

var noon = time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)

func order(name string, at time.Duration) remedy.Order {
	return remedy.Order{
		Action: name, UID: "uid-of-" + "it", BootID: "boot", StartedAt: noon.Add(at),
		Step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/true"}}},
	}
}

func open(t *testing.T, dir string) *Ledger {
	t.Helper()
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestALaterProcessKnowsWhatWasBegunEndedAndReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	l := open(t, dir)
	outcome := remedy.Outcome{Reason: v1alpha1.ReasonSucceeded, Message: "exit status 0"}
	for _, name := range []string{"begun", "ended", "reported"} {
		must(t, l.Begin(order(name, 0)))
	}
	must(t, l.End("ended", outcome, time.Minute))
	must(t, l.End("reported", outcome, time.Hour))
	must(t, l.Reported("reported"))

	for _, l := range []*Ledger{l, open(t, dir)} {
		want := map[string]*Entry{
			"begun":    {Order: order("begun", 0)},
			"ended":    {Order: order("ended", 0), Outcome: &outcome, Ended: time.Minute},
			"reported": {Order: remedy.Order{Action: "reported", UID: "uid-of-it", BootID: "boot", StartedAt: noon}, Ended: time.Hour, Reported: true},
			"other":    nil,
		}
		for name, want := range want {
			if diff := cmp.Diff(want, l.Find(name)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if got := l.Pending(); len(got) != 2 || got[0].Reported || got[1].Reported {
			t.Errorf("pending: %v", got)
		}
		if here, elsewhere := l.LastEnd("boot"), l.LastEnd("another"); here != time.Hour || elsewhere != 0 {
			t.Errorf("in this boot an order last ended after %s, in another one after %s", here, elsewhere)
		}
	}
}

func TestAnOrderIsBegunOnce(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	must(t, l.Begin(order("a", 0)))
	must(t, l.End("a", remedy.Outcome{}, 0))
	must(t, l.Reported("a"))
	for _, l := range []*Ledger{l, open(t, dir)} {
		again := order("a", time.Hour)
		again.UID = "another"
		if err := l.Begin(again); err == nil || !strings.Contains(err.Error(), "uid-of-it") {
			t.Errorf("got %v, want an error that names the first UID", err)
		}
	}
}

func TestALedgerKnowsItsOwnRunners(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	first, second := l.RunnerID(), open(t, dir).RunnerID()
	if first == second {
		t.Errorf("two processes have the ID %s", first)
	}
	if !l.Knows(first) || !l.Knows(second) {
		t.Error("the ledger does not know its runners")
	}
	if open(t, t.TempDir()).Knows(first) || l.Knows("") || l.Knows("runner-1") {
		t.Error("a ledger knows the runner of another")
	}
}

func TestTheOldestReportedEntriesAreForgotten(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	must(t, l.Begin(order("pending", -time.Hour)))
	for i := range maxReported + 3 {
		name := fmt.Sprint("action-", i)
		must(t, l.Begin(order(name, time.Duration(i)*time.Second)))
		must(t, l.Reported(name))
	}
	for _, l := range []*Ledger{l, open(t, dir)} {
		if len(l.entries) != maxReported+1 || l.Find("action-2") != nil || l.Find("action-3") == nil || l.Find("pending") == nil {
			t.Errorf("%d entries are kept, want %d, without action-0 to action-2", len(l.entries), maxReported+1)
		}
	}
}

func TestADamagedEntryIsNotTakenForNothing(t *testing.T) {
	for _, content := range []string{"", "{", "{}", `{"order":{"action":"a"}}`} {
		dir := t.TempDir()
		l := open(t, dir)
		must(t, os.WriteFile(l.path("a"), []byte(content), 0o600))
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), l.path("a")) || !strings.Contains(err.Error(), "remove the directory "+dir) {
			t.Errorf("with %q: got %v, want an error that names the file and the directory to remove", content, err)
		}
	}
}

func TestAWriteThatWasCutShortIsNoEntry(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	must(t, os.WriteFile(filepath.Join(l.actions(), ".x.json.123"), []byte("{"), 0o600))
	open(t, dir)
}

func TestAnOrderThatCantBeWrittenIsNotBegun(t *testing.T) {
	l := open(t, t.TempDir())
	must(t, os.RemoveAll(l.actions()))
	must(t, os.WriteFile(l.actions(), nil, 0o600)) // in the way of the directory
	if err := l.Begin(order("a", 0)); err == nil || l.Find("a") != nil {
		t.Errorf("got %v and the entry %v: what was not begun has none", err, l.Find("a"))
	}
}

func TestABeginningThatFailedLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	must(t, os.Mkdir(l.path("a"), 0o700)) // in the way of the file, and stands for one that was not made to last
	if err := l.Begin(order("a", 0)); err == nil {
		t.Fatal("it could be written")
	}
	if open(t, dir).Find("a") != nil {
		t.Error("the next process adopts what was not begun")
	}
}

func TestAnOutcomeThatCantBeWrittenIsRemembered(t *testing.T) {
	l := open(t, t.TempDir())
	must(t, l.Begin(order("a", 0)))
	must(t, os.RemoveAll(l.actions()))
	must(t, os.WriteFile(l.actions(), nil, 0o600)) // in the way of the directory
	if err := l.End("a", remedy.Outcome{Reason: "Succeeded"}, 0); err == nil || l.Find("a").Outcome == nil {
		t.Errorf("got %v and the entry %v", err, l.Find("a"))
	}
}

func TestOneProcessHasTheLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	first, err := Lock(t.Context(), dir, func() { t.Error("nobody has it, and still it waits") })
	must(t, err)
	waiting, got := make(chan struct{}), make(chan error)
	go func() {
		second, err := Lock(t.Context(), dir, func() { close(waiting) })
		if err == nil {
			second()
		}
		got <- err
	}()
	<-waiting
	first()
	must(t, <-got)

	release, err := Lock(t.Context(), dir, nil)
	must(t, err)
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Lock(ctx, dir, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the wait was cancelled", err)
	}
}
