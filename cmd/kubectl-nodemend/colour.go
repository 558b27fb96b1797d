package main

import (
	"os"
	"regexp"
)

// marks are what people look for in an answer, and how it is written on a terminal: the
// parameters of "select graphic rendition", see ECMA-48. They are painted in this order.
var marks = []struct {
	text  *regexp.Regexp
	style string
}{
	{regexp.MustCompile(`(?m)^THE CONTROLLER DOES NOT WORK$`), "1;31"},
	{regexp.MustCompile(`(?m)^NEEDS YOU$`), "1;33"},
	{regexp.MustCompile(`(?m)^ *[A-Z][A-Z ]+[A-Z]$`), "1"}, // the header of a table
	{regexp.MustCompile(`\b(Exhausted|Failed|Lost|TimedOut|OVER|HELD)\b`), "31"},
	{regexp.MustCompile(`\b(Waiting|ApprovalRequired|ReleaseRequired|DryRun)\b`), "33"},
	{regexp.MustCompile(`\b(Recovered|RecoveredByItself|Succeeded|Drained)\b|(?m)^healthy\b`), "32"},
}

// painted returns a text in colours, if it goes to a terminal and NO_COLOR
// (https://no-color.org) is not set.
func (t *tool) painted(text string) string {
	if !isTerminal(t.streams) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return text
	}
	for _, m := range marks {
		text = m.text.ReplaceAllString(text, "\x1b["+m.style+"m$0\x1b[0m")
	}
	return text
}
