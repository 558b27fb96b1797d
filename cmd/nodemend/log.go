package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
)

const (
	// logBuffer is how many bytes of lines can wait for a reader. As many can be
	// on their way out.
	logBuffer = 256 << 10
	// logFlush is how long the end of the program waits for a reader.
	logFlush = time.Second
)

// newLogger returns a logger of JSON lines. Verbosity is 0 for what operators
// need and higher for more.
func newLogger(w io.Writer, verbosity int) logr.Logger {
	return logr.FromSlogHandler(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.Level(-verbosity)}))
}

// standardError returns standard error as a file of its own: unlike one through
// os.Stderr, a write to it that has lost its reader fails and does not end the
// program.
func standardError() *os.File {
	const firstFree = 3
	fd, err := unix.FcntlInt(uintptr(unix.Stderr), unix.F_DUPFD_CLOEXEC, firstFree)
	if err != nil {
		return os.Stderr
	}
	return os.NewFile(uintptr(fd), os.Stderr.Name())
}

// lineWriter writes lines to a file that nobody may read, which is so for a pod
// whose container runtime hangs. Write never waits: what does not fit into the
// buffer is dropped, and a line in its place says how many lines were, once the
// file can be written again.
//
// All methods may be called concurrently.
type lineWriter struct {
	out     io.Writer
	changed chan struct{} // holds one if there is something new for run
	ended   chan struct{} // closed when run has ended

	lock  sync.Mutex
	queue lineQueue
}

// lineQueue is what a lineWriter has still to do, in this order.
type lineQueue struct {
	lines    []byte
	dropped  int             // lines
	flushing []chan struct{} // closed when the above is done
	closed   bool
}

// newLineWriter starts writing to out. Close it.
func newLineWriter(out io.Writer) *lineWriter {
	w := &lineWriter{out: out, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	go w.run()
	return w
}

// Write takes whole lines. It never fails.
func (w *lineWriter) Write(lines []byte) (int, error) {
	w.change(func(q *lineQueue) {
		// Nothing after a gap: it is told of where it is.
		if q.dropped > 0 || len(q.lines)+len(lines) > logBuffer {
			q.dropped += countLines(lines)
			return
		}
		q.lines = append(q.lines, lines...)
	})
	return len(lines), nil
}

// Flush waits until all lines so far are written, but not for long.
func (w *lineWriter) Flush() {
	flushed := make(chan struct{})
	w.change(func(q *lineQueue) { q.flushing = append(q.flushing, flushed) })
	w.await(flushed)
}

// Close is Flush, and the end: lines that come later go nowhere. If out lets
// nobody write, a goroutine waits for it even then.
func (w *lineWriter) Close() {
	w.change(func(q *lineQueue) { q.closed = true })
	w.await(w.ended)
}

func (w *lineWriter) await(done <-chan struct{}) {
	enough := time.NewTimer(logFlush)
	defer enough.Stop()
	select {
	case <-done:
	case <-w.ended:
	case <-enough.C:
	}
}

func (w *lineWriter) change(by func(*lineQueue)) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.queue.closed {
		return
	}
	by(&w.queue)
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// take leaves an empty queue behind.
func (w *lineWriter) take() lineQueue {
	w.lock.Lock()
	defer w.lock.Unlock()
	q := w.queue
	w.queue = lineQueue{closed: q.closed}
	return q
}

func (w *lineWriter) run() {
	defer close(w.ended)
	for lost, closed := 0, false; !closed; {
		<-w.changed
		q := w.take()
		lost = w.tell(lost)
		lost += w.write(q.lines) + q.dropped
		lost = w.tell(lost)
		for _, flushed := range q.flushing {
			close(flushed)
		}
		closed = q.closed
	}
}

// write returns how many lines it could not write.
func (w *lineWriter) write(lines []byte) (lost int) {
	if len(lines) == 0 {
		return 0
	}
	n, err := w.out.Write(lines)
	if err != nil {
		return countLines(lines[n:])
	}
	return 0
}

// tell says how many lines are missing here, and returns how many have still to be
// told of.
func (w *lineWriter) tell(lost int) int {
	if lost == 0 {
		return 0
	}
	var notice bytes.Buffer
	newLogger(&notice, 0).Info("Log lines were dropped because nobody read them", "lines", lost)
	if w.write(notice.Bytes()) > 0 {
		return lost
	}
	return 0
}

func countLines(text []byte) int { return bytes.Count(text, []byte("\n")) }
