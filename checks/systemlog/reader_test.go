package systemlog

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	logtypes "k8s.io/node-problem-detector/pkg/systemlogmonitor/types"
	"k8s.io/utils/clock"
)

func TestAStreamVouchesForItselfOnlyWhenItIsSilentOrCurrent(t *testing.T) {
	for name, tc := range map[string]struct {
		age   func(since time.Duration) time.Duration // of the line that is written after since
		every time.Duration
		want  time.Duration // after which it vouches first; zero: never in a minute
	}{
		"a silent one":                      {nil, 0, settle},
		"one with many old lines":           {func(time.Duration) time.Duration { return time.Hour }, 100 * time.Millisecond, 0},
		"one with many new lines":           {func(time.Duration) time.Duration { return 0 }, 100 * time.Millisecond, settle},
		"one with old lines, then new":      {func(since time.Duration) time.Duration { return max(0, time.Hour-since*350) }, 100 * time.Millisecond, 11 * time.Second},
		"one with an old line now and then": {func(time.Duration) time.Duration { return time.Hour }, 3500 * time.Millisecond, settle},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				lines := make(chan *logtypes.Log)
				if tc.age != nil {
					go func() {
						for {
							select {
							case <-time.After(tc.every):
							case <-ctx.Done():
								return
							}
							select {
							case lines <- &logtypes.Log{Timestamp: time.Now().Add(-tc.age(time.Since(began)))}:
							case <-ctx.Done():
								return
							}
						}
					}()
				}
				out := make(chan entry)
				ended := make(chan error, 1)
				go func() {
					defer close(out)
					ended <- stream(ctx, clock.RealClock{}, lines, nil, out)
				}()
				var first time.Duration
				for e := range out {
					if e.log != nil {
						continue
					}
					if first == 0 {
						first = time.Since(began)
					}
					if late := time.Since(e.readUpTo); late != quiet {
						t.Errorf("vouches for the time %s ago", late)
					}
				}
				if first != tc.want {
					t.Errorf("vouched first after %s, want %s", first, tc.want)
				}
				if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}

func TestABacklogIsNotVouchedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := make(chan *logtypes.Log, 10)
		out := make(chan entry)
		ended := make(chan error, 1)
		go func() { ended <- stream(t.Context(), clock.RealClock{}, lines, nil, out) }()
		for (<-out).log != nil { // until it vouches
		}
		for range 10 {
			lines <- &logtypes.Log{}
		}
		<-time.After(10 * time.Second) // a tick is due
		for i := range 10 {
			if e := <-out; e.log == nil {
				t.Errorf("vouched for itself with %d lines waiting", 10-i)
			}
		}
		close(lines)
		for {
			select {
			case <-out:
			case err := <-ended:
				if !errors.Is(err, errStreamEnded) {
					t.Errorf("ended with %v", err)
				}
				return
			}
		}
	})
}

func TestTheKernelLogIsReadOrAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := make(chan entry)
	ended := make(chan error, 1)
	go func() { ended <- kmsg{clock: clock.RealClock{}}.read(ctx, time.Now().Add(-24*time.Hour), out) }()
	select {
	case err := <-ended:
		t.Logf("no kernel log here: %v", err)
		return
	case e := <-out:
		if e.log == nil || e.log.Message == "" {
			t.Errorf("got %+v first", e)
		}
	case <-time.After(3 * time.Second):
		t.Log("the kernel log is empty here")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}
