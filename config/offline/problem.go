package offline

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Problem is one thing that is wrong, or worth a second look, in one place of
// one file.
type Problem struct {
	// File is the name that the file was given to Check under.
	File string `json:"file"`
	// Line counts from 1; 0 means the file as a whole.
	Line int `json:"line,omitempty"`
	// Column counts characters from 1; 0 means the line as a whole.
	Column int `json:"column,omitempty"`
	// Object is the kind and name, such as "RemedyPolicy/containers". Empty
	// when it is not known.
	Object string `json:"object,omitempty"`
	// Field is the path as the API server writes it, such as
	// "spec.steps[0].command.argv". Empty for the object as a whole.
	Field string `json:"field,omitempty"`
	// Message says what is wrong and what is accepted.
	Message string `json:"message"`
}

// String returns "file:line:column: object: field: message" without the parts
// that are not known.
func (p Problem) String() string {
	place := printable(p.File)
	if p.Line > 0 {
		place += fmt.Sprintf(":%d", p.Line)
		if p.Column > 0 {
			place += fmt.Sprintf(":%d", p.Column)
		}
	}
	parts := slices.DeleteFunc([]string{place, printable(p.Object), printable(p.Field), p.Message}, func(part string) bool { return part == "" })
	return strings.Join(parts, ": ")
}

// printable quotes names with characters that would break the line.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// byPlace orders the problems of one file by line and column.
func byPlace(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}
