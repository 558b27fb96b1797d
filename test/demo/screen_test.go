package main

import (
	"slices"
	"strings"
	"testing"
)

func TestTextIsFoldedAtSpaces(t *testing.T) {
	for _, tc := range []struct {
		name, text    string
		width, indent int
		want          []string
	}{
		{"fits", "a b  c", 6, 2, []string{"a b  c"}},
		{"empty", "", 6, 2, []string{""}},
		{"at a space", "one two three", 8, 0, []string{"one two", "three"}},
		{"exactly at the width", "one two three", 7, 0, []string{"one two", "three"}},
		{"indented", "  one two three", 11, 4, []string{"  one two", "    three"}},
		{"no space", "abcdefghij", 4, 0, []string{"abcd", "efgh", "ij"}},
		{"no space but those of the indent", "  abcdefghij", 8, 4, []string{"  abcdef", "    ghij"}},
		{"runes, not bytes", "äöü äöü", 4, 0, []string{"äöü", "äöü"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := fold(tc.text, tc.width, tc.indent); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	for _, colours := range []bool{false, true} {
		var out strings.Builder
		s := screen{out: &out, colours: colours}
		s.item("+ 0.0s ", red, "fault", 8, "it hangs")
		want := "+ 0.0s fault   it hangs\n"
		if colours {
			want = "+ 0.0s \x1b[31mfault   \x1b[0mit hangs\n"
		}
		if got := out.String(); got != want {
			t.Errorf("colours %v: got %q, want %q", colours, got, want)
		}
	}
}
