package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
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

// print prints the answer: as data, or else as the text that people returns.
func (t *tool) print(o output, answer any, people func() string) error {
	var text string
	switch o {
	case "json", "yaml":
		data, err := json.MarshalIndent(answer, "", "  ")
		if err == nil && o == "yaml" {
			data, err = yaml.JSONToYAML(data)
		}
		if err != nil {
			return fmt.Errorf("writing the answer: %w", err)
		}
		text = strings.TrimRight(string(data), "\n") + "\n"
	default:
		text = visible(people())
	}
	_, err := fmt.Fprint(t.streams.Out, text)
	return err
}

// visible returns a text without what a terminal obeys: a node writes its conditions and
// outputs itself, and is not to write on the screen of who looks at it.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		default:
			return unicode.ReplacementChar
		}
	}, text)
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

// ago is the age of a time, as kubectl prints it.
func (t *tool) ago(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return duration.HumanDuration(t.clock.Since(at))
}

// dash is the text, or - for none.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
