//go:build integration

package command

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/runner/remedy"
)

func TestASystemdThatIsSlowTakesFromTheCommandsTime(t *testing.T) {
	s := ownScene(t)
	up, gate := s.fifo("up"), s.fifo("gate")
	const timeout, late = 10 * time.Minute, time.Second
	order := s.order("echo up >"+up.inside+"; read x <"+gate.inside, func(o *remedy.Order) { o.Step.Timeout.Duration = timeout })
	s.relayed(&slowRelay{late: late})
	slow := New(s.opts)
	outcomes := make(chan *remedy.Outcome, 1)
	go func() { outcomes <- slow.Execute(t.Context(), order) }()
	up.await()
	if left := s.mayRun(order); left > timeout-2*late {
		t.Errorf("systemd lets it run for %s, although it was two seconds late with its answers", left)
	}
	gate.release()
	s.expect(<-outcomes, v1alpha1.ReasonSucceeded, "")

	short := s.order("sleep 1000", shortTimeout)
	got := s.expect(slow.Execute(t.Context(), short), v1alpha1.ReasonStartFailed, "systemd takes longer to answer than the step's timeout of 1s")
	if got.Execution != "" {
		t.Errorf("got the result %+v of a command that was not executed", got)
	}
}

// mayRun returns after how long systemd kills the order's command.
func (s *scene) mayRun(order remedy.Order) time.Duration {
	s.Helper()
	value, err := s.host.Run(s.Context(), "systemctl", "show", "--value", "--property=RuntimeMaxUSec", unitOf(order))
	if err != nil {
		s.Fatal(err)
	}
	runs, err := time.ParseDuration(strings.NewReplacer(" ", "", "min", "m", "\n", "").Replace(string(value)))
	if err != nil {
		s.Fatal(err)
	}
	return runs
}

func TestAClockThatWasSetForwardDoesNotEndWhatIsAdopted(t *testing.T) {
	s := ownScene(t)
	up, gate := s.fifo("up"), s.fifo("gate")
	order := s.order("echo up >" + up.inside + "; read x <" + gate.inside + "; exit 5")
	ctx, cancel := context.WithCancel(t.Context())
	outcomes := make(chan *remedy.Outcome, 1)
	go func() { outcomes <- s.Execute(ctx, order) }()
	up.await()
	cancel()
	<-outcomes
	order.StartedAt = order.StartedAt.Add(-time.Hour)
	go func() { outcomes <- s.adopt(order) }()
	select {
	case got := <-outcomes:
		t.Fatalf("got %+v, want the command to be waited for", got)
	case <-time.After(endGrace + 2*time.Second):
	}
	gate.release()
	s.expect(<-outcomes, v1alpha1.ReasonFailed, "exit status 5 after ")
}

// TestACommandThatSystemdDoesNotEndIsEndedByTheRunner makes a unit without a timeout of
// its own.
func TestACommandThatSystemdDoesNotEndIsEndedByTheRunner(t *testing.T) {
	s := ownScene(t)
	up := s.fifo("up")
	order := s.order("echo up >"+up.inside+"; trap '' TERM; sleep 1000 & sleep 1000", shortTimeout)
	if _, err := s.host.Run(t.Context(), "systemd-run", "--unit="+unitOf(order), "--description="+description(order), "--service-type=exec", "--remain-after-exit",
		"/bin/sh", "-c", order.Step.Command.Script); err != nil {
		t.Fatal(err)
	}
	up.await()
	got := s.adopt(order)
	if r := s.expect(got, v1alpha1.ReasonTimedOut, "killed after "); r.Signal != "killed" || strings.Contains(got.Message, "state D") {
		t.Errorf("got %q, %+v; want a process that is gone", got.Message, r)
	}
	s.expectNothingLeft(order)
}

// leap is a clock that is set forward.
type leap struct {
	clock.RealClock
	by atomic.Int64
}

func (l *leap) Now() time.Time { return l.RealClock.Now().Add(time.Duration(l.by.Load())) }

