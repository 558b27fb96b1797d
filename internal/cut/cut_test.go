package cut

import (
	"strings"
	"testing"
	"time"
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

func TestValid(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"short":              {"all well", "all well"},
		"exactly the limit":  {strings.Repeat("x", 16), strings.Repeat("x", 16)},
		"too long":           {strings.Repeat("x", 17), strings.Repeat("x", 13) + "…"},
		"cut inside a rune":  {strings.Repeat("x", 12) + "äöüß", strings.Repeat("x", 12) + "…"},
		"invalid":            {"bad \xff\xfe bytes", "bad � bytes"},
		"escapes":            {"a\x1b[2Jb\x00\u009bc", "a�[2Jb��c"},
		"directions":         {"a\u202eb\u200bc", "a�b�c"},
		"other spaces":       {"a\u00a0b\u2028c", "a b c"},
		"lines":              {"a\r\nb\rc\td\n", "a\nb�c\td\n"},
		"invalid at the cut": {strings.Repeat("x", 12) + "\xc3" + strings.Repeat("y", 9), strings.Repeat("x", 12) + "…"},
	} {
		if got := Valid(tc.text, 16); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestALengthOfTimeIsPrintedWithoutWhatIsZero(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m", 10 * time.Second: "10s", 70 * time.Second: "1m10s", 10 * time.Hour: "10h", time.Hour + time.Second: "1h0m1s",
	} {
		if got := Zeros(d); got != want {
			t.Errorf("%v is printed as %q, want %q", d, got, want)
		}
	}
}
