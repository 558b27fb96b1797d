package systemlog

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestEntriesOfTheJournalAreCountedAsByNPD(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_000)
	entries := func(messages ...string) string { // a second apart, the last a second ago
		text := "cat <<'END'\n"
		for i, message := range messages {
			text += journalLine(now.Add(time.Duration(i-len(messages))*time.Second), message) + "\n"
		}
		return text + "END"
	}
	started := CountOptions{Pattern: `Started (Kubernetes kubelet|kubelet.service|kubelet.service - .*).`,
		RevertPattern: `Stopping (Kubernetes kubelet|kubelet.service|kubelet.service - .*)...`}
	for name, tc := range map[string]struct {
		options CountOptions
		all     string // what journalctl prints
		last    string // and for the last entry of the journal
		count   int
		err     string
	}{
		"matches":                  {CountOptions{Pattern: "a+"}, entries("aa", "b", "xa", "ax"), hang, 2, ""},
		"starts less stops":        {started, entries("Started kubelet.service.", "Stopping kubelet.service...", "Started kubelet.service - The kubelet.", "Started sshd.service."), hang, 1, ""},
		"more stops than starts":   {started, entries("Stopping kubelet.service..."), hang, -1, ""},
		"over several lines":       {CountOptions{Pattern: `a\nb`}, entries("a", "b", "b", "a", "b"), hang, 2, ""},
		"an empty pattern":         {CountOptions{}, entries("a", "", "b"), hang, 3, ""},
		"before the lookback":      {CountOptions{Pattern: "a", Lookback: "2500ms"}, entries("a", "a", "a", "a"), hang, 2, ""},
		"no lookback":              {CountOptions{Pattern: "a", Lookback: "none"}, entries("a"), hang, 0, `log-counter: --lookback: "none" is not accepted`},
		"before the delay":         {CountOptions{Pattern: "a", Delay: "9m58500ms"}, entries("a", "a", "a"), hang, 1, ""},
		"written meanwhile":        {CountOptions{Pattern: "a"}, "cat <<'END'\n" + journalLine(now.Add(time.Second), "a") + "\nEND", hang, 0, ""},
		"what is no entry":         {CountOptions{Pattern: "a"}, "echo '-- Boot --'; " + entries("a"), hang, 1, ""},
		"none of that source":      {CountOptions{Pattern: "a"}, "", "case $* in *SYSLOG_IDENTIFIER=*) ;; *) " + `echo '` + journalLine(now, "of another") + `'` + " ;; esac", 0, ""},
		"none at all":              {CountOptions{Pattern: "a"}, "", "", 0, "the journal has no entry at all"},
		"a journal that is broken": {CountOptions{Pattern: "a"}, "echo 'No such file' >&2; exit 1", hang, 0, `could not read the journal: exit status 1; it said "No such file"`},
		"a pattern that is none":   {CountOptions{Pattern: "("}, "", "", 0, "log-counter: --pattern: error parsing regexp"},
	} {
		t.Run(name, func(t *testing.T) {
			o := tc.options
			o.Source, o.Journalctl, o.Clock = "systemd", fakeJournalctl(t, tc.all+"\n:", tc.last+"\n:"), clocktesting.NewFakeClock(now)
			if tc.err != "" {
				o.Journalctl = fakeJournalctl(t, tc.all, tc.last+"\n:")
			}
			if o.Lookback == "" {
				o.Lookback = "5m"
			}
			o.uptime = func() (time.Duration, error) { return 10 * time.Minute, nil }
			count, err := Count(t.Context(), o)
			if tc.err == "" && (err != nil || count != tc.count) {
				t.Errorf("got %d, %v; want %d", count, err, tc.count)
			}
			if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got %v, want %q", err, tc.err)
			}
		})
	}
}

func TestACounterAsksForItsSourceAndEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	journalctl := filepath.Join(dir, "journalctl")
	must(t, os.WriteFile(journalctl, []byte("#!/bin/sh\necho $* >"+dir+"/args.new; mv "+dir+"/args.new "+dir+"/args; exec sleep 1000\n"), 0o700))
	ended := make(chan error, 1)
	go func() {
		_, err := Count(ctx, CountOptions{Source: "dockerd", Directory: dir, Lookback: "5m", Journalctl: journalctl,
			Clock: clocktesting.NewFakeClock(time.UnixMicro(1700000300000001)), uptime: func() (time.Duration, error) { return time.Hour, nil }})
		ended <- err
	}()
	var args []byte
	for len(args) == 0 {
		args, _ = os.ReadFile(filepath.Join(dir, "args")) // until it is there
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("it ended without an error")
	}
	want := "--output=json --no-pager --quiet --directory=" + dir + " --all --output-fields=MESSAGE --since=@1700000000.000001 SYSLOG_IDENTIFIER=dockerd"
	if got := strings.TrimSpace(string(args)); got != want {
		t.Errorf("journalctl got %s\nwant %s", got, want)
	}
}
