package systemlog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/node-problem-detector/pkg/systemlogmonitor/logwatchers"
	watchertypes "k8s.io/node-problem-detector/pkg/systemlogmonitor/logwatchers/types"
	"k8s.io/utils/clock"
)

var isoConfig = map[string]string{keyTimestamp: `^\S+`, keyMessage: `kernel: (.*)`, keyTimestampFormat: time.RFC3339Nano}

// reading is a file that is read in a synctest bubble.
type reading struct {
	t *testing.T

	mu       sync.Mutex
	messages []string
	readUpTo time.Time
	err      error
}

func readFile(t *testing.T, path string, from time.Time, skip ...string) *reading {
	t.Helper()
	return follow(t, file{path: path, skip: skip, translator: newTranslator(isoConfig, clock.RealClock{}), clock: clock.RealClock{}}, from)
}

func follow(t *testing.T, f file, from time.Time) *reading {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	r := &reading{t: t}
	out := make(chan entry)
	go func() {
		defer close(out)
		err := f.read(ctx, from, out, nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err = err
	}()
	go func() {
		for e := range out {
			r.mu.Lock()
			if e.log != nil {
				r.messages = append(r.messages, e.log.Message)
			} else {
				r.readUpTo = e.readUpTo
			}
			r.mu.Unlock()
		}
	}()
	t.Cleanup(cancel)
	return r
}

// expect waits for two polls and expects these messages since the last call.
func (r *reading) expect(want ...string) {
	r.t.Helper()
	<-time.After(2 * pollInterval)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.messages, want) {
		r.t.Errorf("got messages %q, want %q", r.messages, want)
	}
	r.messages = nil
}

// state returns how far the file was read, and the error that reading has ended
// with.
func (r *reading) state() (readUpTo time.Time, err error) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readUpTo, r.err
}

func stamped(messages ...string) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(time.Now().Format(time.RFC3339Nano) + " kernel: " + m + "\n")
	}
	return b.String()
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAFileIsReadFromTheLookbackOnAndFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "kern.log")
		appendTo(t, path, stamped("old"))
		<-time.After(time.Hour)
		from := time.Now()
		appendTo(t, path, stamped("recent")+"garbage\n"+stamped("audit: skipped"))
		<-time.After(time.Minute)
		r := readFile(t, path, from, "audit:")
		r.expect("recent")
		appendTo(t, path, strings.TrimSuffix(stamped("in two parts"), "parts\n"))
		r.expect()
		appendTo(t, path, "pieces\n"+stamped("next"))
		r.expect("in two pieces", "next")
	})
}

func TestAFileVouchesOnlyForTheTimeBeforeItWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "kern.log")
		appendTo(t, path, stamped("a"))
		began := time.Now()
		out := make(chan entry)
		ended := make(chan error)
		f := file{path: path, translator: newTranslator(isoConfig, clock.RealClock{}), clock: clock.RealClock{}}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- f.read(ctx, began, out, nil) }()
		<-time.After(10 * time.Second) // reading takes that long
		if e := <-out; e.log == nil {
			t.Error("vouched for a line that was not handed over")
		}
		for _, want := range []time.Duration{0, 10*time.Second + pollInterval} {
			if e := <-out; e.log != nil || e.readUpTo.Sub(began) != want {
				t.Errorf("got %+v, want that it was read up to %s", e, want)
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestALongFileWithNothingOfInterestShowsThatReadingGetsOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kern.log")
	appendTo(t, path, strings.Repeat("2001-01-01T00:00:00Z kernel: old\n", 2*progressLines))
	out := make(chan entry)
	ended := make(chan error)
	f := file{path: path, translator: newTranslator(isoConfig, clock.RealClock{}), clock: clock.RealClock{}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- f.read(ctx, time.Now(), out, nil) }()
	for range 2 {
		if e := <-out; e != (entry{}) {
			t.Errorf("got %+v, want only that it got on", e)
		}
	}
	if e := <-out; e.log != nil || e.readUpTo.IsZero() {
		t.Errorf("got %+v, want that the log was read", e)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestRotationLosesNoLine(t *testing.T) {
	for name, rotate := range map[string]func(t *testing.T, path string){
		"renamed, with a late line in the old one": func(t *testing.T, path string) {
			rename(t, path, path+".1")
			appendTo(t, path, stamped("c"))
			appendTo(t, path+".1", strings.TrimSuffix(stamped("b"), "b\n"))
			<-time.After(pollInterval) // the new one is seen
			appendTo(t, path+".1", "b\n")
		},
		"renamed, and made anew after a while": func(t *testing.T, path string) {
			rename(t, path, path+".1")
			appendTo(t, path+".1", stamped("b"))
			<-time.After(5 * time.Second)
			appendTo(t, path, stamped("c"))
		},
		"copied and truncated": func(t *testing.T, path string) {
			appendTo(t, path, stamped("b"))
			<-time.After(2 * pollInterval)
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			appendTo(t, path, stamped("c"))
		},
		"without a newline at the end of the old one": func(t *testing.T, path string) {
			appendTo(t, path, strings.TrimSuffix(stamped("b"), "\n"))
			rename(t, path, path+".1")
			appendTo(t, path, stamped("c"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "kern.log")
				appendTo(t, path, stamped("a"))
				r := readFile(t, path, time.Now())
				r.expect("a")
				rotate(t, path)
				<-time.After(2 * pollInterval)
				r.expect("b", "c")
				appendTo(t, path, stamped("d"))
				r.expect("d")
			})
		})
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestAFileThatIsMissingIsNotVouchedForAndThenAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "kern.log")
		appendTo(t, path, "")
		r := readFile(t, path, time.Now())
		r.expect()
		rename(t, path, path+".1")
		renamed := time.Now()
		<-time.After(maxMissing - time.Second)
		r.expect()
		if readUpTo, err := r.state(); readUpTo.After(renamed) || err != nil {
			t.Errorf("missing for %s: read up to %s later, error %v", maxMissing, readUpTo.Sub(renamed), err)
		}
		<-time.After(2 * time.Second)
		if _, err := r.state(); err == nil || !strings.Contains(err.Error(), "the log is missing for 10") {
			t.Errorf("got error %v", err)
		}
	})
}

