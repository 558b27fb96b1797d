//go:build integration

package command

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// crashing is how a runner process that will be killed gets to know what to do.
type crashing struct {
	Opts  Options
	Order remedy.Order
	Point string // where it is killed; "": nowhere
}

const crashingEnv = "NODEMEND_TEST_CRASHING"

// TestRunnerThatIsKilled is not a test: it is the other process.
func TestRunnerThatIsKilled(t *testing.T) {
	text := os.Getenv(crashingEnv)
	if text == "" {
		t.Skip("only for the tests that start it")
	}
	var c crashing
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	ctx := remedy.WithPoints(t.Context(), func(point string) {
		if point == c.Point {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			<-t.Context().Done() // it takes effect at any moment
		}
	})
	New(c.Opts).Execute(ctx, c.Order)
}

// runner starts another process that executes the order.
func (s *scene) runner(order remedy.Order, point string) *exec.Cmd {
	s.Helper()
	text, err := json.Marshal(crashing{s.opts, order, point})
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.CommandContext(s.Context(), os.Args[0], "-test.run=^TestRunnerThatIsKilled$")
	cmd.Env = append(os.Environ(), crashingEnv+"="+string(text))
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	return cmd
}

func (s *scene) expectKilled(cmd *exec.Cmd) {
	s.Helper()
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		s.Fatalf("the runner has ended with %s, want it killed", cmd.ProcessState)
	}
}

// adopt is what the next process does.
func (s *scene) adopt(order remedy.Order) *remedy.Outcome {
	return New(s.opts).Adopt(s.Context(), order)
}

// counter returns a file's path inside, and a function that counts its lines.
func (s *scene) counter() (inside string, count func() int) {
	name := filepath.Base(s.fifo("counter").outside) + ".count"
	outside := filepath.Join(s.host.RunDir(), name)
	s.Cleanup(func() { _ = os.Remove(outside) })
	return "/run/" + name, func() int {
		text, _ := os.ReadFile(outside)
		return strings.Count(string(text), "\n")
	}
}

func TestARunnerThatIsKilledAnywhereIsFollowedByTheTruth(t *testing.T) {
	both(t, func(s *scene) {
		for _, point := range []string{"before-start", "after-start", "ended", "outcome"} {
			for _, status := range []string{"0", "7"} {
				path, count := s.counter()
				order := s.order("echo x >>" + path + "; echo printed; exit " + status)
				s.expectKilled(s.runner(order, point))
				got := s.adopt(order)
				switch {
				case point == "before-start":
					s.expect(got, v1alpha1.ReasonInterrupted, "")
					if count() != 0 {
						s.Errorf("%s: executed %d times", point, count())
					}
				case order.Prepared.Execution == v1alpha1.ExecutionDirect:
					s.expect(got, v1alpha1.ReasonInterrupted, "the runner that had begun")
					if count() > 1 {
						s.Errorf("%s: executed %d times", point, count())
					}
				default:
					reason := v1alpha1.ReasonSucceeded
					if status != "0" {
						reason = v1alpha1.ReasonFailed
					}
					s.expect(got, reason, "exit status "+status+" after ")
					if count() != 1 {
						s.Errorf("%s: executed %d times", point, count())
					}
					again := s.Execute(s.Context(), order)
					s.expect(again, reason, got.Message)
					if count() != 1 {
						s.Errorf("%s: executed %d times", point, count())
					}
				}
				s.expectNothingLeft(order)
			}
		}
	})
}

func TestWhatIsPrintedWhileNoRunnerLivesIsRead(t *testing.T) {
	for name, script := range map[string]string{
		"more than the pipe holds": "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end; exit 7",
		"before the end":           "echo end; exit 7",
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, TransientUnit)
			up, gate := s.fifo("up"), s.fifo("gate")
			order := s.order("echo up >" + up.inside + "; read x <" + gate.inside + "; " + script)
			cmd := s.runner(order, "")
			up.await()
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			s.expectKilled(cmd)
			gate.release()
			if name == "before the end" {
				s.awaitEnd(order)
			}
			got := s.expect(s.adopt(order), v1alpha1.ReasonFailed, "exit status 7 after ")
			if !strings.HasSuffix(got.Output, "end\n") || !got.OutputTruncated || len(got.Output) > maxOutput {
				t.Errorf("got %d bytes, truncated %t: …%q", len(got.Output), got.OutputTruncated, got.Output[max(0, len(got.Output)-20):])
			}
		})
	}
}

func TestACommandTimesOutAlsoWhileNoRunnerLives(t *testing.T) {
	s := newScene(t, TransientUnit)
	up := s.fifo("up")
	order := s.order("echo up >"+up.inside+"; setsid sleep 1000 & sleep 1000", shortTimeout)
	cmd := s.runner(order, "")
	up.await()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.expectKilled(cmd)
	s.awaitEnd(order)
	s.expectNothingLeft(order)
	s.expect(s.adopt(order), v1alpha1.ReasonTimedOut, "killed after 1")
}

func TestADirectCommandEndsWithItsRunner(t *testing.T) {
	s := newScene(t, Direct)
	up := s.fifo("up")
	order := s.order("setsid sleep 1000 & echo up >" + up.inside + "; sleep 1000")
	cmd := s.runner(order, "")
	up.await()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.expectKilled(cmd)
	s.expect(s.adopt(order), v1alpha1.ReasonInterrupted, "the runner that had begun")
	s.expectNothingLeft(order)
}

func TestAnOrderThatWasNeverBegunIsNotExecutedByAdoption(t *testing.T) {
	both(t, func(s *scene) {
		path, count := s.counter()
		got := s.expect(s.adopt(s.order("echo x >>"+path)), v1alpha1.ReasonInterrupted, "")
		if count() != 0 || got.Execution == "" {
			s.Errorf("executed %d times, result %+v", count(), got)
		}
	})
}

// As a rolling update does, twice.
func TestWhatWasPrintedBeforeARunnerIsStoppedIsKept(t *testing.T) {
	s := newScene(t, TransientUnit)
	up, gate := s.fifo("up"), s.fifo("gate")
	order := s.order("for i in 1 2 3; do echo line $i; echo up >" + up.inside + "; read x <" + gate.inside + "; done; echo -n end; exit 7")
	do := s.Execute
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		left := make(chan *remedy.Outcome, 1)
		go func() { left <- do(ctx, order) }()
		up.await()
		stop()
		if got := <-left; got != nil {
			t.Fatalf("it was not left to the next runner: %+v", got)
		}
		gate.release()
		do = New(s.opts).Adopt
	}
	up.await()
	gate.release()
	got := s.expect(s.adopt(order), v1alpha1.ReasonFailed, "exit status 7 after ")
	if want := "line 1\nline 2\nline 3\nend"; got.Output != want || got.OutputTruncated {
		t.Errorf("got %q, truncated %t, want %q", got.Output, got.OutputTruncated, want)
	}
}

func TestWhatAStoppedRunnerHasLeftIsRemovedWithTheRest(t *testing.T) {
	s := newScene(t, TransientUnit)
	up := s.fifo("up")
	order := s.order("echo up >" + up.inside + "; sleep 1000")
	ctx, stop := context.WithCancel(t.Context())
	left := make(chan *remedy.Outcome, 1)
	go func() { left <- s.Execute(ctx, order) }()
	up.await()
	stop()
	<-left
	path := s.printedPath(unitOf(order))
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	if err := s.Clean(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}