func TestACommandThatBeginsAtTheLastMomentIsNotTakenForOneThatDidNot(t *testing.T) {
	s := ownScene(t)
	up, gate := s.fifo("up"), s.fifo("gate")
	order := s.order("echo up >" + up.inside + "; sleep 1000")
	for _, args := range [][]string{
		{"--unit=before-" + unitOf(order), "--service-type=oneshot", "/bin/sh", "-c", "read x <" + gate.inside},
		{"--unit=" + unitOf(order), "--property=After=before-" + unitOf(order), "--description=" + description(order), "--service-type=exec", "--remain-after-exit",
			"/bin/sh", "-c", order.Step.Command.Script},
	} {
		if _, err := s.host.Run(t.Context(), append([]string{"systemd-run", "--no-block"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	clk := &leap{}
	r := &slowRelay{}
	asked, last := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(asked) })
	begin := sync.OnceFunc(func() {
		gate.release()
		up.await()
		clk.by.Store(int64(time.Hour))
	})
	r.answering = func() {
		first()
		select {
		case <-last:
			begin()
		default:
		}
	}
	s.relayed(r)
	opts := s.opts
	opts.Clock = clk
	outcomes := make(chan *remedy.Outcome, 1)
	go func() { outcomes <- New(opts).Adopt(s.Context(), order) }()
	<-asked
	<-time.After(lookEvery / 2) // so what it is told next is how the unit was before
	close(last)
	s.expect(<-outcomes, v1alpha1.ReasonTimedOut, "killed after ")
	s.expectNothingLeft(order)
}

// hung mounts a file system that does not answer, on a directory of this path inside,
// which is where the host's systemd is.
func (s *scene) hung() (inside string) {
	s.Helper()
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		s.Skip("no file system can be mounted that does not answer: ", err)
	}
	name := filepath.Base(s.fifo("hung").outside) + ".d"
	outside := filepath.Join(s.host.RunDir(), name)
	if err := os.Mkdir(outside, 0o755); err != nil {
		s.Fatal(err)
	}
	inside = "/run/" + name
	// Inside are other mounts: the device is handed to a process there.
	mount := exec.CommandContext(s.Context(), "nsenter", "--mount", "--target", strconv.Itoa(s.host.PID()),
		"mount", "-i", "-t", "fuse", "-o", "fd=3,rootmode=40000,user_id=0,group_id=0", "hung", inside)
	mount.ExtraFiles = []*os.File{device}
	if out, err := mount.CombinedOutput(); err != nil {
		s.Skipf("no file system can be mounted that does not answer: %v: %s", err, out)
	}
	s.Cleanup(func() {
		_ = device.Close() // all who wait get an error
		if _, err := s.host.Run(context.WithoutCancel(s.Context()), "umount", "-l", inside); err != nil {
			s.Error(err)
		}
		if err := os.Remove(outside); err != nil {
			s.Error(err)
		}
	})
	return inside
}

func TestAProgramOnAFileSystemThatDoesNotAnswerIsNotExecuted(t *testing.T) {
	bothAtOnce(t, func(s *scene) {
		dir := s.hung()
		began := time.Now()
		order := s.order("", words(dir+"/program"), shortTimeout)
		collecting, done := make(chan struct{}), make(chan struct{})
		go func() { // which needs all goroutines for a moment
			defer close(done)
			for {
				select {
				case <-collecting:
					return
				default:
					runtime.GC()
				}
			}
		}()
		got := s.Execute(s.Context(), order)
		close(collecting)
		<-done
		s.expect(got, v1alpha1.ReasonStartFailed, "starting "+dir+"/program: it had not been executed yet when it was killed")
		if got.Result != nil {
			s.Errorf("got the result %+v", got.Result)
		}
		if took := time.Since(began); took > order.Step.Timeout.Duration+deadline.EndGrace {
			s.Errorf("it took %s", took)
		}
		if why := whyNotExecutable(s.opts.HostProc, dir+"/program"); why != nil {
			s.Errorf("got %v of a file system that does not answer", why)
		}
		s.expectNothingLeft(order)
	})
}
