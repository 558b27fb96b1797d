package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/internal/fold"
)

// output is the form in which an answer is printed.
type output string

func (o *output) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP((*string)(o), "output", "o", "", "`form` of the answer: wide, json or yaml (default: a table)")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"wide", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.check() }
}

func (o output) check() error {
	switch o {
	case "", "wide", "json", "yaml":
		return nil
	default:
		return fmt.Errorf("unknown output %q; accepted are wide, json and yaml", string(o))
	}
}

func (o output) wide() bool { return o == "wide" }

// data reports whether it is for programs.
func (o output) data() bool { return o == "json" || o == "yaml" }

// print prints the answer: as data, or else as the text that people returns.
func (t *tool) print(o output, answer any, people func() string) error {
	text, err := o.text(answer, people)
	if err != nil {
		return err
	}
	return t.write(o, text)
}

// write writes an answer in this form.
func (t *tool) write(o output, text string) error {
	if !o.data() {
		text = t.painted(text)
	}
	_, err := fmt.Fprint(t.streams.Out, text)
	return err
}

// text returns the answer in this form.
func (o output) text(answer any, people func() string) (string, error) {
	switch o {
	case "json", "yaml":
		data, err := json.MarshalIndent(answer, "", "  ")
		if err == nil && o == "yaml" {
			data, err = yaml.JSONToYAML(data)
		}
		if err != nil {
			return "", fmt.Errorf("writing the answer: %w", err)
		}
		return strings.TrimRight(string(data), "\n") + "\n", nil
	default:
		return visible(people()), nil
	}
}

// againEvery is how often what is watched with -w is looked at.
const againEvery = 2 * time.Second

// again shows a text until the context ends: on a terminal in the place of the last one,
// elsewhere below it, whenever it has changed. What goes wrong later than the first time is
// shown, too, and it goes on.
func (t *tool) again(ctx context.Context, show func(context.Context) (string, error)) error {
	var last string
	for first := true; ; first = false {
		text, err := show(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end is asked for
		case err != nil && first:
			return err
		case err != nil:
			text = "error: " + visible(explained(err).Error()) + "\n"
		}
		switch now := t.timeOfDay(); {
		case isTerminal(t.streams):
			_, _ = fmt.Fprintf(t.streams.Out, "\x1b[H\x1b[2J%s  every %s, until Ctrl-C\n\n%s", now, againEvery, t.painted(text)) // nobody is left to tell
		case text != last:
			_, _ = fmt.Fprintf(t.streams.Out, "--- %s\n%s", now, text)
		}
		last = text
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(againEvery):
		}
	}
}

// timeOfDay is the time where this runs: the clock continues from what the API server says,
// which is UTC, where the local one is wrong.
func (t *tool) timeOfDay() string { return t.clock.Now().Local().Format(time.TimeOnly) }

// visible returns a text without what a terminal obeys: a node writes its conditions and
// outputs itself, and is not to write on the screen of who looks at it.
func visible(text string) string {
	return cut.Plain(text)
}

// oneLine returns a visible text that others have written, so that none of it looks like
// a line of ours.
func oneLine(text string) string {
	return visible(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, text))
}

// table returns rows in columns under a header.
func table(header []string, rows [][]string) string {
	var text strings.Builder
	w := printers.GetNewTabWriter(&text)
	if len(header) > 0 {
		_, _ = fmt.Fprintln(w, strings.Join(header, "\t")) // into memory
	}
	for _, row := range rows {
		cells := make([]string, len(row))
		for i := range row {
			cells[i] = oneLine(row[i])
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush()
	lines := strings.Split(text.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// width is how many columns sentences may take: those of the terminal, or else the usual ones.
func (t *tool) width() int {
	return cmp.Or(fold.Width(t.streams.Out), fold.Usual)
}

// folded folds the lines of an answer that are too long. What is quoted stays to the letter.
func (t *tool) folded(text string) string {
	var folded strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, quote) {
			line = fold.Lines(line, t.width())
		}
		folded.WriteString(line)
	}
	return folded.String()
}

// leastProse is how many columns the last column of a table has at least, to be folded in itself.
const leastProse = 16

// sentences is a table whose last column has sentences, which are folded in it.
func (t *tool) sentences(header []string, rows [][]string) string {
	var begins []int // how wide the columns before the last are
	for _, row := range append([][]string{header}, rows...) {
		for i := range len(row) - 1 {
			if i == len(begins) {
				begins = append(begins, 0)
			}
			begins[i] = max(begins[i], utf8.RuneCountInString(oneLine(row[i]))+columnGap, leastColumn)
		}
	}
	left := t.width()
	for _, width := range begins {
		left -= width
	}
	if left < leastProse {
		return t.folded(table(header, rows))
	}
	var folded [][]string
	for _, row := range rows {
		last := len(row) - 1
		for i, part := range fold.Line(oneLine(row[last]), left, 0) {
			line := slices.Clone(row)
			if i > 0 {
				line = make([]string, len(row))
			}
			line[last] = part
			folded = append(folded, line)
		}
	}
	return table(header, folded)
}

// The columns of kubectl's tables: the gap behind what is longest, and how wide one is at least.
const (
	columnGap   = 3
	leastColumn = 6
)

// ago is the age of a time, as kubectl prints it.
func (t *tool) ago(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return span(t.clock.Since(at))
}

// span is a length of time, as kubectl prints it.
func span(d time.Duration) string { return duration.HumanDuration(d) }

// spanFlag is a length of time on the command line. Beside the units of Go it takes days.
type spanFlag time.Duration

// Type names what the flag takes, in the help.
func (s *spanFlag) Type() string { return "duration" }

func (s *spanFlag) String() string {
	if *s == 0 {
		return ""
	}
	return cut.Zeros(time.Duration(*s))
}

// Set reads "90s", "1h30m", "1d" or "1d12h".
func (s *spanFlag) Set(text string) error {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	d, err := strconv.ParseUint(days, 10, 14)
	var left time.Duration
	if rest != "" && err == nil {
		left, err = time.ParseDuration(rest)
	}
	if err != nil || left < 0 || text == "" {
		return errors.New("accepted are numbers with the units d, h, m and s, for example 90s, 1h30m or 1d")
	}
	*s = spanFlag(time.Duration(d)*24*time.Hour + left)
	return nil
}

// lineWidth is how many columns the lines of a table have without -o wide.
const lineWidth = fold.Usual

// fit cuts the lines of a text to the width of a terminal, if it is not to be wide.
func fit(text string, wide bool) string {
	if wide {
		return text
	}
	var fitting strings.Builder
	for line := range strings.Lines(text) {
		if runes := []rune(strings.TrimSuffix(line, "\n")); len(runes) > lineWidth {
			line = string(runes[:lineWidth-1]) + "…\n"
		}
		fitting.WriteString(line)
	}
	return fitting.String()
}

// count is a number of things: "1 node", "2 nodes", "0 policies".
func count(n int, thing string) string {
	if stem, y := strings.CutSuffix(thing, "y"); y && n != 1 {
		thing = stem + "ies"
	} else if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// dash is the text, or - for none.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
