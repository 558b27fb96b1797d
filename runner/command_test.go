package runner

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// longEnough never passes in a test that succeeds.
const longEnough = 5 * time.Minute

// shell runs a script under the real clock.
func shell(t *testing.T, script string) outcome {
	t.Helper()
	return newCommand([]string{"/bin/sh", "-c", script}).execute(t.Context(), clock.RealClock{}, longEnough)
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
			if got.reason != test.wantReason || !strings.HasPrefix(got.message, test.wantMessage) {
				t.Errorf("got %s %q, want %s %q…", got.reason, got.message, test.wantReason, test.wantMessage)
			}
			if !ptr.Equal(got.result.ExitCode, test.wantExitCode) || got.result.Signal != test.wantSignal {
				t.Errorf("got exit code %v and signal %q, want %v and %q", got.result.ExitCode, got.result.Signal, test.wantExitCode, test.wantSignal)
			}
			if got.result.FinishedAt.Before(&got.result.StartedAt) {
				t.Errorf("finished at %s, before it started at %s", got.result.FinishedAt, got.result.StartedAt)
			}
		})
	}
}

func TestACommandSeesNoShellNoInputAndAMinimalEnvironment(t *testing.T) {
	t.Setenv("NODEMEND_TEST_SECRET", "leaked")
	echo := newCommand([]string{"/bin/echo", "$HOME", "*"}).execute(t.Context(), clock.RealClock{}, longEnough)
	if got := echo.result.Output; got != "$HOME *\n" {
		t.Errorf("arguments arrived as %q: something expanded them", got)
	}
	got := shell(t, `pwd; cat; env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= -e ^OLDPWD= | sort`).result.Output
	want := "/\nHOME=/root\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
	if got != want {
		t.Errorf("directory, input and environment are\n%s, want\n%s", got, want)
	}
}

func TestStandardOutputAndErrorAreKeptTogetherInOrder(t *testing.T) {
	got := shell(t, "echo one; echo two >&2; echo three").result
	if got.Output != "one\ntwo\nthree\n" || got.OutputTruncated {
		t.Errorf("got output %q, truncated %t", got.Output, got.OutputTruncated)
	}
}

func TestTheEndOfALongOutputIsKept(t *testing.T) {
	got := shell(t, `i=0; while [ $i -lt 2000 ]; do echo "line $i"; i=$((i+1)); done`).result
	if len(got.Output) != maxOutput || !strings.HasSuffix(got.Output, "line 1998\nline 1999\n") || !got.OutputTruncated {
		t.Errorf("got %d bytes ending in %q, truncated %t; want the last %d bytes",
			len(got.Output), got.Output[max(0, len(got.Output)-20):], got.OutputTruncated, maxOutput)
	}
}

func TestOutputThatIsNotUTF8IsMadeSo(t *testing.T) {
	got := shell(t, `printf 'a\377\376b'`).result.Output
	if got != "a\uFFFDb" {
		t.Errorf("got %q, want %q", got, "a\uFFFDb")
	}
}

func TestAProgramThatCanNotBeStartedIsNotExecuted(t *testing.T) {
	dir := t.TempDir()
	noInterpreter := filepath.Join(dir, "script")
	notExecutable := filepath.Join(dir, "data")
	write(t, noInterpreter, "#!/no/such/interpreter\n", 0o755)
	write(t, notExecutable, "data", 0o644)
	for program, wantMessage := range map[string]string{
		"/no/such/program": "starting /no/such/program: no such file or directory; nothing was executed: install the program",
		noInterpreter:      "or the interpreter that its first line names",
		notExecutable:      "permission denied; nothing was executed: check the first entry",
		"/bin/echo\x00":    "invalid argument",
	} {
		got := newCommand([]string{program}).execute(t.Context(), clock.RealClock{}, longEnough)
		if got.reason != v1alpha1.ReasonStartFailed || !strings.Contains(got.message, wantMessage) || got.result != nil {
			t.Errorf("%q: got %s %q with result %v, want StartFailed with %q and no result", program, got.reason, got.message, got.result, wantMessage)
		}
	}
}

func TestAtTheTimeoutTheWholeProcessGroupIsKilled(t *testing.T) {
	up, block := fifo(t, "up"), fifo(t, "block")
	// The grandchild keeps the write end of up open for as long as it lives.
	script := `(exec 3>` + up + `; echo "up" >&3; read never <` + block + `) & echo before; wait`
	clk := clocktesting.NewFakeClock(testNow)
	outcomes := start(t.Context(), script, clk, 90*time.Second)

	alive := open(t, up)
	line(t, alive)
	step(clk, 90*time.Second)
	got := <-outcomes

	if got.reason != v1alpha1.ReasonTimedOut || got.message != "killed after 1m30s" {
		t.Errorf("got %s %q, want TimedOut \"killed after 1m30s\"", got.reason, got.message)
	}
	if got.result.Signal != "killed" || got.result.ExitCode != nil || got.result.Output != "before\n" {
		t.Errorf("got result %+v, want the signal, no exit code, and the output so far", got.result)
	}
	if rest, err := io.ReadAll(alive); err != nil || len(rest) > 0 {
		t.Errorf("after its end the grandchild wrote %q, error %v", rest, err)
	}
}

