package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/internal/thread"
	"github.com/nodemend/nodemend/runner/remedy"
)

// The tests of this file need no rights: commands run in a process group alone.

// longEnough never passes in a test that succeeds.
const longEnough = 5 * time.Minute

// unprivileged returns a remedy that stays in its own namespaces and control group.
func unprivileged(t *testing.T, clk clock.Clock) *Remedy {
	t.Helper()
	return New(Options{Execution: Direct, Dir: filepath.Join(t.TempDir(), "runner"), HostProc: hostProc(t, "/"), Cgroup: "/proc/none", Clock: clk})
}

func directOrder(timeout time.Duration, argv ...string) remedy.Order {
	return remedy.Order{
		Action: "action", UID: "1",
		Env:      []string{"PATH=/usr/bin:/bin"},
		Step:     v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Argv: argv}, Timeout: v1alpha1.Duration{Duration: timeout}},
		Prepared: remedy.Prepared{Execution: v1alpha1.ExecutionDirect},
	}
}

// shell runs a script under the real clock.
func shell(t *testing.T, script string) *remedy.Outcome {
	t.Helper()
	return unprivileged(t, nil).Execute(t.Context(), directOrder(longEnough, "/bin/sh", "-c", script))
}

func TestACommandIsEndedWithinTheGrace(t *testing.T) {
	if direct := stopGrace + killGrace + goneWithin + 2*hostTime; direct > deadline.EndGrace || stopGrace+killGrace > endGrace {
		t.Errorf("an outcome may come %s after the timeout, systemd ends it after %s", direct, endGrace)
	}
}

func TestAnExitStatusIsTheResult(t *testing.T) {
	for _, test := range []struct {
		script, wantReason, wantMessage string
		wantExitCode                    *int32
		wantSignal                      string
	}{
		{script: "exit 0", wantReason: v1alpha1.ReasonSucceeded, wantMessage: "exit status 0 after ", wantExitCode: ptr.To[int32](0)},
		{script: "exit 3", wantReason: v1alpha1.ReasonFailed, wantMessage: "exit status 3 after ", wantExitCode: ptr.To[int32](3)},
		{script: "kill -TERM $$", wantReason: v1alpha1.ReasonFailed, wantMessage: "ended by signal 15 (terminated) after ", wantSignal: "terminated"},
		{script: "kill -KILL $$", wantReason: v1alpha1.ReasonFailed, wantMessage: "ended by signal 9 (killed) after ", wantSignal: "killed"},
	} {
		t.Run(test.script, func(t *testing.T) {
			got := shell(t, test.script)
			if got.Reason != test.wantReason || !strings.HasPrefix(got.Message, test.wantMessage) {
				t.Fatalf("got %s %q, want %s %q…", got.Reason, got.Message, test.wantReason, test.wantMessage)
			}
			if r := got.Result; !ptr.Equal(r.ExitCode, test.wantExitCode) || r.Signal != test.wantSignal || r.Execution != v1alpha1.ExecutionDirect || r.FinishedAt.Time.Before(r.StartedAt.Time) {
				t.Errorf("got result %+v, want exit code %v and signal %q", r, test.wantExitCode, test.wantSignal)
			}
		})
	}
}

func TestACommandHasNoInputAndNoEnvironmentButTheOrders(t *testing.T) {
	t.Setenv("NODEMEND_TEST_SECRET", "leaked")
	got := shell(t, `pwd; cat; umask; env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= -e ^OLDPWD=`).Result.Output
	if want := "/\n0022\nPATH=/usr/bin:/bin\n"; got != want {
		t.Errorf("directory, input, umask and environment are\n%s, want\n%s", got, want)
	}
}

func TestAProgramThatCanNotBeStartedIsNotExecuted(t *testing.T) {
	dir := t.TempDir()
	noInterpreter, notExecutable := filepath.Join(dir, "script"), filepath.Join(dir, "data")
	write(t, noInterpreter, "#!/no/such/interpreter\n", 0o755)
	write(t, notExecutable, "data", 0o644)
	for program, want := range map[string]string{
		"/no/such/program": "starting /no/such/program: no such file or directory; nothing was executed: install the program",
		noInterpreter:      "or the interpreter that its first line names",
		notExecutable:      "permission denied; nothing was executed: check the step's command",
	} {
		got := unprivileged(t, nil).Execute(t.Context(), directOrder(longEnough, program))
		if got.Reason != v1alpha1.ReasonStartFailed || !strings.Contains(got.Message, want) || got.Result != nil {
			t.Errorf("%q: got %+v, want StartFailed with %q and no result", program, got, want)
		}
	}
}

