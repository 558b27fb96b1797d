package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asProgram is an environment variable that makes this test binary nodemend.
const asProgram = "NODEMEND_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(runAll(m))
}

func newTestLog(t *testing.T, out io.Writer) *lineWriter {
	t.Helper()
	log := newLineWriter(out)
	t.Cleanup(log.Close)
	return log
}

func newPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() }) // a test may have closed them
	return r, w
}

// fill fills a pipe.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	if err := w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := w.Write(make([]byte, 8<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the pipe is not full after %d bytes: %v", n, err)
	}
}

func TestTheProgramEndsEvenIfNobodyReadsItsErrors(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, r, w *os.File){
		"a full pipe":   func(t *testing.T, _, w *os.File) { fill(t, w) },
		"a broken pipe": func(_ *testing.T, r, _ *os.File) { _ = r.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			r, w := newPipe(t)
			prepare(t, r, w)
			if err := unix.SetNonblock(int(w.Fd()), false); err != nil { // as other programs have it
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			program := exec.CommandContext(ctx, os.Args[0], "policy", "check")
			program.Env = append(os.Environ(), asProgram+"=yes")
			program.Stderr = w
			err := program.Run()
			if program.ProcessState.ExitCode() != 2 {
				t.Errorf("the program ended with %v, want exit status 2", err)
			}
		})
	}
}

func checkError(t *testing.T, err error, want string, wantUsage bool) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("error %q, want none", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want %q", err, want)
	}
	if usage := errors.As(err, new(usageError)); usage != wantUsage {
		t.Errorf("wrong usage: %t, want %t", usage, wantUsage)
	}
}
