package reboot

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// begun is when the orders of tests were made.
var begun = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const timeout = 10 * time.Minute

// steppedClock tells each timer that is set, so that a test knows what is waited
// for.
type steppedClock struct {
	*testingclock.FakeClock
	timers chan time.Duration
}

func (c steppedClock) NewTimer(d time.Duration) clock.Timer {
	timer := c.FakeClock.NewTimer(d)
	c.timers <- d
	return timer
}

func (c steppedClock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C() }

// scene is a machine that can't be rebooted.
type scene struct {
	*testing.T
	clock   steppedClock
	trigger *os.File // of the kernel's end of a named pipe
	reboot  *Reboot
	order   remedy.Order
}

func newScene(t *testing.T, method v1alpha1.RebootMethod) *scene {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "trigger")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	trigger, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = trigger.Close() })
	s := &scene{
		T:       t,
		clock:   steppedClock{FakeClock: testingclock.NewFakeClock(begun), timers: make(chan time.Duration, 100)},
		trigger: trigger,
	}
	bootID := filepath.Join(t.TempDir(), "boot_id")
	if err := os.WriteFile(bootID, []byte("boot-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.reboot = New(Options{RunDir: t.TempDir(), Trigger: pipe, BootIDPath: bootID, Clock: s.clock})
	s.reboot.opts.Sync = func() {}
	s.order = remedy.Order{
		Action: "node-a-1", UID: "uid-1", BootID: "boot-1", StartedAt: begun,
		Step:     v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: method}, Timeout: v1alpha1.Duration{Duration: timeout}},
		Prepared: remedy.Prepared{Execution: v1alpha1.Execution(method), Marks: method == v1alpha1.RebootSysRq},
	}
	return s
}

// read returns the next byte that the kernel gets.
func (s *scene) read() string {
	s.Helper()
	if err := s.trigger.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		s.Fatal(err)
	}
	var command [1]byte
	if _, err := s.trigger.Read(command[:]); err != nil {
		s.Fatal("nothing was written to the trigger: ", err)
	}
	return string(command[:])
}

// untouched checks that the kernel has got nothing more: the next byte is the
// test's own.
func (s *scene) untouched() {
	s.Helper()
	if _, err := s.trigger.WriteString("."); err != nil {
		s.Fatal(err)
	}
	if got := s.read(); got != "." {
		s.Fatalf("%q was written to the trigger", got)
	}
}

// waits checks that the next timers are for these times.
func (s *scene) waits(want ...time.Duration) {
	s.Helper()
	for _, d := range want {
		select {
		case got := <-s.clock.timers:
			if got != d {
				s.Fatalf("a timer of %s is set, want one of %s", got, d)
			}
		case <-time.After(10 * time.Second):
			s.Fatalf("no timer is set, want one of %s", d)
		}
	}
}

// start calls f, such as Execute, and returns its outcome in the channel.
func (s *scene) start(ctx context.Context, f func(context.Context, remedy.Order) *remedy.Outcome) <-chan *remedy.Outcome {
	outcome := make(chan *remedy.Outcome, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		outcome <- f(ctx, s.order)
	}()
	s.Cleanup(func() {
		s.clock.Step(24 * time.Hour)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			s.Error("it does not return")
		}
	})
	return outcome
}

// outcome waits for the outcome.
func (s *scene) outcome(from <-chan *remedy.Outcome) *remedy.Outcome {
	s.Helper()
	select {
	case outcome := <-from:
		return outcome
	case <-time.After(30 * time.Second):
		s.Fatal("no outcome in 30s")
		return nil
	}
}

// pending checks that there is no outcome yet.
func (s *scene) pending(from <-chan *remedy.Outcome) {
	s.Helper()
	select {
	case outcome := <-from:
		s.Fatalf("ended early: %+v", outcome)
	default:
	}
}