func TestAtTheTimeoutACommandIsAskedToStopAndThenKilled(t *testing.T) {
	up, block := fifo(t, "up"), fifo(t, "block")
	// The grandchild keeps the write end of up open for as long as it lives.
	script := `trap 'echo asked' TERM; echo before; (trap '' TERM; exec 3>` + up + `; echo up >&3; read never <` + block + `) & wait; wait`
	clk := clocktesting.NewFakeClock(time.Now())
	started := make(chan struct{})
	ctx := remedy.WithPoints(t.Context(), func(point string) {
		if point == "after-start" {
			close(started)
		}
	})
	outcomes := begin(ctx, unprivileged(t, clk), script, 90*time.Second)

	alive := open(t, up)
	line(t, alive)
	<-started
	step(t, clk, 90*time.Second)
	step(t, clk, stopGrace)
	got := <-outcomes

	if got.Reason != v1alpha1.ReasonTimedOut || got.Message != "killed after 1m35s" {
		t.Errorf("got %s %q, want TimedOut \"killed after 1m35s\"", got.Reason, got.Message)
	}
	if r := got.Result; r == nil || r.Signal != "killed" || r.ExitCode != nil || !strings.HasPrefix(r.Output, "before\n") {
		t.Errorf("got result %+v, want the signal, no exit code, and the output so far", r)
	}
	if rest, err := io.ReadAll(alive); err != nil || len(rest) > 0 {
		t.Errorf("after its end the grandchild wrote %q, error %v", rest, err)
	}
}

func TestWhatIsLeftOfTheGroupEndsWithTheProgram(t *testing.T) {
	up, block, end := fifo(t, "up"), fifo(t, "block"), fifo(t, "end")
	script := `(exec 3>` + up + `; echo up >&3; read never <` + block + `) & read line <` + end
	outcomes := begin(t.Context(), unprivileged(t, nil), script, longEnough)
	alive := open(t, up)
	line(t, alive)
	write(t, end, "\n", 0)

	if got := <-outcomes; got.Reason != v1alpha1.ReasonSucceeded {
		t.Errorf("got %s %q, want Succeeded", got.Reason, got.Message)
	}
	if _, err := io.ReadAll(alive); err != nil { // returns only when the grandchild is gone
		t.Error(err)
	}
}

func TestTheEndOfTheContextKillsADirectCommand(t *testing.T) {
	up, block := fifo(t, "up"), fifo(t, "block")
	ctx, cancel := context.WithCancel(t.Context())
	outcomes := begin(ctx, unprivileged(t, nil), `echo up >`+up+`; read never <`+block, longEnough)
	line(t, open(t, up))
	cancel()
	got := <-outcomes
	if got.Reason != v1alpha1.ReasonInterrupted || !strings.HasPrefix(got.Message, "the runner was stopped and killed the command after ") || got.Result.Signal != "killed" {
		t.Errorf("got %+v, want Interrupted by a kill", got)
	}
}

func TestAnEscapedChildThatHoldsTheOutputDelaysNothing(t *testing.T) {
	up, block := fifo(t, "up"), fifo(t, "block")
	got := shell(t, `setsid sh -c 'echo up >`+up+`; read line <`+block+`' & read line <`+up+`; echo done`)
	if got.Reason != v1alpha1.ReasonSucceeded || got.Result.Output != "done\n" {
		t.Errorf("got %s %q with output %q, want Succeeded with \"done\"", got.Reason, got.Message, got.Result.Output)
	}
	write(t, block, "\n", 0) // returns only when the escaped child is there to read
}

