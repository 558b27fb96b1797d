package customplugin

import (
	"strings"
	"unicode/utf8"
)

// maxCaptured is how much of a plugin's output is kept, in bytes: as much as NPD
// keeps.
const maxCaptured = 4 << 10

// text returns output without space around it, as valid UTF-8 of at most
// limit bytes. Runs of invalid bytes become one U+FFFD.
func text(output string, limit int) string {
	text := strings.TrimSpace(strings.ToValidUTF8(output, string(utf8.RuneError)))
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
