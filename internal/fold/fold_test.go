package fold

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"
)

func TestALineIsBrokenAtSpaces(t *testing.T) {
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
		{"a command that fits below", "to retry: kubectl nodemend retry a", 30, 2, []string{"to retry:", "  kubectl nodemend retry a"}},
		{"a command that fits nowhere", "do: kubectl nodemend retry worker-17", 20, 2, []string{"do:", "  kubectl nodemend retry worker-17"}},
		{"what follows a command", "do: kubectl nodemend retry worker-17; or leave it", 20, 0, []string{"do:", "kubectl nodemend retry worker-17;", "or leave it"}},
		{"a quoted command", `see "kubectl get rpol -o wide" for all`, 20, 0, []string{"see", `"kubectl get rpol -o wide"`, "for all"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Line(tc.text, tc.width, tc.indent); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestLinesAreFoldedEachBelowItself(t *testing.T) {
	const text = "one two three\n  four five six\n\nseven"
	if got, want := Lines(text, 10), "one two\n    three\n  four\n      five\n      six\n\nseven"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Lines(text, 0); got != text {
		t.Errorf("without a width: %q", got)
	}
}

func TestParagraphsAreFilled(t *testing.T) {
	const text = "one two three\nfour\n\n  kept as\n  it is\n  not a one\nfive\nsix"
	if got, want := Paragraphs(text, 10), "one two\nthree four\n\n  kept as\n  it is\n  not a\n      one\nfive six"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheWidthIsThatOfTheTerminal(t *testing.T) {
	seen, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = seen.Close(), terminal.Close() }()
	for columns, want := range map[uint16]int{80: 80, 132: 132, 10: 40} {
		if err := pty.Setsize(terminal, &pty.Winsize{Cols: columns, Rows: 24}); err != nil {
			t.Fatal(err)
		}
		if got := Width(terminal); got != want {
			t.Errorf("of %d columns: %d", columns, got)
		}
	}
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for _, none := range []interface {
		Write([]byte) (int, error)
	}{file, &strings.Builder{}} {
		if got := Width(none); got != 0 {
			t.Errorf("of %T: %d", none, got)
		}
	}
}
