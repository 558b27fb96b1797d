// Package fold breaks texts into lines that fit a terminal.
package fold

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Usual is how many columns a terminal has that nobody has made wider.
const Usual = 80

// hang is by how many columns more than its first part the rest of a line is indented.
const hang = 4

// least is how many columns a line has at least: of less nobody reads a sentence.
const least = 40

// Width is how many columns the terminal has that this goes to, and 0 if it goes to none.
func Width(out io.Writer) int {
	file, ok := out.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return max(width, least)
}

// Lines folds each line of a text that is longer than the width; 0 leaves the text as it is. What
// comes below is indented by two more than its line.
func Lines(text string, width int) string {
	if width == 0 {
		return text
	}
	var folded strings.Builder
	for line := range strings.Lines(text) {
		content, ended := strings.CutSuffix(line, "\n")
		indent := len(content) - len(strings.TrimLeft(content, " "))
		folded.WriteString(strings.Join(Line(content, width, indent+hang), "\n"))
		if ended {
			folded.WriteString("\n")
		}
	}
	return folded.String()
}

// commands are command lines in a text, up to what ends them.
var commands = regexp.MustCompile(`"kubectl [^"]*"|\b(?:kubectl|nodemend (?:policy|hardware|fence)) [^;,()]*`)

// Line returns a line in parts of at most this width, broken at spaces if there are any; all but
// the first are indented. One that fits is left as it is. A command to be copied is not broken, however
// long it is.
func Line(text string, width, indent int) []string {
	var parts []string
	for utf8.RuneCountInString(text) > width {
		at := end(text, width)
		if at == len(text) {
			break
		}
		parts = append(parts, strings.TrimRight(text[:at], " "))
		text = strings.Repeat(" ", indent) + strings.TrimLeft(text[at:], " ")
	}
	return append(parts, text)
}

// end is where the first part of a text ends that is too long.
func end(text string, width int) int {
	begins := max(len(text)-len(strings.TrimLeft(text, " ")), 1)
	within := commands.FindAllStringIndex(text, -1)
	columns, best := 0, 0
	for i, r := range text {
		command := slices.IndexFunc(within, func(at []int) bool { return at[0] <= i && i < at[1] })
		switch {
		case r == ' ' && i >= begins && command < 0 && (columns <= width || best == 0):
			best = i
			if columns > width { // a long command ends here
				return best
			}
		case columns == width && best == 0 && command < 0:
			return i // a long word
		case columns > width && best > 0:
			return best
		}
		columns++
	}
	if best > 0 {
		return best
	}
	return len(text)
}

// Paragraphs fills the lines of each paragraph anew, and folds what is indented.
func Paragraphs(text string, width int) string {
	var lines []string
	var paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			lines = append(lines, Line(strings.Join(paragraph, " "), width, 0)...)
		}
		paragraph = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && line[0] != ' ' && line[0] != '\t' {
			paragraph = append(paragraph, line)
			continue
		}
		end()
		lines = append(lines, Lines(line, width))
	}
	end()
	return strings.Join(lines, "\n")
}
