package customplugin

import (
	"strings"
	"unicode/utf8"
)

// maxCaptured is how much of a plugin's output is kept, in bytes: as much as NPD
// keeps.
const maxCaptured = 4 << 10

// head is a writer that keeps the first maxCaptured bytes written to it and
// never fails. Its zero value is ready to use.
type head struct{ kept []byte }

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), maxCaptured-len(h.kept))]...)
	return len(p), nil
}

// text returns what was kept without space around it, as valid UTF-8 of at most
// limit bytes. Runs of invalid bytes become one U+FFFD.
func (h *head) text(limit int) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(h.kept), string(utf8.RuneError)))
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
