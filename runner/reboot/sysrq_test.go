package reboot

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/runner/remedy"
)

func TestTheKernelIsAskedToSyncThenToUnmountThenToReset(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSysRq)
	var points []string
	ctx := remedy.WithPoints(t.Context(), func(point string) { points = append(points, point) })
	synced := make(chan struct{})
	s.reboot.opts.Sync = func() { close(synced) }
	outcome := s.start(ctx, s.reboot.Execute)

	s.waits(patience, patience, pause)
	<-synced
	if got := s.read(); got != "s" {
		t.Fatalf("first %q was written", got)
	}
	s.untouched()
	s.clock.Step(pause - 1)
	s.untouched()
	s.clock.Step(1)
	s.waits(patience, pause)
	if got := s.read(); got != "u" {
		t.Fatalf("then %q was written", got)
	}
	s.untouched()
	s.clock.Step(pause)
	s.waits(patience, timeout-2*pause)
	if got := s.read(); got != "b" {
		t.Fatalf("at last %q was written", got)
	}

	s.clock.Step(timeout - 2*pause - 1)
	s.pending(outcome)
	s.clock.Step(1)
	got := s.outcome(outcome)
	want := &remedy.Outcome{
		Reason: v1alpha1.ReasonRebootNotObserved,
		Message: "the kernel was asked to reset the machine (its file systems may be read-only now), and 10m0s later this node still runs " +
			"with boot ID boot-1: look at its console, and reset it by its BMC if need be",
		Result: &v1alpha1.ActionResult{
			Execution: v1alpha1.ExecutionSysRq,
			StartedAt: v1alpha1.NewMicroTime(begun), FinishedAt: v1alpha1.NewMicroTime(begun.Add(timeout)),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !slices.Equal(points, []string{"before-reboot", "before-reset", "after-reboot"}) {
		t.Errorf("points %v", points)
	}
	s.untouched()
}

func TestASequenceThatHasBegunIsNotInterrupted(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSysRq)
	ctx, cancel := context.WithCancel(t.Context())
	outcome := s.start(ctx, s.reboot.Execute)
	s.waits(patience, patience, pause)
	cancel()
	s.clock.Step(pause)
	s.waits(patience, pause)
	s.clock.Step(pause)
	if got := s.outcome(outcome); got != nil {
		t.Errorf("outcome %+v, want none: a later process adopts the order", got)
	}
	if got := s.read() + s.read() + s.read(); got != "sub" {
		t.Errorf("%q was written", got)
	}
}

func TestARunnerThatIsStoppedBeforeTheRebootDoesNotAskForIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, method := range []v1alpha1.RebootMethod{v1alpha1.RebootSysRq, v1alpha1.RebootSystemd} {
		s := newScene(t, method)
		got := s.outcome(s.start(ctx, s.reboot.Execute))
		if got == nil || got.Reason != v1alpha1.ReasonNotStarted || got.Result != nil {
			t.Errorf("%s: outcome %+v, want %s", method, got, v1alpha1.ReasonNotStarted)
		}
		s.untouched()
	}
}

func TestADiskThatHangsDoesNotHoldTheResetBack(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSysRq)
	hangs, thaw := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(thaw) })
	s.reboot.opts.Sync = func() { close(hangs); <-thaw }
	outcome := s.start(t.Context(), s.reboot.Execute)
	<-hangs
	s.waits(patience)
	s.untouched()
	s.clock.Step(patience)
	for range 2 {
		s.waits(patience, pause)
		s.clock.Step(pause)
	}
	s.waits(patience, timeout-patience-2*pause)
	s.clock.Step(timeout)
	got := s.outcome(outcome)
	if want := "(before that: syncing the disks: it did not return within 5s), and 10m0s later"; !strings.Contains(got.Message, want) {
		t.Errorf("message %q, want %q in it", got.Message, want)
	}
	if got := s.read() + s.read() + s.read(); got != "sub" {
		t.Errorf("%q was written", got)
	}
}

