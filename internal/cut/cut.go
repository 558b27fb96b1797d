// Package cut bounds texts to what the API server takes, and what people read.
package cut

import (
	"strings"
	"unicode/utf8"
)

const ellipsis = "…"

// Head returns a text of at most so many bytes as it is, and of a longer one the
// beginning, in whole characters and with an ellipsis.
func Head(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(ellipsis)], "") + ellipsis
}

// Valid returns the Head of a text that may not be UTF-8: what is not becomes U+FFFD.
func Valid(text string, most int) string {
	return Head(strings.ToValidUTF8(text, string(utf8.RuneError)), most)
}
