package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// NoteKind is what a note is about.
type NoteKind string

const (
	// Lost is what was not carried over.
	Lost NoteKind = "not carried over"
	// Question is what somebody has to decide.
	Question NoteKind = "which is meant"
)

// Note is about one place of one file.
type Note struct {
	// Kind is empty for a mistake.
	Kind NoteKind
	File string
	// Line counts from 1; 0 means the file as a whole.
	Line int
	// Field is the path of the field, or the flag. It may be empty.
	Field   string
	Message string
}

// String returns "file:line: field: kind: message", without what is not known, in one line.
func (n Note) String() string {
	place := n.File
	switch {
	case n.Line > 0 && n.File == "":
		place = fmt.Sprintf("line %d", n.Line)
	case n.Line > 0:
		place += fmt.Sprintf(":%d", n.Line)
	}
	parts := slices.DeleteFunc([]string{place, n.Field, string(n.Kind), n.Message}, func(part string) bool { return part == "" })
	return oneLine(strings.Join(parts, ": "))
}

// byPlace orders notes of one file by line; those of several files stay as they are.
func byPlace(a, b Note) int {
	if a.File != b.File {
		return 0
	}
	return cmp.Compare(a.Line, b.Line)
}