func TestAKernelThatDoesNotTakeTheCommandsIsGivenUpAtTheTimeout(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSysRq)
	// To open a pipe that nobody reads blocks.
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	s.reboot.opts.Trigger = pipe
	outcome := s.start(t.Context(), s.reboot.Execute)
	s.waits(patience)
	for range 2 {
		s.waits(patience)
		s.clock.Step(patience)
		s.waits(pause)
		s.clock.Step(pause)
	}
	s.waits(patience)
	s.clock.Step(patience)
	s.waits(timeout - 3*patience - 2*pause)
	s.clock.Step(timeout)
	got := s.outcome(outcome)
	if got.Reason != v1alpha1.ReasonRebootNotObserved ||
		!strings.Contains(got.Message, "(its file systems may be read-only now) (before that: writing 's': it did not return within 5s, writing 'u': it did not return within 5s), and 10m0s later") {
		t.Errorf("outcome %+v", got)
	}

	// Let the commands go, so that no goroutine is left.
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	if _, err := io.ReadFull(reader, make([]byte, 3)); err != nil {
		t.Error(err)
	}
}

func TestWhatFailsBeforeTheResetIsNoReasonNotToReset(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSysRq)
	pipe := s.reboot.opts.Trigger
	s.reboot.opts.Trigger = filepath.Join(t.TempDir(), "trigger")
	link(t, "/dev/full", s.reboot.opts.Trigger)
	outcome := s.start(t.Context(), s.reboot.Execute)
	s.waits(patience, patience, pause)
	s.clock.Step(pause)
	s.waits(patience, pause)
	link(t, pipe, s.reboot.opts.Trigger)
	s.clock.Step(pause)
	s.waits(patience, timeout-2*pause)
	if got := s.read(); got != "b" {
		t.Errorf("%q was written", got)
	}
	s.clock.Step(timeout)
	got := s.outcome(outcome)
	if got.Reason != v1alpha1.ReasonRebootNotObserved || !strings.Contains(got.Message, "writing 's': ") || !strings.Contains(got.Message, "writing 'u': ") ||
		strings.Contains(got.Message, "read-only") {
		t.Errorf("outcome %+v", got)
	}
}

func TestAResetThatTheKernelRefusesIsReportedAtOnce(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSysRq)
	outcome := s.start(t.Context(), s.reboot.Execute)
	s.waits(patience, patience, pause)
	s.clock.Step(pause)
	s.waits(patience, pause)
	if err := os.Remove(s.reboot.opts.Trigger); err != nil {
		t.Fatal(err)
	}
	s.clock.Step(pause)
	got := s.outcome(outcome)
	for _, want := range []string{"the kernel could not be asked to reset the machine: writing 'b': ", "no such file", "(its file systems may be read-only now)", "boot-1"} {
		if got.Reason != v1alpha1.ReasonRebootNotObserved || !strings.Contains(got.Message, want) || got.Result == nil {
			t.Errorf("outcome %+v, want %q in it", got, want)
		}
	}
	if got.Result.FinishedAt.Sub(begun) != 2*pause {
		t.Errorf("ended at %s", got.Result.FinishedAt)
	}
}

func TestAnOutcomeComesWithinTheGraceHoweverShortTheTimeout(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSysRq)
	s.order.Step.Timeout.Duration = time.Second
	if longest := 4*patience + 2*pause; longest > time.Second+deadline.EndGrace {
		t.Errorf("it may take %s", longest)
	}
	outcome := s.start(t.Context(), s.reboot.Execute)
	for range 2 {
		for d := time.Duration(0); d != pause; {
			d = <-s.clock.timers
		}
		s.clock.Step(pause)
	}
	if got := s.outcome(outcome); got.Reason != v1alpha1.ReasonRebootNotObserved {
		t.Errorf("outcome %+v", got)
	}
}

func TestTheTriggerIsTriedWithoutWritingToIt(t *testing.T) {
	s := newScene(t, v1alpha1.RebootSysRq)
	prepared, outcome := s.reboot.Prepare(t.Context(), s.order)
	if outcome != nil || prepared.Execution != v1alpha1.ExecutionSysRq {
		t.Errorf("prepared %+v, outcome %+v", prepared, outcome)
	}
	s.untouched()

	s.reboot.opts.Trigger = filepath.Join(t.TempDir(), "absent")
	_, outcome = s.reboot.Prepare(t.Context(), s.order)
	if outcome == nil || outcome.Reason != v1alpha1.ReasonStartFailed || outcome.Result != nil || !strings.Contains(outcome.Message, "absent: no such file") ||
		!strings.Contains(outcome.Message, "must be privileged") {
		t.Errorf("outcome %+v", outcome)
	}
	if _, err := os.Stat(s.reboot.opts.Trigger); err == nil {
		t.Error("the trigger was made")
	}
}

// link makes path lead to target, whatever was there.
func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
