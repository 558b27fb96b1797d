package runner

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/runner/command"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/test/bmc"
	"github.com/nodemend/nodemend/test/process"
)

// newTestRemains asks this place, with a root directory of its own.
func newTestRemains(t *testing.T, journal ...string) *remains {
	t.Helper()
	dir := t.TempDir()
	proc, err := process.OwnProc(dir)
	must(t, err)
	run := filepath.Join(dir, "run")
	must(t, os.Mkdir(run, 0o700))
	return &remains{
		root: t.TempDir(), journal: journal, clock: clock.RealClock{},
		command: command.New(command.Options{Execution: command.Direct, Dir: run, HostProc: proc}),
		vetoed:  func(context.Context, remedy.Order) string { return "" },
		bmc:     func() (eventLog, error) { return nil, fs.ErrNotExist },
	}
}

// script is a journalctl that does something else.
func script(t *testing.T, lines string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journalctl")
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+lines), 0o700)) //nolint:gosec // it is executed
	return path
}

// lastHour has an action of a name of its own: what is asked by it runs in a control group of the machine.
var lastHour = endedBoot{action: fmt.Sprintf("worker-1-%d", os.Getpid()), bootID: deadBoot, now: thisBoot, since: time.Hour}

func TestTheLastLinesOfTheJournalAreThoseOfTheDeadBoot(t *testing.T) {
	redacting := lastHour
	redacting.output = &v1alpha1.OutputPolicy{Redact: []string{`token=\S+`}}
	for name, test := range map[string]struct {
		of        endedBoot
		script    string
		text      string // that it has
		problem   string
		truncated bool
	}{
		"asked by the ID of the boot": {of: lastHour, script: `echo "$@"`, text: "--boot=0000000000004000800000000000000a --lines=60"},
		"redacted":                    {of: redacting, script: `echo "login token=abc ok"`, text: "login *** ok"},
		"huge":                        {of: lastHour, script: `yes "a line of many" | head -n 100000; echo the last`, text: "the last", truncated: true},
		"no such boot":                {of: lastHour, script: `echo "No such boot ID in journal" >&2; exit 1`, text: "No such boot", problem: "exit status 1"},
		"not kept across boots":       {of: lastHour, script: `exit 0`, problem: "Storage=persistent"},
	} {
		t.Run(name, func(t *testing.T) {
			text, truncated, err := newTestRemains(t, script(t, test.script)).lastLines(t.Context(), test.of)
			if !strings.Contains(text, test.text) || truncated != test.truncated || len(text) > 4<<10 {
				t.Errorf("got %q, truncated %t", text, truncated)
			}
			if (err != nil) != (test.problem != "") || err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("the problem is %v, want %q", err, test.problem)
			}
		})
	}
}