func TestWhatIsNoReadableLogIsAnError(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(t *testing.T, path string)
		want string
	}{
		"nothing":      {func(*testing.T, string) {}, "no such file"},
		"a directory":  {func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, "no regular file"},
		"a named pipe": {func(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o600)) }, "no regular file"},
		"a file of another format": {func(t *testing.T, path string) {
			appendTo(t, path, strings.Repeat("1.5 kernel: x\n", maxUndated))
		}, "none of its 100 lines has a time stamp"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "kern.log")
				tc.make(t, path)
				r := readFile(t, path, time.Now())
				r.expect()
				if readUpTo, err := r.state(); err == nil || !strings.Contains(err.Error(), tc.want) || !readUpTo.IsZero() {
					t.Errorf("got error %v, read up to %v; want %q", err, readUpTo, tc.want)
				}
			})
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAStampWithoutYearIsOfTheYearThatMakesItRecent(t *testing.T) {
	newYear := time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC)
	for stamp, want := range map[string]int{"Jan  1 00:00:10": 2026, "Dec 31 23:59:59": 2025, "Jan  1 12:00:00": 2026, "Jun  1 00:00:00": 2025} {
		parsed, err := time.Parse(time.Stamp, stamp)
		must(t, err)
		if got := withYear(parsed, newYear).Year(); got != want {
			t.Errorf("%s is of %d, want %d", stamp, got, want)
		}
	}
}

// The same file must give the same entries as with NPD's own watcher.
func TestLinesAreTranslatedLikeNPDDoes(t *testing.T) {
	now := time.Now().Format(time.Stamp)
	for name, tc := range map[string]struct {
		config map[string]string
		lines  []string
	}{
		"kernel": {
			map[string]string{keyTimestamp: "^.{15}", keyMessage: `kernel: \[.*\] (.*)`, keyTimestampFormat: "Jan _2 15:04:05"},
			[]string{now + " node kernel: [1.2] Killed process 1", now + " node systemd: x", "", "short", now + " node kernel: [ 3] task docker:7 blocked \r"},
		},
		"docker": {
			map[string]string{keyTimestamp: `^time="(\S*)"`, keyMessage: "msg=\"([^\n]*)\"", keyTimestampFormat: "2006-01-02T15:04:05.999999999-07:00"},
			[]string{`time="` + time.Now().Format("2006-01-02T15:04:05.999999999-07:00") + `" level=error msg="a \"quoted\" word" x="y"`, `time="never" msg="x"`},
		},
		"disk": {
			map[string]string{keyTimestamp: "^.{15}", keyMessage: "(?i)Currently unreadable.*sectors|(?i)Offline uncorrectable sectors", keyTimestampFormat: "Jan _2 15:04:05"},
			[]string{now + " node smartd: 128 Currently unreadable (pending) sectors", now + " node kernel audit: Offline uncorrectable sectors"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			appendTo(t, path, strings.Join(tc.lines, "\n")+"\n"+"the end\n")
			watcherConfig := watchertypes.WatcherConfig{
				Plugin: pluginFilelog, LogPath: path, PluginConfig: tc.config, Lookback: "10m", SkipList: []string{"audit:"},
			}
			watcher := logwatchers.GetLogWatcherOrDie(watcherConfig)
			logs, err := watcher.Watch()
			must(t, err)
			defer watcher.Stop()

			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			out := make(chan entry)
			f := newReader(Config{Schema: Schema{
				Plugin: watcherConfig.Plugin, LogPath: watcherConfig.LogPath, PluginConfig: watcherConfig.PluginConfig, SkipList: watcherConfig.SkipList,
			}}, Options{Clock: clock.RealClock{}})
			go func() { ended <- f(ctx, time.Now().Add(-10*time.Minute), out, nil) }()
			defer func() {
				cancel()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("ended with %v", err)
				}
			}()
			count := 0
			for e := <-out; e.log != nil; e = <-out {
				if want := <-logs; want.Message != e.log.Message || !want.Timestamp.Equal(e.log.Timestamp) {
					t.Errorf("got %+v, NPD has %+v", e.log, want)
				}
				count++
			}
			if count == 0 {
				t.Error("no line was compared")
			}
		})
	}
}
