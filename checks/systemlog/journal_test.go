package systemlog

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// fakeJournalctl is a shell script in the place of journalctl. It runs follow to
// follow the journal and last to name the last entry.
func fakeJournalctl(t *testing.T, follow, last string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journalctl")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\ncase $* in\n*--lines=1*)\n"+last+"\n;;\n*)\n"+follow+"\n;;\nesac\n"), 0o700))
	return path
}

const hang = "exec sleep 60"

// journalLine is an entry whose message is its cursor, too.
func journalLine(stamp time.Time, message string) string {
	return fmt.Sprintf(`{"__CURSOR":%[2]q,"__REALTIME_TIMESTAMP":"%[1]d","MESSAGE":%[2]q}`, stamp.UnixMicro(), message)
}

// follow reads j and returns its entries and, at the end, its error.
func (j *journal) follow(ctx context.Context, from time.Time) (<-chan entry, <-chan error) {
	out, ended := make(chan entry), make(chan error, 1)
	j.interval = time.Hour
	go func() { ended <- j.read(ctx, from, out, nil) }()
	return out, ended
}

func TestEntriesOfTheJournalAreHandedOver(t *testing.T) {
	now := time.Now()
	journalctl := fakeJournalctl(t, `cat <<'END'
`+journalLine(now.Add(-time.Hour), "before the lookback")+`
-- no entry
`+journalLine(now, "")+`
`+journalLine(now, "task hung")+`
`+journalLine(now, strings.Repeat("x", 2*maxLine))+`
`+journalLine(now, "last")+`
END
exec sleep 60`, hang)
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := (&journal{command: journalctl, source: "kernel", clock: clock.RealClock{}}).follow(ctx, now.Add(-time.Minute))
	for _, want := range []string{"task hung", "last"} {
		if e := <-out; e.log == nil || e.log.Message != want || e.log.Timestamp.UnixMicro() != now.UnixMicro() {
			t.Errorf("got %+v, want %q", e.log, want)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestJournalctlIsAskedForTheSourceSinceTheLookback(t *testing.T) {
	now := time.Now()
	j := &journal{directory: "/var/log/journal", source: "dockerd", clock: clock.RealClock{}}
	arguments := j.arguments(time.UnixMicro(1700000000000001))
	for _, want := range []string{"--follow", "--output=json", "--since=@1700000000.000001", "--directory=/var/log/journal", "SYSLOG_IDENTIFIER=dockerd"} {
		if !slices.Contains(arguments, want) {
			t.Errorf("%s is missing in %q", want, arguments)
		}
	}
	for _, argument := range j.arguments(now.Add(time.Hour)) {
		if since, found := strings.CutPrefix(argument, "--since=@"); found {
			if seconds, err := strconv.ParseFloat(since, 64); err != nil || seconds > float64(now.Unix()+60) {
				t.Errorf("asked for entries since %s, which is to come", since)
			}
		}
	}
}

func TestWhyJournalctlCanNotBeReadIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		journal *journal
		want    []string
	}{
		"there is none": {
			&journal{command: "/nonexistent/journalctl"},
			[]string{"starting journalctl", "no such file", "needs systemd's journalctl"},
		},
		"it is not in the PATH": {
			&journal{command: "journalctl-of-nobody"},
			[]string{"executable file not found", "needs systemd's journalctl"},
		},
		"no journal": {
			&journal{command: "true", directory: "/nonexistent/journal"},
			[]string{"looking for the journal", "/nonexistent/journal"},
		},
		"it can not name the last entry": {
			&journal{command: fakeJournalctl(t, hang, "echo 'Failed to seek' >&2; exit 1")},
			[]string{"could not name the newest entry: exit status 1", "Failed to seek"},
		},
		"it hangs": {
			&journal{command: fakeJournalctl(t, hang, hang)},
			[]string{"has not named the newest entry within 5s: it hangs"},
		},
		"there is no entry": {
			&journal{command: fakeJournalctl(t, hang, "exit 0")},
			[]string{"has no entry at all"},
		},
		"it fails": {
			&journal{command: fakeJournalctl(t, "echo 'Failed to open files: Permission denied' >&2; exit 1", hang)},
			[]string{"exit status 1", "Failed to open files: Permission denied"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.journal.clock, tc.journal.source = clock.RealClock{}, "kernel"
			_, ended := tc.journal.follow(t.Context(), time.Now())
			err := <-ended
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
		})
	}
}

// A journalctl that follows may be silent since nothing is written, or since it
// hangs: stopped, or on a disk that does not answer.
func TestASilentJournalIsVouchedForOnlyWithProof(t *testing.T) {
	now := time.Now()
	from := now.Add(-time.Minute)
	known, newer := journalLine(now, "known"), journalLine(now, "newer")
	other := "case $* in *SYSLOG_IDENTIFIER=*) ;; *) echo '" + journalLine(now, "of another source") + "';; esac"
	for name, tc := range map[string]struct {
		follow, last string
		proven       bool
	}{
		"the newest entry has come":           {"echo '" + known + "'\n" + hang, "echo '" + known + "'", true},
		"the newest entry is of no interest":  {hang, "echo '" + journalLine(from.Add(-time.Second), "old") + "'", true},
		"there are only entries of others":    {hang, other, true},
		"the newest entry does not come":      {"echo '" + known + "'\n" + hang, "echo '" + newer + "'", false},
		"no entry comes":                      {hang, "echo '" + known + "'", false},
		"nobody can say what the newest is":   {"echo '" + known + "'\n" + hang, hang, false},
		"what is said of the newest is wrong": {"echo '" + known + "'\n" + hang, "echo '-- No entries --'", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			began := time.Now()
			out, ended := (&journal{command: fakeJournalctl(t, tc.follow, tc.last), source: "s", clock: clock.RealClock{}}).follow(ctx, from)
			for proven := false; !proven; {
				select {
				case e := <-out:
					if proven = e.log == nil; !proven {
						continue
					}
					if !tc.proven {
						t.Errorf("vouched for the journal without proof")
					}
					if e.readUpTo.Before(began) || time.Now().Before(e.readUpTo) {
						t.Errorf("vouched for %v, want a time between the start, %v, and now", e.readUpTo, began)
					}
				case err := <-ended:
					if tc.proven {
						t.Error(err)
					}
					return
				}
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestStopKillsJournalctlWithItsChildren(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	config, err := Parse("c.json", []byte(`{"plugin": "journald", "source": "s", "pluginConfig": {"source": "kernel"}}`))
	must(t, err)
	m := &played{Monitor: New(config, Options{
		Clock:      clock.RealClock{},
		Journalctl: fakeJournalctl(t, "trap '' TERM\nsleep 60 &\necho $$ $! >"+pids+".tmp && mv "+pids+".tmp "+pids+"\nwait\nwait", hang),
	})}
	m.Start(t, m.Run)
	var both []int
	waitFor(t, "journalctl to start", func() bool {
		data, err := os.ReadFile(pids)
		for _, field := range strings.Fields(string(data)) {
			pid, err := strconv.Atoi(field)
			must(t, err)
			both = append(both, pid)
		}
		return err == nil
	})
	m.Stop()
	for _, pid := range both {
		waitFor(t, fmt.Sprintf("process %d to end", pid), func() bool { return gone(pid) })
	}
}

func TestWhatJournalctlLeavesBehindIsKilled(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	stamp := time.Now()
	out, ended := (&journal{
		command: fakeJournalctl(t, "echo '"+journalLine(stamp, "last words")+"'\nsleep 60 &\necho $! >"+pidFile+"\nexit 3", hang),
		source:  "kernel", clock: clock.RealClock{},
	}).follow(t.Context(), stamp.Add(-time.Second))
	if e := <-out; e.log == nil || e.log.Message != "last words" {
		t.Errorf("got %+v", e)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("ended with %v", err)
	}
	data, err := os.ReadFile(pidFile)
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	must(t, err)
	waitFor(t, "its child to end", func() bool { return gone(pid) })
}

// gone reports whether a process runs no more.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || strings.Contains(string(stat), ") Z ")
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(5 * time.Minute)
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// The journal in testdata has a plain entry, one of another source, one that is
// no UTF-8, one without message, a long one and a last one.
func TestARealJournalIsRead(t *testing.T) {
	if _, err := exec.LookPath("journalctl"); err != nil {
		t.Skip("there is no journalctl here")
	}
	directory := t.TempDir()
	packed, err := os.Open("testdata/system.journal.gz")
	must(t, err)
	defer func() { must(t, packed.Close()) }()
	unpacked, err := gzip.NewReader(packed)
	must(t, err)
	data, err := io.ReadAll(unpacked)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(directory, "system.journal"), data, 0o600))

	ctx, cancel := context.WithCancel(t.Context())
	// The first two entries of the journal are older.
	from := time.UnixMicro(1795262939592000)
	out, ended := (&journal{command: "journalctl", directory: directory, source: "fixture", clock: clock.RealClock{}}).follow(ctx, from)
	for _, want := range []string{"a plain line", "bytes \uFFFD here", "long " + strings.Repeat("x", 6000) + " end", "the last line"} {
		select {
		case e := <-out:
			if e.log == nil || e.log.Message != want {
				t.Errorf("got %+v, want %.20q", e.log, want)
			}
		case err := <-ended:
			t.Fatal(err)
		}
	}
	select {
	case e := <-out:
		if e.log != nil || e.readUpTo.IsZero() {
			t.Errorf("got %+v, want that all has been read", e)
		}
	case err := <-ended:
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// The kernel ends none that waits for a disk: another one would hang as well.
func TestAJournalctlThatHangsIsLeftBehindAndNoOtherIsStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{command: "true", clock: clock.RealClock{}}
		hangs := make(chan struct{})
		if j.gone(hangs) {
			t.Error("one that hangs counts as gone")
		}
		if _, err := j.start(exec.Command("true")); !errors.Is(err, errNotGone) {
			t.Errorf("got %v", err)
		}
		close(hangs)
		if !j.gone(hangs) {
			t.Error("one that is gone counts as one that hangs")
		}
		synctest.Wait()
		if _, err := j.start(&exec.Cmd{Path: "/nonexistent/journalctl"}); err == nil || errors.Is(err, errNotGone) {
			t.Errorf("once it is gone: got %v, want that the program is missing", err)
		}
	})
}