func TestWhatTheNodesOwnerDeniesIsNotAsked(t *testing.T) {
	h := newTestRemains(t, script(t, "echo asked"))
	h.vetoed = func(_ context.Context, o remedy.Order) string {
		return "denied: " + o.Step.Command.Argv[0]
	}
	if text, _, err := h.lastLines(t.Context(), lastHour); text != "" || err == nil || err.Error() != "denied: "+h.journal[0] {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestAJournalThatHangsIsGivenUpWithTheRunner(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	begun := filepath.Join(t.TempDir(), "begun")
	must(t, unix.Mkfifo(begun, 0o600))
	go func() {
		_, _ = os.ReadFile(begun)
		stop()
	}()
	h := newTestRemains(t, script(t, "echo so far; : >"+begun+"; exec sleep 600"))
	if _, _, err := h.lastLines(ctx, lastHour); err == nil {
		t.Error("nothing is said of it")
	}
	h.journal = []string{script(t, "echo again")} // and it has left nothing in the way
	if text, _, err := h.lastLines(t.Context(), lastHour); err != nil || text != "again\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestWhatSystemdPstoreSaysToHaveMoved(t *testing.T) {
	got := movedFiles(`PStore dmesg-efi-169 moved to /var/lib/systemd/pstore/169/001/dmesg-efi-169
PStore dmesg-efi-169 moved to /var/lib/systemd/pstore/169/001/dmesg-efi-169
PStore x moved to /var/lib/systemd/pstore/../../../../etc/shadow
PStore y moved to /etc/shadow
PStore z.
`)
	if want := []string{"var/lib/systemd/pstore/169/001/dmesg-efi-169"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// deadBegan is when the dead boot began, as listBoots says.
var deadBegan = testNow.Add(-time.Hour)

// listBoots is a journal that knows the boots, as systemd writes them down before version 254 and since.
var listBoots = fmt.Sprintf(`case "$*" in *--list-boots*) echo " -1 %s Sun %s UTC—Sun %s UTC"; echo "  0 %s Sun %[3]s UTC Sun %[3]s UTC"; exit;; esac
`, plain(deadBoot), deadBegan.Format(time.DateTime), testNow.Format(time.DateTime), plain(thisBoot))

func TestWhatTheKernelKept(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("a secret"), 0o600))
	const archive, own = "/var/lib/systemd/pstore/", "/sys/fs/pstore/"
	said := func(names ...string) (script string) {
		for _, name := range names {
			script += "echo PStore x moved to " + archive + name + "\n"
		}
		return script
	}
	redacting := lastHour
	redacting.output = &v1alpha1.OutputPolicy{Redact: []string{`token=\S+`}}
	unknown := lastHour
	unknown.bootID = "00000000-0000-4000-8000-00000000000c"
	before, after := deadBegan.Add(-time.Second), deadBegan.Add(time.Hour)
	for name, test := range map[string]struct {
		of      endedBoot
		files   map[string]string
		at      map[string]time.Time // of files; else they are of now
		links   map[string]string
		said    string
		want    string
		problem string
	}{
		"nothing":                           {of: lastHour},
		"not moved yet, in parts":           {of: lastHour, files: map[string]string{own + "dmesg-efi-16901001": "Panic#1 Part1\nthe end\n", own + "dmesg-efi-16902001": "Panic#1 Part2\nbefore"}, want: "--- " + own + "dmesg-efi-16902001\nPanic#1 Part2\nbefore\n--- " + own + "dmesg-efi-16901001\nPanic#1 Part1\nthe end\n"},
		"moved":                             {of: lastHour, files: map[string]string{archive + "dmesg-ramoops-0": "panic"}, said: said("dmesg-ramoops-0"), want: "--- " + archive + "dmesg-ramoops-0\npanic\n"},
		"of an earlier crash":               {of: lastHour, files: map[string]string{archive + "dmesg-ramoops-1": "of last year"}},
		"put together by systemd":           {of: lastHour, files: map[string]string{archive + "1/001/dmesg.txt": "whole", archive + "1/001/dmesg-efi-1": "part", archive + "1/001/dmesg-efi-2": "part"}, said: said("1/001/dmesg-efi-1", "1/001/dmesg-efi-2"), want: "--- " + archive + "1/001/dmesg.txt\nwhole\n"},
		"no crash, but the console":         {of: lastHour, files: map[string]string{own + "console-ramoops-0": "last words"}, want: "--- " + own + "console-ramoops-0\nlast words\n"},
		"a crash and the console":           {of: lastHour, files: map[string]string{own + "console-ramoops-0": "last words", own + "dmesg-ramoops-0": "panic"}, want: "--- " + own + "dmesg-ramoops-0\npanic\n"},
		"packed":                            {of: lastHour, files: map[string]string{own + "dmesg-efi-1.enc.z": "\x00"}},
		"redacted, and cut to be sure":      {of: redacting, files: map[string]string{own + "dmesg-efi-1": "Panic#1\ncmdline token=abc quiet\n"}, want: "--- " + own + "dmesg-efi-1\ncmdline *** quiet\n"},
		"of an earlier boot":                {of: lastHour, files: map[string]string{own + "dmesg-efi-1": "of last year"}, at: map[string]time.Time{own + "dmesg-efi-1": before}, problem: "1 records of " + own[:14] + " are of before that boot, which began at 2026-03-01T11:00:00Z, and are left out"},
		"of an earlier and of this one":     {of: lastHour, files: map[string]string{own + "dmesg-efi-1": "of last year", own + "dmesg-efi-2": "panic"}, at: map[string]time.Time{own + "dmesg-efi-1": before, own + "dmesg-efi-2": after}, want: "--- " + own + "dmesg-efi-2\npanic\n", problem: "1 records of"},
		"an earlier crash, and the console": {of: lastHour, files: map[string]string{own + "dmesg-ramoops-0": "of last year", own + "console-ramoops-0": "last words"}, at: map[string]time.Time{own + "dmesg-ramoops-0": before}, want: "--- " + own + "console-ramoops-0\nlast words\n", problem: "1 records of"},
		"nobody knows when it began": {of: unknown, files: map[string]string{own + "dmesg-efi-1": "panic"}, at: map[string]time.Time{own + "dmesg-efi-1": after}, want: "--- " + own + "dmesg-efi-1\npanic\n",
			problem: "whether the records of " + own[:14] + " are of that boot is not known, the newest one is of 2026-03-01T12:00:00Z: the journal has nothing of that boot"},
		"nobody knows what was moved": {of: unknown, files: map[string]string{archive + "dmesg-1": "panic"}, said: said("dmesg-1"), want: "--- " + archive + "dmesg-1\npanic\n",
			problem: "whether what systemd-pstore has moved is of that boot is not known: the journal has nothing of that boot"},
		"a link out of it":            {of: lastHour, links: map[string]string{own + "dmesg-1": secret}, problem: "reading " + own + "dmesg-1"},
		"a directory":                 {of: lastHour, files: map[string]string{own + "dmesg-1/x": ""}, problem: "no regular file"},
		"moved, and gone":             {of: lastHour, said: said("dmesg-2"), problem: "no such file"},
		"the journal does not answer": {of: lastHour, said: "exit 3", files: map[string]string{own + "dmesg-1": "panic"}, want: "--- " + own + "dmesg-1\npanic\n", problem: "exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTestRemains(t, script(t, listBoots+test.said))
			for path, content := range test.files {
				must(t, os.MkdirAll(filepath.Dir(h.root+path), 0o755))
				must(t, os.WriteFile(h.root+path, []byte(content), 0o600))
				if at, has := test.at[path]; has {
					must(t, os.Chtimes(h.root+path, at, at))
				}
			}
			for path, to := range test.links {
				must(t, os.MkdirAll(filepath.Dir(h.root+path), 0o755))
				must(t, os.Symlink(to, h.root+path))
			}
			got, _, err := h.pstore(t.Context(), test.of)
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if (err != nil) != (test.problem != "") || err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("the problem is %v, want %q", err, test.problem)
			}
			for path := range test.files { // nothing is deleted, nor moved
				_, err := os.Stat(h.root + path)
				must(t, err)
			}
		})
	}
}

