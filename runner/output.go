package runner

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// maxOutput is how much of a command's output is kept, in bytes.
const maxOutput = 4 << 10

// maxMessage bounds the message of a condition, in bytes.
const maxMessage = 1 << 10

// tail is a writer that keeps the last maxOutput bytes written to it and never
// fails. Its zero value is ready to use. Safe for concurrent use.
type tail struct {
	mu        sync.Mutex
	buf       []byte
	truncated bool
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if excess := len(t.buf) - maxOutput; excess > 0 {
		t.buf = t.buf[:copy(t.buf, t.buf[excess:])]
		t.truncated = true
	}
	return len(p), nil
}

// text returns what was kept as valid UTF-8 of at most maxOutput bytes, and
// whether anything before it was cut. Runs of invalid bytes become one U+FFFD.
func (t *tail) text() (text string, truncated bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
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

// clip bounds a message to maxMessage bytes of valid UTF-8.
func clip(message string) string {
	message = strings.ToValidUTF8(message, string(utf8.RuneError))
	if len(message) <= maxMessage {
		return message
	}
	const ellipsis = "…"
	end := maxMessage - len(ellipsis)
	for !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + ellipsis
}
