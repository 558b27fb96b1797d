package systemlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

// fakeKmsg is read like /dev/kmsg: one record per read(2), EAGAIN after the last.
type fakeKmsg struct {
	*kmsg
	t      *testing.T
	socket int // where records are written
	number int
}

func newFakeKmsg(t *testing.T) *fakeKmsg {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	device := os.NewFile(uintptr(pair[1]), "kmsg")
	t.Cleanup(func() {
		_ = device.Close() // it may have been read
		must(t, unix.Close(pair[0]))
	})
	k := newKmsg(clock.RealClock{})
	k.open = func() (*os.File, error) { return device, nil }
	return &fakeKmsg{k, t, pair[0], 0}
}

// sinceBoot is the age of a record of the boot, before which there is none.
func sinceBoot(t *testing.T) time.Duration {
	t.Helper()
	var since unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &since))
	return time.Duration(since.Nano())
}

// write writes a record that is stamped age ago.
func (f *fakeKmsg) write(message string, age time.Duration) {
	f.t.Helper()
	f.stamp(message, sinceBoot(f.t)-age)
}

// stamp writes a record that is stamped so long after the boot.
func (f *fakeKmsg) stamp(message string, after time.Duration) {
	f.t.Helper()
	f.number++
	_, err := fmt.Fprintf(descriptor(f.socket), "6,%d,%d,-;%s\n", f.number, after.Microseconds(), message)
	must(f.t, err)
}

type descriptor int

func (d descriptor) Write(p []byte) (int, error) { return unix.Write(int(d), p) }

// follow reads the log until the test ends.
func (f *fakeKmsg) follow(from time.Time) <-chan entry {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	out, ended := make(chan entry), make(chan error, 1)
	go func() { ended <- f.read(ctx, from, out, nil) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			f.t.Errorf("ended with %v", err)
		}
	})
	return out
}

func expectLine(t *testing.T, out <-chan entry, want string) {
	t.Helper()
	if e := <-out; e.log == nil || e.log.Message != want {
		t.Errorf("got %+v, want the line %q", e, want)
	}
}

func expectReadSince(t *testing.T, out <-chan entry, earliest time.Time) {
	t.Helper()
	if e := <-out; e.log != nil || e.readUpTo.Before(earliest) || time.Now().Before(e.readUpTo) {
		t.Errorf("got %+v, want that all was read up to a time since %v", e, earliest)
	}
}

func TestTheKernelLogIsVouchedForWhenItHasNoMore(t *testing.T) {
	f := newFakeKmsg(t)
	lookback := sinceBoot(t) / 2
	from := time.Now().Add(-lookback)
	f.stamp("before the lookback", 0)
	f.write("a", lookback/2)
	f.write("b", 0)
	began := time.Now()
	out := f.follow(from)
	expectLine(t, out, "a")
	if e := <-out; e.log == nil || e.log.Message != "b" || began.Sub(e.log.Timestamp).Abs() > 10*time.Second {
		t.Errorf("got %+v, want the line b of %v", e, began)
	}
	expectReadSince(t, out, began)
	for _, silence := range []time.Duration{0, 2 * pollInterval} { // vouched for anew
		<-time.After(silence)
		expectReadSince(t, out, began)
	}
	f.stamp("c", 0) // the kernel's clock is not ours: it came just now
	for e := range out {
		if e.log == nil {
			continue
		}
		if e.log.Message != "c" {
			t.Errorf("got %+v", e.log)
		}
		break
	}
	expectReadSince(t, out, began)
}

func TestTheKernelLogIsVouchedForBetweenLinesThatKeepComing(t *testing.T) {
	f := newFakeKmsg(t)
	out := f.follow(time.Now())
	ticker := time.NewTicker(pollInterval / 10)
	defer ticker.Stop()
	lines, proofs := 0, 0
	for range 50 {
		<-ticker.C
		f.write("tick", 0)
		for since := lines; lines == since; {
			if e := <-out; e.log != nil {
				lines++
			} else {
				proofs++
			}
		}
	}
	if proofs < lines/2 {
		t.Errorf("vouched for %d times between %d lines", proofs, lines)
	}
}

func TestLinesAreIgnoredDuringTheDelay(t *testing.T) {
	f := newFakeKmsg(t)
	began := time.Now()
	out := f.follow(began.Add(time.Hour))
	expectReadSince(t, out, began)
	f.write("early", 0)
	for range 3 {
		expectReadSince(t, out, began)
	}
}

func TestReadingGoesOnAfterTheKernelLogWasOverwritten(t *testing.T) {
	f := newFakeKmsg(t)
	errs := []error{unix.EPIPE, unix.EINTR, unix.EPIPE}
	f.fetch = func(fd int, p []byte) (int, error) {
		if len(errs) > 0 {
			err := errs[0]
			errs = errs[1:]
			return -1, err
		}
		return unix.Read(fd, p)
	}
	f.write("a", 0)
	f.number = 1000
	f.write("b", 0)
	began := time.Now()
	out := f.follow(began.Add(-time.Minute))
	expectLine(t, out, "a")
	expectLine(t, out, "b")
	expectReadSince(t, out, began)
}

func TestAKernelLogThatCanNotBeReadIsAnError(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(k *kmsg)
		want   string
	}{
		"none":              {func(k *kmsg) { k.open = func() (*os.File, error) { return os.Open("/nonexistent/kmsg") } }, "needs /dev/kmsg of the host"},
		"a file":            {func(k *kmsg) { k.open = func() (*os.File, error) { return os.Open("kmsg.go") } }, "reading the kernel log"},
		"the null device":   {func(k *kmsg) { k.open = func() (*os.File, error) { return os.Open("/dev/null") } }, "reading the kernel log"},
		"a record too long": {func(k *kmsg) { k.fetch = func(int, []byte) (int, error) { return -1, unix.EINVAL } }, "invalid argument"},
		"an end":            {func(k *kmsg) { k.fetch = func(int, []byte) (int, error) { return 0, nil } }, "it has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeKmsg(t)
			tc.change(f.kmsg)
			if err := f.read(t.Context(), time.Now(), make(chan entry), nil); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestARecordKeepsItsTimeStampWhenTheLogIsOpenedAgain(t *testing.T) {
	first := newFakeKmsg(t)
	var stamps []time.Time
	for range 2 {
		f := newFakeKmsg(t)
		first.open = f.open
		_, err := descriptor(f.socket).Write([]byte("6,1,1000000,-;x\n"))
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		out, ended := make(chan entry), make(chan error, 1)
		go func() { ended <- first.read(ctx, time.Time{}, out, nil) }()
		stamps = append(stamps, (<-out).log.Timestamp)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	}
	if !stamps[0].Equal(stamps[1]) {
		t.Errorf("stamped %v, then %v", stamps[0], stamps[1])
	}
}

func TestTheKernelLogIsReadOrAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := make(chan entry)
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- newKmsg(clock.RealClock{}).read(ctx, began.Add(-24*time.Hour), out, nil) }()
	for {
		select {
		case err := <-ended:
			t.Logf("no kernel log here: %v", err)
			return
		case e := <-out:
			if e.log != nil {
				continue
			}
			if e.readUpTo.Before(began) {
				t.Errorf("read up to %v, want a time since %v", e.readUpTo, began)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
			return
		}
	}
}