// The boot after the dead one has panicked, too, before its runner had collected anything.
func TestTheCrashOfALaterBootIsNotToldOfTheDeadOne(t *testing.T) {
	const archive, own = "/var/lib/systemd/pstore/", "/sys/fs/pstore/"
	const between = "0000000000004000800000000000000c"
	began := deadBegan.Add(10 * time.Minute)
	boots := fmt.Sprintf(`case "$*" in
*--list-boots*) echo " -2 %s Sun %s UTC Sun %[2]s UTC"; echo " -1 %s Sun %s UTC Sun %[4]s UTC"; echo "  0 %s Sun %s UTC Sun %[6]s UTC";;
*--boot=%[3]s*) echo PStore x moved to %[7]sfirst;;
*) echo PStore x moved to %[7]ssecond;;
esac
`, plain(deadBoot), deadBegan.Format(time.DateTime), between, began.Format(time.DateTime), plain(thisBoot), testNow.Format(time.DateTime), archive)
	h := newTestRemains(t, script(t, boots))
	for path, at := range map[string]time.Time{archive + "first": testNow, archive + "second": testNow, own + "dmesg-efi-1": began.Add(-time.Second), own + "dmesg-efi-2": began.Add(time.Second)} {
		must(t, os.MkdirAll(filepath.Dir(h.root+path), 0o755))
		must(t, os.WriteFile(h.root+path, []byte("of "+filepath.Base(path)), 0o600))
		must(t, os.Chtimes(h.root+path, at, at))
	}
	text, _, err := h.pstore(t.Context(), lastHour)
	if strings.Contains(text, "second") || strings.Contains(text, "efi-2") || !strings.Contains(text, "of dmesg-efi-1") || err == nil || !strings.Contains(err.Error(), "1 boots lie between") {
		t.Errorf("got %q, %v", text, err)
	}
	must(t, os.RemoveAll(h.root+own))
	if text, _, err = h.pstore(t.Context(), lastHour); text != "--- "+archive+"first\nof first\n" || err == nil {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestHugeAndManyFilesOfPstoreAreBounded(t *testing.T) {
	h := newTestRemains(t, script(t, listBoots))
	dir := filepath.Join(h.root, pstoreDir)
	must(t, os.MkdirAll(dir, 0o755))
	for i := range maxPstore + 10 {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("dmesg-%03d", i)), []byte("x"), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(dir, "dmesg-000"), []byte(strings.Repeat("a line\n", 1<<20)+"the end"), 0o600))
	text, truncated, err := h.pstore(t.Context(), lastHour)
	if len(text) > 4<<10 || !truncated || !strings.HasSuffix(text, "the end\n") || err == nil || !strings.Contains(err.Error(), "10 more files") {
		t.Errorf("got %d bytes, %.20q, truncated %t, %v", len(text), text, truncated, err)
	}
}

