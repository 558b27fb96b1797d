package command

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const (
	// maxOutput is how much of a command's output is kept, in bytes.
	maxOutput = 4 << 10
	// maxLine is the longest line that is searched for what is to be redacted.
	maxLine = 16 << 10
	// maxGrown is how long a line may become by what stands for the redacted.
	maxGrown = 4 * maxLine

	redacted = "***"
	tooLong  = "(a line of more than 16 KiB is withheld, since it can't be redacted)"
	grown    = "(a line is withheld: with all of it redacted that is to be, it becomes too long)"
	cutShort = "(the last line is withheld: it may be incomplete, so it can't be redacted)"
)

// output is a writer that keeps the end of what a command prints, as its policy
// says, and never fails. Safe for concurrent use.
type output struct {
	mu       sync.Mutex
	none     bool
	withheld string // stands for all of the output
	redact   []*regexp.Regexp
	line     []byte // the last line as far as it is known, if it is to be redacted
	skip     bool   // the rest of this line is dropped
	tail     tail
}

// newOutput returns one that follows the policy, which may be nil. In the middle
// means that somebody else has read the beginning.
func newOutput(policy *v1alpha1.OutputPolicy, inTheMiddle bool) *output {
	o := &output{}
	o.tail.truncated = inTheMiddle
	if policy == nil {
		return o
	}
	o.none = policy.Keep == v1alpha1.OutputNone
	for i, pattern := range policy.Redact {
		re, err := regexp.Compile(pattern)
		if err != nil {
			o.withheld = fmt.Sprintf("(the output is withheld: output.redact[%d] of the policy is not a regular expression in RE2 syntax)", i)
			break
		}
		o.redact = append(o.redact, re)
	}
	o.skip = inTheMiddle && len(o.redact) > 0 // the first line may lack what a pattern looks for
	return o
}

// Kept returns what is kept of a text, as of the output of a command: the end, redacted, as valid UTF-8
// of 4 KiB at most, and whether anything before it was cut.
func Kept(policy *v1alpha1.OutputPolicy, text string) (kept string, truncated bool) {
	o := newOutput(policy, false)
	_, _ = o.Write([]byte(text)) // never fails
	return o.text(true)
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.none || o.withheld != "":
	case len(o.redact) == 0:
		o.tail.write(p)
	default:
		for line := range bytes.Lines(p) {
			o.add(line)
		}
	}
	return len(p), nil
}

// add takes a piece of a line, perhaps its end.
func (o *output) add(piece []byte) {
	complete := bytes.HasSuffix(piece, []byte("\n"))
	if !o.skip {
		o.line = append(o.line, piece...)
		if len(o.line) > maxLine {
			o.line = append(o.line[:0], tooLong...)
			o.skip = true
			o.tail.write(append(o.line, '\n'))
			o.line = o.line[:0]
		}
	}
	if complete {
		if !o.skip {
			o.tail.write(o.clear(o.line))
		}
		o.line, o.skip = o.line[:0], false
	}
}

// clear replaces what the patterns match. They see what people would see, without the
// end of the line.
func (o *output) clear(line []byte) []byte {
	text := bytes.TrimSuffix(line, []byte("\n"))
	if len(text) < len(line) {
		text = bytes.TrimSuffix(text, []byte("\r"))
	}
	end := line[len(text):]
	line = bytes.ToValidUTF8(text, []byte(string(utf8.RuneError)))
	for _, re := range o.redact {
		line = re.ReplaceAllLiteral(line, []byte(redacted))
		if len(line) > maxGrown { // a pattern that matches nothing puts *** between all characters
			line = []byte(grown)
			break
		}
	}
	return append(line, end...)
}

// text returns what is kept, as valid UTF-8 of at most maxOutput bytes, and whether
// anything before it was cut. whole says that all was written that there ever was to be,
// so that the last line is complete even without its end. Nothing is written afterwards.
func (o *output) text(whole bool) (text string, truncated bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.none:
		return "", false
	case o.withheld != "":
		return o.withheld, false
	}
	if len(o.line) > 0 {
		last := []byte(cutShort)
		if whole {
			last = o.clear(o.line)
		}
		o.tail.write(last)
		o.line = nil
	}
	return o.tail.text()
}

// tail keeps the last maxOutput bytes.
type tail struct {
	buf       []byte
	truncated bool
}

func (t *tail) write(p []byte) {
	if excess := len(p) - maxOutput; excess > 0 {
		p, t.buf, t.truncated = p[excess:], t.buf[:0], true
	}
	t.buf = append(t.buf, p...)
	if excess := len(t.buf) - maxOutput; excess > 0 {
		t.buf = t.buf[:copy(t.buf, t.buf[excess:])]
		t.truncated = true
	}
}

// text replaces runs of invalid bytes by one U+FFFD.
func (t *tail) text() (text string, truncated bool) {
	kept := t.buf
	if t.truncated {
		kept = trimPartialRune(kept)
	}
	text = strings.ToValidUTF8(string(kept), string(utf8.RuneError))
	if excess := len(text) - maxOutput; excess > 0 {
		return string(trimPartialRune([]byte(text[excess:]))), true
	}
	return text, t.truncated
}

// trimPartialRune drops the rest of a rune whose beginning was cut.
func trimPartialRune(b []byte) []byte {
	for i := 0; i < utf8.UTFMax && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
