// Package cut bounds texts to what the API server takes.
package cut

import "strings"

const ellipsis = "…"

// Head returns a text of at most so many bytes as it is, and of a longer one the
// beginning, in whole characters and with an ellipsis.
func Head(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(ellipsis)], "") + ellipsis
}