func TestTheEventsOfABMCAreNewByItsOwnClock(t *testing.T) {
	const day = 24 * 3600
	date := uint32(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC).Unix()) // which it is not
	log := func(b *bmc.BMC, at uint32, number uint8) {
		b.SetClock(at)
		b.Log(bmc.Event{Type: 0x0c, Number: number, Data: [3]uint8{1, 0xff, 0xff}})
	}
	b := bmc.New(bmc.Config{})
	log(b, date-day, 0x01)
	log(b, date-7000, 0x02) // within an hour before the claim, which was an hour ago
	log(b, date-60, 0x03)
	b.SetClock(date)
	h := newTestRemains(t)
	h.bmc = func() (eventLog, error) { return device.New("test", b.Transport(), clock.RealClock{}), nil }
	text, truncated, err := h.events(t.Context(), lastHour)
	if err != nil || truncated || strings.Contains(text, "#0x01") || !strings.Contains(text, "2000-12-31T22:03:20Z Memory #0x02: Uncorrectable ECC Asserted, raw ") || !strings.Contains(text, "#0x03") {
		t.Errorf("got %q, truncated %t, %v", text, truncated, err)
	}
}

func TestManyEventsOfABMCAreBounded(t *testing.T) {
	b := bmc.New(bmc.Config{})
	b.SetClock(uint32(testNow.Unix()))
	for range 200 {
		b.Log(bmc.Event{Type: 0x0c, Number: 7, Data: [3]uint8{1, 0xff, 0xff}})
	}
	b.Log(bmc.Event{Type: 0x0c, Number: 9, Data: [3]uint8{1, 0xff, 0xff}})
	h := newTestRemains(t)
	h.bmc = func() (eventLog, error) { return device.New("test", b.Transport(), clock.RealClock{}), nil }
	text, truncated, err := h.events(t.Context(), lastHour)
	if err != nil || !truncated || len(text) > 4<<10 || !strings.Contains(text, "#0x09") {
		t.Errorf("got %d bytes, truncated %t, %v", len(text), truncated, err)
	}
}

