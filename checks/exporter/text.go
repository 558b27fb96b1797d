package exporter

import (
	"strings"
	"unicode/utf8"
)

// Limits in bytes; a Node is read by many and its size matters.
const (
	maxReason  = 128
	maxMessage = 1024
)

// bound returns text as valid UTF-8 of at most limit bytes. What is cut off is
// replaced by an ellipsis.
func bound(text string, limit int) string {
	const ellipsis = "…"
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if len(text) <= limit {
		return text
	}
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + ellipsis
}
