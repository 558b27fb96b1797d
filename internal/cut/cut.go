// Package cut bounds texts to what the API server takes, and what people read.
package cut

import (
	"strings"
	"time"
	"unicode"
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

// Tail returns a text of at most so many bytes as it is, and of a longer one the end, in whole
// characters.
func Tail(text string, most int) string {
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return strings.ToValidUTF8(text, "")
}

// Zeros returns a length of time without the units that are zero at its end: "1h", not "1h0m0s".
func Zeros(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Valid returns the Head of a text of others: see Plain.
func Valid(text string, most int) string { return Head(Plain(text), most) }

// Plain returns a text of others as a terminal may show it: what is not UTF-8 becomes U+FFFD,
// and so does what does not print, but for tabs and ends of lines. Characters that follow an
// escape could rewrite the screen, and those that set the direction of writing turn a line
// around. Other spaces become plain ones.
func Plain(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\r\n", "\n"), string(utf8.RuneError))
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r) && !unicode.IsControl(r): // such as one that does not break the line
			return ' '
		default:
			return utf8.RuneError
		}
	}, text)
}
