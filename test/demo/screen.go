package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/nodemend/nodemend/internal/fold"
)

// columns is how wide the demo writes: no terminal is narrower.
const columns = fold.Usual

// style is a parameter of "select graphic rendition", see ECMA-48.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// screen is where the demo writes.
type screen struct {
	out     io.Writer
	colours bool
	gone    func() // called when nobody can read it any more
}

// newScreen writes to standard output, in colours if that is a terminal and NO_COLOR
// (https://no-color.org) is not set.
func newScreen(gone func()) screen {
	return screen{gone: gone, out: os.Stdout, colours: term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (s screen) line(text string) {
	if _, err := fmt.Fprintln(s.out, text); err != nil {
		s.gone()
	}
}

// in returns the text in a style.
func (s screen) in(style style, text string) string {
	if !s.colours || style == plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// item writes a head of so many columns and what is told about it, in lines that fit. lead
// comes before the head, unstyled.
func (s screen) item(lead string, style style, head string, width int, text string) {
	indent := utf8.RuneCountInString(lead) + width
	for i, line := range fold.Line(text, columns-indent, 0) {
		if i == 0 {
			s.line(lead + s.in(style, fmt.Sprintf("%-*s", width, head)) + line)
			continue
		}
		s.line(strings.Repeat(" ", indent) + line)
	}
}

// command writes a command and what it printed.
func (s screen) command(command, output string) {
	s.line(s.in(dim, "$") + " " + s.in(bold, continued(command)))
	s.line(fold.Lines(strings.TrimRight(output, "\n")+"\n", columns))
}

// continued returns a command in lines that fit, to copy.
func continued(command string) string {
	const room = columns - len("$ ") - len(` \`)
	text, width := "", 0
	for i, word := range strings.Split(command, " ") {
		switch n := utf8.RuneCountInString(word); {
		case i == 0:
			text, width = word, n
		case width+1+n > room:
			text, width = text+" \\\n    "+word, 4+n
		default:
			text, width = text+" "+word, width+1+n
		}
	}
	return text
}
