// Package repairnote carries what a technician has to know of a broken part in the message of a
// node condition: a detector may write its node's conditions, and nothing else. The note stands
// behind what the message tells everybody.
package repairnote

import (
	"strings"

	"github.com/nodemend/nodemend/internal/cut"
)

const (
	// mark begins the note in a message.
	mark = " | for the technician: "
	// separator is between two lines of a note.
	separator = "; "
)

// Limits of a note: how many lines it has, how many bytes one of them has, and all together.
const (
	MaxLines = 32
	MaxLine  = 256
	MaxNote  = 2048
)

// Join returns the message with a note behind it; without one if there are no lines. What is too
// much is left out, and counts as "…".
func Join(message string, lines []string) string {
	var note []string
	length := 0
	for _, line := range lines {
		line = cut.Head(strings.ReplaceAll(oneLine(line), separator, ", "), MaxLine)
		length += len(line) + len(separator)
		if len(note) == MaxLines-1 || length > MaxNote-len(separator)-len("…") {
			note = append(note, "…")
			break
		}
		note = append(note, line)
	}
	if len(note) == 0 {
		return message
	}
	return message + mark + strings.Join(note, separator)
}

// Split returns what a message tells everybody, and the lines of its note, of which anybody may
// have written anything: they are cut to the limits and print.
func Split(message string) (said string, lines []string) {
	said, note, found := strings.Cut(message, mark)
	if !found {
		return message, nil
	}
	for line := range strings.SplitSeq(cut.Head(note, MaxNote), separator) {
		if line = strings.TrimSpace(oneLine(line)); line != "" && len(lines) < MaxLines {
			lines = append(lines, cut.Head(line, MaxLine))
		}
	}
	return said, lines
}

// Said returns what a message tells everybody.
func Said(message string) string {
	said, _ := Split(message)
	return said
}

// Bound returns a message with at most so many bytes of what it tells everybody, and with its
// note within the limits.
func Bound(message string, most int) string {
	said, lines := Split(message)
	return Join(cut.Valid(said, most), lines)
}

// oneLine makes a line of what was read somewhere.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, cut.Plain(text))
}
