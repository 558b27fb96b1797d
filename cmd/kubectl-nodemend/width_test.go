package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/spf13/cobra"
)

// tooLong are the lines of a text that do not fit, but for commands, which people copy.
func tooLong(text string, width int) (lines []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if utf8.RuneCountInString(line) > width && !strings.HasPrefix(strings.TrimLeft(line, " "), "kubectl ") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestWhatIsHelpedWithFitsATerminal(t *testing.T) {
	var commands func(*cobra.Command, []string)
	commands = func(cmd *cobra.Command, path []string) {
		var out strings.Builder
		root := newRootCommand(genericiooptions.IOStreams{Out: &out, ErrOut: &out}, nil)
		root.SetArgs(append(path, "--help"))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Error(err)
		}
		for _, line := range tooLong(out.String(), 80) {
			t.Errorf("kubectl nodemend %s --help: %s", strings.Join(path, " "), line)
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "completion" { // its help is cobra's
				commands(sub, append(append([]string{}, path...), sub.Name()))
			}
		}
	}
	commands(newRootCommand(genericiooptions.IOStreams{}, nil), nil)
}