func TestWhatIsLeftOfTheGroupEndsWithTheProgram(t *testing.T) {
	up, block, end := fifo(t, "up"), fifo(t, "block"), fifo(t, "end")
	script := `(exec 3>` + up + `; echo "up" >&3; read never <` + block + `) & read line <` + end
	outcomes := start(t.Context(), script, clock.RealClock{}, longEnough)
	alive := open(t, up)
	line(t, alive)
	release(t, end)

	if got := <-outcomes; got.reason != v1alpha1.ReasonSucceeded {
		t.Errorf("got %s %q, want Succeeded", got.reason, got.message)
	}
	if _, err := io.ReadAll(alive); err != nil { // returns only when the grandchild is gone
		t.Error(err)
	}
}

func TestTheEndOfTheContextKillsAndIsReported(t *testing.T) {
	up, block := fifo(t, "up"), fifo(t, "block")
	ctx, cancel := context.WithCancel(t.Context())
	outcomes := start(ctx, `echo up >`+up+`; read never <`+block, clock.RealClock{}, longEnough)
	line(t, open(t, up))
	cancel()
	got := <-outcomes
	if got.reason != v1alpha1.ReasonInterrupted || !strings.HasPrefix(got.message, "the runner was stopped and killed the command after ") || got.result.Signal != "killed" {
		t.Errorf("got %s %q signal %q, want Interrupted by a kill", got.reason, got.message, got.result.Signal)
	}
}

func TestAnEscapedChildThatHoldsTheOutputDelaysNothing(t *testing.T) {
	up, block := fifo(t, "up"), fifo(t, "block")
	c := newCommand([]string{"/bin/sh", "-c",
		`setsid sh -c 'echo up >` + up + `; read line <` + block + `' & read line <` + up + `; echo done`})
	c.outputGrace = 50 * time.Millisecond
	got := c.execute(t.Context(), clock.RealClock{}, longEnough)
	if got.reason != v1alpha1.ReasonSucceeded || got.result.Output != "done\n" {
		t.Errorf("got %s %q with output %q, want Succeeded with \"done\"", got.reason, got.message, got.result.Output)
	}
	release(t, block) // returns only when the escaped child is there to read
}

func TestAProcessThatDoesNotGoIsReportedAsStuck(t *testing.T) {
	clk := clocktesting.NewFakeClock(testNow)
	never := make(chan struct{})
	killed := make(chan struct{})
	p := process{exited: never, reaped: never, reap: func() {}, killGroup: func() { close(killed) }}
	endings := make(chan ending, 1)
	go func() { endings <- p.supervise(t.Context(), clk, time.Minute, 5*time.Second) }()
	step(clk, time.Minute)
	<-killed
	step(clk, 5*time.Second)
	if got := <-endings; got != (ending{cause: timedOut, stuck: true}) {
		t.Errorf("got %+v, want a stuck process that timed out", got)
	}
	got := stuckOutcome(timedOut, 65*time.Second, &v1alpha1.ActionResult{})
	if got.reason != v1alpha1.ReasonTimedOut || !strings.Contains(got.message, "state D") {
		t.Errorf("got %s %q", got.reason, got.message)
	}
}

func TestKeptOutputIsAlwaysValidAndBounded(t *testing.T) {
	for name, written := range map[string]string{
		"a cut rune":              strings.Repeat("€", maxOutput),
		"a cut four-byte rune":    strings.Repeat("🔧", maxOutput) + "x",
		"invalid bytes that grow": strings.Repeat("a\xff", maxOutput),
	} {
		var out tail
		if n, err := io.WriteString(&out, written); n != len(written) || err != nil {
			t.Fatalf("%s: wrote %d bytes, error %v", name, n, err)
		}
		text, truncated := out.text()
		if !utf8.ValidString(text) || len(text) > maxOutput || len(text) < maxOutput-utf8.UTFMax || !truncated {
			t.Errorf("%s: kept %d bytes, valid %t, truncated %t", name, len(text), utf8.ValidString(text), truncated)
		}
		if name != "invalid bytes that grow" && strings.ContainsRune(text, utf8.RuneError) {
			t.Errorf("%s: the cut left a broken rune", name)
		}
	}
}

func TestClipKeepsAMessageValidAndBounded(t *testing.T) {
	if got := clip("short"); got != "short" {
		t.Errorf("got %q", got)
	}
	got := clip("x" + strings.Repeat("€", maxMessage))
	if len(got) > maxMessage || !utf8.ValidString(got) || !strings.HasSuffix(got, "€…") {
		t.Errorf("got %d bytes ending in %q", len(got), got[len(got)-8:])
	}
}

// start executes a script and delivers its outcome.
func start(ctx context.Context, script string, clk clock.Clock, timeout time.Duration) <-chan outcome {
	outcomes := make(chan outcome, 1)
	go func() { outcomes <- newCommand([]string{"/bin/sh", "-c", script}).execute(ctx, clk, timeout) }()
	return outcomes
}

// step moves the clock on as soon as somebody waits for it.
func step(clk *clocktesting.FakeClock, d time.Duration) {
	for !clk.HasWaiters() {
		runtime.Gosched()
	}
	clk.Step(d)
}

// fifo makes a named pipe: opening either end waits for the other one.
func fifo(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, fifo string) *bufio.Reader {
	t.Helper()
	f, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return bufio.NewReader(f)
}

func line(t *testing.T, r *bufio.Reader) {
	t.Helper()
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}

// release lets whoever reads a line from the named pipe go on.
func release(t *testing.T, fifo string) {
	t.Helper()
	write(t, fifo, "\n", 0)
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}
