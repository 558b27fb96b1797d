package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	stdlog "log"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
)

// logLine is what the tests read of one.
type logLine struct {
	Level, Msg  string
	Line, Lines int
}

func TestLoggingNeverWaitsForAReader(t *testing.T) {
	const count = 100_000
	r, w := newPipe(t)
	log := newTestLog(t, w)
	logger := newLogger(log, 0)
	for i := range count { // if that waits for a reader, there is none, and go test tells where it hangs
		logger.Info("old", "line", i)
	}

	read := make(chan []byte)
	go func() {
		text, err := io.ReadAll(r)
		if err != nil {
			t.Error(err)
		}
		read <- text
	}()
	flushed := make(chan struct{}) // Flush and Close have no patience with a reader that is slow
	log.change(func(q *lineQueue) { q.flushing = append(q.flushing, flushed) })
	<-flushed
	logger.Info("new")
	log.Close()
	<-log.ended
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text := <-read

	const pipe = 64 << 10
	if most := 2*logBuffer + pipe + 4<<10; len(text) > most {
		t.Errorf("%d bytes were kept, want %d at most", len(text), most)
	}
	// A writer that is slow may leave gaps before the pipe is full. Each is told of.
	next, gaps, last := 0, 0, ""
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var line logLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%v: %q", err, lines.Text())
		}
		last = line.Msg
		switch {
		case line.Msg == "old" && line.Line == next:
			next++
		case strings.Contains(line.Msg, "dropped") && line.Level == "INFO":
			next += line.Lines
			gaps++
		case line.Msg != "new" || next != count:
			t.Fatalf("after %d lines and %d notices comes %+v", next, gaps, line)
		}
	}
	if next != count || gaps == 0 || last != "new" {
		t.Errorf("%d lines were written or told of, want %d; %d notices; the last line is %q, want the newest", next, count, gaps, last)
	}
}

// writerFunc is an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(text []byte) (int, error) { return f(text) }

func TestLinesThatCannotBeWrittenAreCounted(t *testing.T) {
	var written strings.Builder
	var full atomic.Bool
	full.Store(true)
	log := newTestLog(t, writerFunc(func(text []byte) (int, error) {
		if full.Load() {
			return min(3, len(text)), errors.New("no space left on device")
		}
		return written.Write(text)
	}))
	write := func(text string) {
		if n, err := io.WriteString(log, text); n != len(text) || err != nil {
			t.Errorf("writing %q: %d, %v", text, n, err)
		}
		log.Flush()
	}
	write("1\n2\n3\n") // of which one gets through
	write("four\nfive\n")
	full.Store(false)
	write("six\n")
	write("seven\n")
	lines := strings.Split(written.String(), "\n")
	if len(lines) != 4 || !strings.HasSuffix(lines[0], `"lines":4}`) || lines[1] != "six" || lines[2] != "seven" {
		t.Errorf("written is %q, want a notice of 4 lines, six, seven", lines)
	}
}

func TestDroppedLinesAreToldOfWhereTheyAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written strings.Builder
		reader := make(chan struct{})
		log := newTestLog(t, writerFunc(func(text []byte) (int, error) {
			<-reader
			return written.Write(text)
		}))
		for _, line := range []string{"being written", "waiting", strings.Repeat("too long", logBuffer/8), "after the gap"} {
			_, _ = io.WriteString(log, line+"\n") // never fails
			synctest.Wait()
		}
		close(reader)
		log.Flush()
		_, _ = io.WriteString(log, "new\n")
		log.Flush()
		lines := strings.Split(written.String(), "\n")
		if len(lines) != 5 || lines[0] != "being written" || lines[1] != "waiting" || !strings.HasSuffix(lines[2], `"lines":2}`) || lines[3] != "new" {
			t.Errorf("written is %q, want two lines, a notice of two, the new one", lines)
		}
	})
}

func TestTheEndOfTheLogWaitsForAReaderOnlyForAMoment(t *testing.T) {
	for name, end := range map[string]func(*lineWriter){"Flush": (*lineWriter).Flush, "Close": (*lineWriter).Close} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reader := make(chan struct{})
				log := newTestLog(t, writerFunc(func(text []byte) (int, error) {
					<-reader
					return len(text), nil
				}))
				defer close(reader)
				_, _ = io.WriteString(log, "a line\n") // never fails
				began := time.Now()
				end(log)
				if took := time.Since(began); took != logFlush {
					t.Errorf("it waited for %s, want %s", took, logFlush)
				}
			})
		})
	}
}

func TestWhatIsLoggedAfterTheEndGoesNowhere(t *testing.T) {
	var written strings.Builder
	log := newTestLog(t, &written)
	_, _ = io.WriteString(log, "before\n")
	log.Close()
	_, _ = io.WriteString(log, "after\n")
	log.Flush()
	log.Close()
	if written.String() != "before\n" {
		t.Errorf("written is %q, want what came before the end", written.String())
	}
}

func TestAllThatTheProgramLogsIsWrittenBeforeKlogEndsIt(t *testing.T) {
	var written strings.Builder
	root := newRootCommand(newTestLog(t, &written))
	root.SetOut(io.Discard)
	root.SetArgs([]string{"version"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	klog.Error("from klog")
	stdlog.Print("from the standard library")
	klog.Flush() // as klog.Fatal does
	for _, want := range []string{`"level":"ERROR","msg":"from klog"`, `"level":"INFO","msg":"from the standard library"`} {
		if !strings.Contains(written.String(), want) {
			t.Errorf("%s is not in the log:\n%s", want, written.String())
		}
	}
}
