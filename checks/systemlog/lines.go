package systemlog

import "bytes"

// maxLine is the most of a line that is looked at, in bytes.
const maxLine = 256 << 10

// lineWriter hands what is written to it on as lines without their newline. Of a
// line longer than maxLine the rest is left out.
type lineWriter struct {
	// emit may keep the line no longer than until it returns.
	emit func(line []byte) error
	// pending is the beginning of a line that has not ended.
	pending []byte
}

// Write returns the error of emit.
func (w *lineWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		w.pending = append(w.pending, line[:min(len(line), maxLine-len(w.pending))]...)
		if ended {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
		rest = after
	}
	return len(p), nil
}

// flush hands on what is pending as a line.
func (w *lineWriter) flush() error {
	line := w.pending
	w.pending = w.pending[:0]
	return w.emit(line)
}

// reset forgets what is pending.
func (w *lineWriter) reset() { w.pending = w.pending[:0] }
