package cut

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestHead(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string
	}{
		{"", ""},
		{"12345678", "12345678"},
		{"123456789", "12345…"},
		{"1234ä6789", "1234…"}, // whole characters
		{strings.Repeat("ä", 4), "ääää"},
		{strings.Repeat("ä", 5), "ää…"},
	} {
		got := Head(tt.text, 8)
		if got != tt.want || len(got) > 8 || !utf8.ValidString(got) {
			t.Errorf("%q becomes %q, want %q", tt.text, got, tt.want)
		}
	}
}