func TestADirectOrderThatWasBegunIsNotExecutedAgain(t *testing.T) {
	counter := filepath.Join(t.TempDir(), "counter")
	r, order := unprivileged(t, nil), directOrder(longEnough, "/bin/sh", "-c", "echo x >>"+counter)
	if got := r.Execute(t.Context(), order); got.Reason != v1alpha1.ReasonSucceeded {
		t.Fatal(got.Message)
	}
	for name, got := range map[string]*remedy.Outcome{"Execute": r.Execute(t.Context(), order), "Adopt": r.Adopt(t.Context(), order)} {
		if got.Reason != v1alpha1.ReasonInterrupted || !strings.Contains(got.Message, "may or may not have been executed") {
			t.Errorf("%s gives %+v, want Interrupted", name, got)
		}
	}
	if text, err := os.ReadFile(counter); err != nil || string(text) != "x\n" {
		t.Errorf("the command has left %q, error %v; want one line", text, err)
	}
	for range 2 {
		if err := r.Clean(t.Context(), order); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(r.opts.Dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, error %v", left, err)
	}
}

func TestADetourAroundSystemdIsExplained(t *testing.T) {
	r := unprivileged(t, nil)
	r.opts.Execution = Auto
	order := directOrder(longEnough, "/bin/true")
	prepared, got := r.Prepare(t.Context(), order)
	if got != nil {
		t.Fatal(got.Message)
	}
	order.Prepared = prepared
	r = unprivileged(t, nil) // nothing of it is in the remedy
	if got := r.Execute(t.Context(), order); !strings.Contains(got.Message, "; executed directly, since systemd does not answer: ") {
		t.Errorf("got message %q, want the reason for the direct execution", got.Message)
	}
}

func TestAProcessThatDoesNotGoIsReportedAsStuck(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	never, killed, started := make(chan struct{}), make(chan struct{}), make(chan error)
	for name, test := range map[string]struct {
		begun, unexecuted bool
		want              progress
	}{
		"started":                    {begun: true, want: progress{cause: timedOut, stuck: true}},
		"never started":              {unexecuted: true, want: progress{cause: timedOut, stuck: true, unsure: true, startErr: errNoStart}},
		"perhaps started, who knows": {want: progress{cause: timedOut, stuck: true, unsure: true}},
	} {
		begun := test.begun
		killed = make(chan struct{})
		p := process{
			started: started, exited: never, reaped: never, reap: func() {}, stop: func() {}, kill: sync.OnceFunc(func() { close(killed) }),
			alone: func() bool { return false }, unexecuted: func() bool { return test.unexecuted },
		}
		ends := make(chan progress, 1)
		go func() { ends <- p.supervise(t.Context(), clk, time.Minute) }()
		if begun {
			started <- nil // is taken before the time is over
		}
		step(t, clk, time.Minute)
		if begun {
			step(t, clk, stopGrace)
		}
		<-killed
		step(t, clk, killGrace)
		if got := <-ends; got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

func TestAStartThatFailsLateHasExecutedNothing(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	started, ended := make(chan error, 1), make(chan struct{})
	p := process{started: started, exited: ended, reaped: ended, reap: func() {}, alone: func() bool { return false }, kill: func() {
		started <- syscall.ENOENT
		close(ended)
	}}
	ends := make(chan progress, 1)
	go func() { ends <- p.supervise(t.Context(), clk, time.Minute) }()
	step(t, clk, time.Minute)
	if got := <-ends; !errors.Is(got.startErr, syscall.ENOENT) || got.stuck {
		t.Errorf("got %+v, want the error of the start", got)
	}
}

func TestAProcessThatHasNotExecutedIsTold(t *testing.T) {
	if !hasExecuted(os.Getpid()) {
		t.Error("this process was not executed")
	}
	if !hasExecuted(1 << 30) {
		t.Error("a process that is not there is known not to have executed")
	}
	told := make(chan bool) // a thread is forked and executes nothing
	go thread.Own(func() {
		told <- hasExecutedAt(fmt.Sprintf("/proc/%d/task/%d", os.Getpid(), syscall.Gettid()))
	})
	if <-told {
		t.Error("a thread is taken for a process that has executed")
	}
}

// begin executes a script and delivers its outcome.
func begin(ctx context.Context, r *Remedy, script string, timeout time.Duration) <-chan *remedy.Outcome {
	outcomes := make(chan *remedy.Outcome, 1)
	go func() { outcomes <- r.Execute(ctx, directOrder(timeout, "/bin/sh", "-c", script)) }()
	return outcomes
}

// step moves the clock on as soon as somebody waits for it.
func step(t *testing.T, clk *clocktesting.FakeClock, d time.Duration) {
	t.Helper()
	for !clk.HasWaiters() {
		if t.Context().Err() != nil {
			return
		}
		runtime.Gosched()
	}
	clk.Step(d)
}

// fifo makes a named pipe: opening either end waits for the other one.
func fifo(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, fifo string) *bufio.Reader {
	t.Helper()
	f, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return bufio.NewReader(f)
}

func line(t testing.TB, r *bufio.Reader) {
	t.Helper()
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}
