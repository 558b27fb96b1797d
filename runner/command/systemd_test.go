//go:build integration

package command

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/runner/remedy"
)

// awaitEnd waits until systemd says that the unit has ended.
func (s *scene) awaitEnd(order remedy.Order) {
	s.Helper()
	l := newLink(s.opts.Dialer, unitOf(order))
	defer l.close()
	err := wait.PollUntilContextTimeout(s.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		st, err := l.look(ctx)
		return st.ended(), err
	})
	if err != nil {
		s.Fatal("waiting for the end of the unit: ", err)
	}
}

func TestTheEndOfTheContextLeavesAUnitToTheNextProcess(t *testing.T) {
	s := newScene(t, TransientUnit)
	up, gate := s.fifo("up"), s.fifo("gate")
	order := s.order("echo up >" + up.inside + "; read x <" + gate.inside + "; echo end; exit 5")
	ctx, cancel := context.WithCancel(t.Context())
	outcomes := make(chan *remedy.Outcome, 1)
	go func() { outcomes <- s.Execute(ctx, order) }()
	up.await()
	cancel()
	if got := <-outcomes; got != nil {
		t.Fatalf("got %+v, want no outcome yet", got)
	}
	gate.release()
	if got := s.expect(s.adopt(order), v1alpha1.ReasonFailed, "exit status 5 after "); got.Output != "end\n" {
		t.Errorf("got output %q", got.Output)
	}
}

func TestNothingIsLeftAfterClean(t *testing.T) {
	both(t, func(s *scene) {
		for _, script := range []string{"true", "exit 3", "kill -9 $$", "sleep 1000"} {
			order := s.order(script, shortTimeout)
			s.Execute(s.Context(), order)
			for range 2 {
				if err := s.Clean(s.Context(), order); err != nil {
					s.Error(err)
				}
			}
			out, err := s.host.Run(s.Context(), "systemctl", "list-units", "--all", "--plain", "--no-legend", unitOf(order))
			if err != nil || len(out) > 0 {
				s.Errorf("%s: systemd still knows %q, error %v", script, out, err)
			}
			for _, path := range []string{s.pipePath(unitOf(order)), string(s.group(order))} {
				if _, err := os.Lstat(path); !os.IsNotExist(err) {
					s.Errorf("%s: %s is left (%v)", script, path, err)
				}
			}
		}
	})
}

func TestAFrozenSystemdIsAvoidedOrReported(t *testing.T) {
	s := ownScene(t)
	path, count := s.counter()
	order := s.order("echo x >>" + path)
	thaw := s.host.Freeze(t)

	if _, got := s.Prepare(t.Context(), order); got == nil || got.Reason != v1alpha1.ReasonStartFailed {
		t.Errorf("Prepare gives %+v, want StartFailed", got)
	}
	s.expect(s.Execute(t.Context(), order), v1alpha1.ReasonStartFailed, "systemd does not answer: ")
	if count() != 0 {
		t.Error("it was executed")
	}
	s.opts.Execution = Auto
	s.Remedy = New(s.opts)
	direct := s.order("echo x >>" + path)
	got := s.expect(s.Execute(t.Context(), direct), v1alpha1.ReasonSucceeded, "exit status 0 after ")
	if got.Execution != v1alpha1.ExecutionDirect || count() != 1 {
		t.Errorf("got %+v and %d executions, want one direct", got, count())
	}
	thaw()
}

func TestAStartThatAFrozenSystemdReadsTooLateIsRefused(t *testing.T) {
	s := ownScene(t)
	path, count := s.counter()
	order := s.order("echo x >>"+path, shortTimeout)
	var thaw func()
	ctx := remedy.WithPoints(t.Context(), func(point string) {
		if point == "before-start" {
			thaw = s.host.Freeze(t)
		}
	})
	began := time.Now()
	s.expect(s.Execute(ctx, order), v1alpha1.ReasonInterrupted, "systemd does not answer")
	if took := time.Since(began); took > order.Step.Timeout.Duration+deadline.EndGrace {
		t.Errorf("it took %s", took)
	}
	thaw()
	s.expect(s.adopt(order), v1alpha1.ReasonInterrupted, "systemd knows no unit")
	if count() != 0 {
		t.Error("it was executed after it had been reported as interrupted")
	}
}

func TestASystemdThatFreezesForAWhileDelaysNothingButTheOutcome(t *testing.T) {
	s := ownScene(t)
	up, gate := s.fifo("up"), s.fifo("gate")
	outcomes := make(chan *remedy.Outcome, 1)
	order := s.order("echo up >" + up.inside + "; read x <" + gate.inside + "; echo end; exit 5")
	go func() { outcomes <- s.Execute(s.Context(), order) }()
	up.await()
	thaw := s.host.Freeze(t)
	gate.release()
	select {
	case got := <-outcomes:
		t.Fatalf("got %+v, want systemd to be waited for", got)
	case <-time.After(7 * time.Second):
	}
	thaw()
	if got := s.expect(<-outcomes, v1alpha1.ReasonFailed, "exit status 5 after "); got.Output != "end\n" {
		t.Errorf("got output %q", got.Output)
	}
}

func TestTheRunnerKillsWhatAFrozenSystemdDoesNot(t *testing.T) {
	s := ownScene(t)
	up := s.fifo("up")
	outcomes := make(chan *remedy.Outcome, 1)
	order := s.order("setsid sleep 1000 & echo printed; echo up >"+up.inside+"; sleep 1000", shortTimeout)
	go func() { outcomes <- s.Execute(s.Context(), order) }()
	up.await()
	thaw := s.host.Freeze(t)
	got := <-outcomes
	r := s.expect(got, v1alpha1.ReasonTimedOut, "killed after ")
	if !strings.Contains(got.Message, "; the runner killed it, since systemd does not answer") || r.Output != "printed\n" {
		t.Errorf("got %q with output %q", got.Message, r.Output)
	}
	s.expectNothingLeft(order)
	thaw()
}

// TestHowFastACommandStartsAndIsReported logs what is measured, and fails only for
// what nobody would accept.
func TestHowFastACommandStartsAndIsReported(t *testing.T) {
	both(t, func(s *scene) {
		var starts, ends []time.Duration
		for range 20 {
			order := s.order("sleep 0.02")
			began := time.Now()
			got := s.expect(s.Execute(t.Context(), order), v1alpha1.ReasonSucceeded, "exit status 0")
			starts = append(starts, got.StartedAt.Sub(began))
			ends = append(ends, time.Since(got.FinishedAt.Time))
		}
		slices.Sort(starts)
		slices.Sort(ends)
		s.Logf("start after %s, outcome after %s (medians)", starts[10], ends[10])
		if starts[10] > 500*time.Millisecond || ends[10] > 500*time.Millisecond {
			s.Error("that is too slow")
		}
	})
}

func TestSystemdLimitsTheProcessesOfACommand(t *testing.T) {
	s := newScene(t, TransientUnit)
	up, gate := s.fifo("up"), s.fifo("gate")
	order := s.order("echo up >" + up.inside + "; read x <" + gate.inside)
	outcomes := make(chan *remedy.Outcome, 1)
	go func() { outcomes <- s.Execute(t.Context(), order) }()
	up.await()
	most, err := s.host.Run(t.Context(), "systemctl", "show", "--value", "--property=TasksMax", unitName(order.Action))
	if err != nil || strings.TrimSpace(string(most)) != strconv.Itoa(maxTasks) {
		t.Errorf("systemd lets it have %q processes, error %v, want %d", most, err, maxTasks)
	}
	gate.release()
	s.expect(<-outcomes, v1alpha1.ReasonSucceeded, "")
}
