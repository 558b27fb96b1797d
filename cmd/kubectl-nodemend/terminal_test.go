package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// onTerminal returns what a real terminal of 80 by 24 is sent.
func onTerminal(t *testing.T, write func(streams genericiooptions.IOStreams)) string {
	t.Helper()
	seen, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(terminal, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	text := make(chan string)
	go func() {
		data, _ := io.ReadAll(seen) // it ends with EIO
		text <- string(data)
	}()
	write(genericiooptions.IOStreams{Out: terminal})
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = seen.Close() }()
	return strings.ReplaceAll(<-text, "\r\n", "\n")
}

func TestATerminalShowsColours(t *testing.T) {
	t.Setenv("TERM", "xterm")
	rows := [][]string{{"worker-15", "Exhausted"}, {"worker-16", "Recovered"}, {"worker-17", "\x1b[2J Lost"}}
	show := func(streams genericiooptions.IOStreams) {
		tool := atNoon()
		tool.streams = streams
		if err := tool.print("", nil, func() string { return "NEEDS YOU\n" + table([]string{"NODE", "STATE"}, rows) }); err != nil {
			t.Error(err)
		}
		if err := tool.print("json", rows[:1], nil); err != nil {
			t.Error(err)
		}
	}
	const plain = "NEEDS YOU\nNODE        STATE\nworker-15   Exhausted\nworker-16   Recovered\nworker-17   \ufffd[2J Lost\n[\n  [\n    \"worker-15\",\n    \"Exhausted\"\n  ]\n]\n"
	t.Setenv("NO_COLOR", "1")
	if got := onTerminal(t, show); got != plain {
		t.Errorf("without colours: %q", got)
	}
	t.Setenv("NO_COLOR", "")
	want := plain
	for _, m := range []struct{ style, text string }{
		{"1;33", "NEEDS YOU"}, {"1", "NODE        STATE"}, {"31", "Exhausted"}, {"32", "Recovered"}, {"31", "Lost"},
	} {
		want = strings.Replace(want, m.text, "\x1b["+m.style+"m"+m.text+"\x1b[0m", 1) // not in the JSON
	}
	if got := onTerminal(t, show); got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

func TestBarsFitARealTerminalAndLeaveNoDebris(t *testing.T) {
	var lines [3][]string
	for i := range lines {
		for n := range 40 {
			lines[i] = append(lines[i], fmt.Sprintf("worker-%02d  %d%%%s", n, 50*i, strings.Repeat(" x", 50)))
		}
	}
	got := played(t, onTerminal(t, func(streams genericiooptions.IOStreams) {
		s := newScreen(streams)
		for i := range lines {
			s.show(lines[i])
		}
	}))
	rows := strings.Split(strings.TrimSpace(got), "\n")
	if len(rows) != 22 {
		t.Errorf("%d rows are left on a terminal of 24: %s", len(rows), got)
	}
	for _, row := range rows {
		if !strings.Contains(row, "  100% x") || len(row) >= 80 {
			t.Errorf("a row is %q", row)
		}
	}
}
