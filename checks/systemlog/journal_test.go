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
	"time"

	"k8s.io/utils/clock"
)

// fakeJournalctl is a shell script in the place of journalctl.
func fakeJournalctl(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journalctl")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700))
	return path
}

func journalLine(stamp time.Time, message string) string {
	return fmt.Sprintf(`{"__REALTIME_TIMESTAMP":"%d","MESSAGE":%q}`, stamp.UnixMicro(), message)
}

// follow reads j and returns its entries and, at the end, its error.
func (j journal) follow(ctx context.Context, from time.Time) (<-chan entry, <-chan error) {
	out, ended := make(chan entry), make(chan error, 1)
	go func() { ended <- j.read(ctx, from, out) }()
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
exec sleep 60`)
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := journal{command: journalctl, source: "kernel", clock: clock.RealClock{}}.follow(ctx, now.Add(-time.Minute))
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
	j := journal{directory: "/var/log/journal", source: "dockerd", clock: clock.RealClock{}}
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
		journal journal
		want    []string
	}{
		"there is none": {
			journal{command: "/nonexistent/journalctl"},
			[]string{"starting journalctl", "no such file", "needs systemd's journalctl"},
		},
		"it is not in the PATH": {
			journal{command: "journalctl-of-nobody"},
			[]string{"executable file not found", "needs systemd's journalctl"},
		},
		"no journal": {
			journal{command: "true", directory: "/nonexistent/journal"},
			[]string{"looking for the journal", "/nonexistent/journal"},
		},
		"it fails": {
			journal{command: fakeJournalctl(t, "echo 'Failed to open files: Permission denied' >&2; exit 1")},
			[]string{"exit status 1", "Failed to open files: Permission denied"},
		},
	} {
		t.Run(name, func(t *testing.T) {
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

func TestStopKillsJournalctlWithItsChildren(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	config, err := Parse("c.json", []byte(`{"plugin": "journald", "source": "s", "pluginConfig": {"source": "kernel"}}`))
	must(t, err)
	m := New(t.Context(), config, Options{
		Clock:      clock.RealClock{},
		Journalctl: fakeJournalctl(t, "trap '' TERM\nsleep 60 &\necho $$ $! >"+pids+".tmp && mv "+pids+".tmp "+pids+"\nwait\nwait"),
	})
	_, err = m.Start()
	must(t, err)
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
	began := time.Now()
	m.Stop()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("Stop took %s", took)
	}
	for _, pid := range both {
		waitFor(t, fmt.Sprintf("process %d to end", pid), func() bool { return gone(pid) })
	}
}

func TestWhatJournalctlLeavesBehindIsKilled(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	stamp := time.Now()
	out, ended := journal{
		command: fakeJournalctl(t, "echo '"+journalLine(stamp, "last words")+"'\nsleep 60 &\necho $! >"+pidFile+"\nexit 3"),
		source:  "kernel", clock: clock.RealClock{},
	}.follow(t.Context(), stamp.Add(-time.Second))
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
	deadline := time.After(10 * time.Second)
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
	out, ended := journal{command: "journalctl", directory: directory, source: "fixture", clock: clock.RealClock{}}.follow(ctx, from)
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
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}
