package repairnote

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestANoteIsReadAsItWasWritten(t *testing.T) {
	lines := []string{"server: Dell Inc. PowerEdge R740, serial ABC1234", "PSU1: failure detected, since 2026-11-21T05:48:33Z"}
	message := Join("PSU1: failure detected; and 1 more", lines)
	const want = "PSU1: failure detected; and 1 more | for the technician: " +
		"server: Dell Inc. PowerEdge R740, serial ABC1234; PSU1: failure detected, since 2026-11-21T05:48:33Z"
	if message != want {
		t.Errorf("got %q", message)
	}
	said, got := Split(message)
	if said != "PSU1: failure detected; and 1 more" || !slices.Equal(got, lines) || Said(message) != said {
		t.Errorf("got %q, %q", said, got)
	}
	if again := Bound(message, 100); again != message {
		t.Errorf("bounded to %q", again)
	}
	if again := Bound(message, 10); again != Join("PSU1: f…", lines) {
		t.Errorf("bounded to %q", again)
	}
}

func TestAMessageWithoutANoteIsItself(t *testing.T) {
	for _, message := range []string{"", "no hardware failure: 7 of 7 sensors available; a | b"} {
		if said, lines := Split(message); said != message || lines != nil {
			t.Errorf("%q: got %q, %q", message, said, lines)
		}
		if got := Join(message, nil); got != message {
			t.Errorf("%q: got %q", message, got)
		}
	}
}

func TestANoteIsBoundedAndPrints(t *testing.T) {
	long := strings.Repeat("ä", MaxNote)
	many := slices.Repeat([]string{"a line"}, 1000)
	for name, message := range map[string]string{
		"a long line":       Join("x", []string{long}),
		"many lines":        Join("x", many),
		"many long lines":   Join("x", slices.Repeat([]string{long}, 1000)),
		"somebody's":        "x" + mark + long,
		"somebody's, many":  "x" + mark + strings.Join(many, separator),
		"escapes":           "x" + mark + "a\x1b[2Jb\nc\td\u202e; e",
		"escapes of ours":   Join("x", []string{"a\x1b[2Jb\nc", "d; e"}),
		"nothing behind it": "x" + mark,
	} {
		said, lines := Split(message)
		if said != "x" || len(lines) > MaxLines || len(strings.Join(lines, separator)) > MaxNote {
			t.Errorf("%s: %q and %d lines", name, said, len(lines))
		}
		for _, line := range lines {
			if len(line) > MaxLine || !utf8.ValidString(line) || strings.ContainsAny(line, "\x1b\n\t\u202e;") {
				t.Errorf("%s: %q", name, line)
			}
		}
	}
	if message := Join("x", many); !strings.HasSuffix(message, "; a line; …") {
		t.Errorf("it does not say that lines are missing: %q", message)
	}
	if message := Bound(strings.Repeat("x", 5000)+mark+long, 1024); len(message) > 1024+len(mark)+MaxNote {
		t.Errorf("%d bytes", len(message))
	}
}
