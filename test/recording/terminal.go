package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// event is what a program wrote at once, and when, since its start.
type event struct {
	at   time.Duration
	text string
}

// span is a part of a line in one style.
type span struct {
	column int
	style  string // class names of the picture, separated by spaces
	text   string
}

// terminal is one that is as high as its lines. It knows lines and colours.
type terminal struct {
	columns int
	lines   [][]span
	column  int    // of the cursor, which is in the last line
	style   string // of what comes next
}

// piece is a sequence of ECMA-48 that sets the style, a control character, or text.
var piece = regexp.MustCompile(`\x1b\[([0-9;]*)m|[\x00-\x1f\x7f]|[^\x00-\x1f\x7f]+`)

// styles are the parameters of "select graphic rendition" that a terminal knows, as class names.
var styles = map[string]string{
	"1": "b", "2": "d", "31": "red", "32": "green", "33": "yellow", "34": "blue", "35": "magenta", "36": "cyan",
}

// write shows what a program writes. It returns an error for what it can't show.
func (t *terminal) write(text string) error {
	for _, match := range piece.FindAllStringSubmatch(text, -1) {
		switch {
		case match[0] == "\r":
			t.column = 0
		case match[0] == "\n":
			t.lines, t.column = append(t.lines, nil), 0
		case strings.HasSuffix(match[0], "m") && match[0][0] == '\x1b':
			if err := t.render(match[1]); err != nil {
				return err
			}
		case match[0] < " " || match[0] == "\x7f":
			return fmt.Errorf("the program wrote %q in %q: only lines and colours can be shown", match[0], text)
		default:
			if err := t.print(match[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

// render changes the style by the parameters of a sequence.
func (t *terminal) render(parameters string) error {
	for p := range strings.SplitSeq(parameters, ";") {
		style, known := styles[p]
		switch {
		case p == "" || p == "0":
			t.style = ""
		case !known:
			return fmt.Errorf("the program set the style %q; known are 0 and those of %v", p, styles)
		case !slices.Contains(strings.Fields(t.style), style):
			t.style = strings.TrimSpace(t.style + " " + style)
		}
	}
	return nil
}

// print writes text without control characters. It goes on in the next line where the terminal ends.
func (t *terminal) print(text string) error {
	if len(t.lines) == 0 {
		t.lines = append(t.lines, nil)
	}
	last := &t.lines[len(t.lines)-1]
	if t.column == 0 && len(*last) > 0 {
		return fmt.Errorf("the program wrote over a line with %q: only lines that stay can be shown", text)
	}
	if n := utf8.RuneCountInString(text); t.column+n > t.columns {
		runes := []rune(text)
		fits := t.columns - t.column
		if fits > 0 {
			*last = append(*last, span{column: t.column, style: t.style, text: string(runes[:fits])})
		}
		t.lines, t.column = append(t.lines, nil), 0
		return t.print(string(runes[fits:]))
	}
	*last = append(*last, span{column: t.column, style: t.style, text: text})
	t.column += utf8.RuneCountInString(text)
	return nil
}
