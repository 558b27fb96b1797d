package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"
)

// A character of the picture, in its units.
const (
	width  = 8.4
	height = 18
	margin = 14
)

// typed is how long the command is shown before its output begins.
const typed = time.Second

// film is how a recording is shown.
type film struct {
	title         string
	columns, rows int
	// pause is the longest time between two lines, line the shortest, hold that of the end.
	pause, line, hold time.Duration
}

// frame is how far the lines are by a time.
type frame struct {
	at    time.Duration
	lines int
}

//go:embed picture.svg.tmpl
var pictureText string

var pictureTemplate = template.Must(template.New("picture").Parse(pictureText))

// picture returns the SVG of a command and what it wrote. The last line is always at the
// bottom, so all that moves is the column of lines.
func (f film) picture(prompt string, events []event) ([]byte, error) {
	t := terminal{columns: f.columns}
	if err := t.write("\x1b[2m$\x1b[0m \x1b[1m" + prompt + "\x1b[0m\n"); err != nil {
		return nil, err
	}
	frames := []frame{{lines: shown(t.lines)}}
	var now, last time.Duration
	for i, e := range events {
		wait := min(e.at-last, f.pause)
		if i == 0 {
			wait = typed
		}
		last = e.at
		for line := range strings.Lines(e.text) {
			now += max(wait, f.line)
			wait = 0
			if err := t.write(line); err != nil {
				return nil, err
			}
			frames = append(frames, frame{at: now, lines: shown(t.lines)})
		}
	}
	total := now + f.hold
	var out bytes.Buffer
	err := pictureTemplate.Execute(&out, map[string]any{
		"Title": html.EscapeString(f.title), "Seconds": fmt.Sprintf("%.1f", total.Seconds()),
		"Width": fmt.Sprintf("%.0f", float64(f.columns)*width+2*margin), "Height": f.rows*height + 2*margin,
		"Columns": fmt.Sprintf("%.0f", float64(f.columns)*width), "Rows": f.rows * height, "Margin": margin,
		"Frames": f.keyframes(frames, total), "End": f.offset(shown(t.lines)), "Lines": lines(t.lines),
	})
	return out.Bytes(), err
}

// shown is how many lines are seen: an empty one with the cursor is not.
func shown(lines [][]span) int {
	if n := len(lines); n > 0 && len(lines[n-1]) == 0 {
		return n - 1
	}
	return len(lines)
}

// offset is where the column of lines stands for the last of them to be at the bottom.
func (f film) offset(lines int) int { return (f.rows - lines) * height }

// keyframes returns where the column of lines stands by when, in per cent of the total.
func (f film) keyframes(frames []frame, total time.Duration) string {
	var percents []string
	offsets := map[string]int{}
	for _, s := range frames {
		percent := fmt.Sprintf("%.2f%%", 100*s.at.Seconds()/total.Seconds())
		if _, there := offsets[percent]; !there {
			percents = append(percents, percent)
		}
		offsets[percent] = f.offset(s.lines)
	}
	var out strings.Builder
	previous := ""
	for _, percent := range percents {
		if move := fmt.Sprintf("{transform:translateY(%dpx)}", offsets[percent]); move != previous {
			out.WriteString(percent + move + "\n")
			previous = move
		}
	}
	return out.String()
}

// lines returns the text elements of all lines. Each span says where it starts and how long it
// is, so columns are columns with whatever font there is.
func lines(all [][]span) string {
	var out strings.Builder
	for i, line := range all {
		var spans strings.Builder
		for _, s := range line {
			text := strings.TrimRight(s.text, " ")
			if text == "" {
				continue
			}
			class := ""
			if s.style != "" {
				class = fmt.Sprintf(` class=%q`, s.style)
			}
			fmt.Fprintf(&spans, `<tspan x="%.1f" textLength="%.1f"%s>%s</tspan>`,
				float64(s.column)*width, float64(utf8.RuneCountInString(text))*width, class, html.EscapeString(text))
		}
		if spans.Len() > 0 {
			fmt.Fprintf(&out, "<text y=\"%d\">%s</text>\n", i*height+height-4, spans.String())
		}
	}
	return out.String()
}
