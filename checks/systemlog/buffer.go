package systemlog

import (
	"bytes"
	"slices"
	"time"
)

// maxBuffered bounds what a buffer holds, in bytes. The oldest lines go before their time.
const maxBuffered = 1 << 20

// buffer holds the latest lines of a log, of which a pattern may span several. It finds what
// node-problem-detector's LogBuffer finds, which compiles each pattern and joins all lines
// for every line.
type buffer struct {
	// lines are at most as many as the configuration says, the oldest first. Those that were
	// there before the first one are blank, as node-problem-detector has it.
	lines []bufferedLine
	max   int
	// text holds all lines, each with a newline after it, from begin on.
	text  []byte
	begin int
	// pushed is how many lines there have been, and latest the last of them.
	pushed int
	latest string
}

type bufferedLine struct {
	at    time.Time
	bytes int
	blank bool
}

// newBuffer returns a buffer of at least one line.
func newBuffer(lines int) *buffer {
	b := &buffer{max: lines, text: bytes.Repeat([]byte("\n"), lines)}
	b.lines = slices.Repeat([]bufferedLine{{blank: true}}, lines)
	return b
}

// push takes in the next line.
func (b *buffer) push(log *logLine) {
	size := len(log.Message) + 1
	for len(b.lines) == b.max || len(b.lines) > 0 && len(b.text)-b.begin+size > maxBuffered {
		b.begin += b.lines[0].bytes + 1
		b.lines = b.lines[1:]
	}
	if b.begin >= len(b.text)/2 {
		b.text, b.begin = append(b.text[:0], b.text[b.begin:]...), 0
	}
	b.text = append(append(b.text, log.Message...), '\n')
	b.lines = append(b.lines, bufferedLine{at: log.Timestamp, bytes: len(log.Message)})
	b.pushed++
	b.latest = log.Message
}

// match looks for a pattern and returns the lines that its match is part of, joined, and
// the time stamp of the first. It is to be called for each line that is pushed.
func (b *buffer) match(p *pattern) (message string, first time.Time, found bool) {
	if p.mayBeIn(b.latest) {
		p.seen = b.pushed
	}
	if p.ownLine {
		if p.seen != b.pushed || !p.expression.MatchString(b.latest) {
			return "", time.Time{}, false
		}
		return b.latest, b.lines[len(b.lines)-1].at, true
	}
	if p.seen == 0 || b.pushed-p.seen >= len(b.lines) {
		return "", time.Time{}, false
	}
	text := b.text[b.begin : len(b.text)-1]
	at := p.expression.FindIndex(text)
	if at == nil {
		return "", time.Time{}, false
	}
	return b.from(text, at[0])
}

// from returns the lines of text from the one on in which a match begins.
func (b *buffer) from(text []byte, offset int) (message string, first time.Time, found bool) {
	start := len(text) + 1
	for _, line := range slices.Backward(b.lines) {
		if line.blank {
			break
		}
		start -= line.bytes + 1
		first = line.at
		if start <= offset+1 { // a newline at the beginning of a match brings no line
			break
		}
	}
	return string(text[start:]), first, true
}