func TestWhichEventsOfABMCAreNew(t *testing.T) {
	const set = 0x40000000
	for name, test := range map[string]struct {
		stamps []uint32
		now    uint32
		want   int
	}{
		"none":                           {now: set},
		"all are old":                    {[]uint32{set - 9000, set - 8000}, set, 2},
		"some are new":                   {[]uint32{set - 9000, set - 3600, set}, set, 1},
		"the clock was set back":         {[]uint32{set - 9000, set + 9000}, set, 1},
		"it was set in between":          {[]uint32{set - 9000, 12, set - 10}, set, 1},
		"it was never set":               {[]uint32{10, 20000, 20010}, 20020, 1},
		"it has lost its time since":     {[]uint32{set - 10, 5}, 10, 0},
		"an old one after it was set on": {[]uint32{set - 10, set - 9000}, set, 2},
	} {
		var events []ipmi.Event
		for _, stamp := range test.stamps {
			events = append(events, ipmi.Event{Timestamp: stamp})
		}
		if got := newEvents(events, test.now, time.Hour); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}

func TestANodeWithoutABMCSaysSo(t *testing.T) {
	if _, _, err := newTestRemains(t).events(t.Context(), lastHour); err == nil || !strings.Contains(err.Error(), "no /dev/ipmi0") {
		t.Errorf("got %v", err)
	}
}

// TestAJournalOfTwoBoots reads a journal that is real, but for who has written it: of a boot that has ended,
// and of one after it, whose clock went back.
func TestAJournalOfTwoBoots(t *testing.T) {
	const importer = "/usr/lib/systemd/systemd-journal-remote"
	if _, err := os.Stat(importer); err != nil {
		t.Skipf("%v: install systemd-journal-remote", err)
	}
	if _, err := os.Stat(journalctl); err != nil {
		t.Skip(err)
	}
	var exported strings.Builder
	entry := func(boot string, at time.Time, fields ...string) {
		fmt.Fprintf(&exported, "__CURSOR=s=1;i=%x\n__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\n_MACHINE_ID=%032x\n%s\n\n",
			exported.Len()+1, at.UnixMicro(), exported.Len()+1, strings.ReplaceAll(boot, "-", ""), 1, strings.Join(fields, "\n"))
	}
	for i := range 100 {
		entry(deadBoot, testNow.Add(time.Duration(i)*time.Second), "SYSLOG_IDENTIFIER=kernel", fmt.Sprintf("MESSAGE=line %d of the dead boot", i))
	}
	const moved = "MESSAGE=PStore dmesg-ramoops-0 moved to /var/lib/systemd/pstore/"
	entry(thisBoot, testNow.Add(-time.Hour), "SYSLOG_IDENTIFIER=systemd-pstore", "_UID=0", moved+"dmesg-ramoops-0")
	entry(thisBoot, testNow.Add(-time.Hour), "SYSLOG_IDENTIFIER=systemd-pstore", "_UID=1000", moved+"dmesg-forged")
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), importer, "--output="+filepath.Join(dir, "two.journal"), "-")
	cmd.Stdin = strings.NewReader(exported.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	h := newTestRemains(t, journalctl, "--directory="+dir)
	text, truncated, err := h.lastLines(t.Context(), lastHour)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if err != nil || truncated || len(lines) != journalLines || !strings.HasSuffix(lines[len(lines)-1], "kernel: line 99 of the dead boot") {
		t.Errorf("%d lines, truncated %t, %v: %s", len(lines), truncated, err, text)
	}
	archive := filepath.Join(h.root, pstoreArchive)
	must(t, os.MkdirAll(archive, 0o755))
	for _, name := range []string{"dmesg-ramoops-0", "dmesg-forged"} {
		must(t, os.WriteFile(filepath.Join(archive, name), []byte("of "+name), 0o600))
	}
	if text, _, err = h.pstore(t.Context(), lastHour); err != nil || text != "--- /"+pstoreArchive+"/dmesg-ramoops-0\nof dmesg-ramoops-0\n" {
		t.Errorf("got %q, %v", text, err)
	}
	for name, at := range map[string]time.Time{"dmesg-efi-1": testNow.Add(-time.Second), "dmesg-efi-2": testNow.Add(time.Minute)} {
		must(t, os.MkdirAll(filepath.Join(h.root, pstoreDir), 0o755))
		path := filepath.Join(h.root, pstoreDir, name)
		must(t, os.WriteFile(path, []byte("of "+name), 0o600))
		must(t, os.Chtimes(path, at, at))
	}
	if text, _, err = h.pstore(t.Context(), lastHour); strings.Contains(text, "efi-1") || !strings.Contains(text, "of dmesg-efi-2") || err == nil ||
		!strings.Contains(err.Error(), "began at "+testNow.Format(time.RFC3339)) {
		t.Errorf("got %q, %v", text, err)
	}
	other := lastHour
	other.bootID = "00000000-0000-4000-8000-00000000000c"
	if text, _, err = h.lastLines(t.Context(), other); err == nil {
		t.Errorf("of a boot that the journal does not have: %q", text)
	}
}
