package exporter

import (
	"strings"
	"testing"
)

func TestTextIsBoundedAndValid(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"short":              {"all well", "all well"},
		"exactly the limit":  {strings.Repeat("x", 16), strings.Repeat("x", 16)},
		"too long":           {strings.Repeat("x", 17), strings.Repeat("x", 13) + "…"},
		"cut inside a rune":  {strings.Repeat("x", 12) + "äöüß", strings.Repeat("x", 12) + "…"},
		"invalid":            {"bad \xff\xfe bytes", "bad � bytes"},
		"invalid at the cut": {strings.Repeat("x", 12) + "\xc3" + strings.Repeat("y", 9), strings.Repeat("x", 12) + "…"},
	} {
		if got := bound(tc.text, 16); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
