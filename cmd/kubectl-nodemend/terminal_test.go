package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// onTerminal returns what a real terminal of 80 by 24 is sent.
func onTerminal(t *testing.T, write func(streams genericiooptions.IOStreams)) string {
	t.Helper()
	return onTerminalOf(t, 80, write)
}

// onTerminalOf returns what a real terminal of so many columns is sent.
func onTerminalOf(t *testing.T, columns uint16, write func(streams genericiooptions.IOStreams)) string {
	t.Helper()
	seen, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(terminal, &pty.Winsize{Cols: columns, Rows: 24}); err != nil {
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

func TestSentencesAreFoldedToTheWidthOfTheTerminal(t *testing.T) {
	const long = "budget workers: 2 of 2 permits are taken, by worker-3 and worker-4, and 3 remediations are before this one, which waits since 12:00"
	w := &why{
		Node: "worker-17", State: []string{"Ready"}, Maintenances: []string{"worker-17-x: " + long},
		Policies: []whyPolicy{{
			Policy: "container-runtime", Mode: "Enforce", Verdict: "held by BudgetExhausted: " + long, Remediation: "worker-17-0123",
			State: v1alpha1.ReasonExhausted, Conditions: []whyMatch{{Match: "ContainerRuntimeUnhealthy=True for 1m", Now: "True (Timeout): " + long, Evidence: "the fault is confirmed"}},
			Script: "echo " + strings.Repeat("x", 100),
			Gates:  []whyGate{{Gate: "Budget", Held: true, Message: long}, {Gate: "Window", Held: true, Message: long}},
		}},
	}
	r := stands(1, v1alpha1.ReasonExhausted, "")
	r.Status.Conditions[0].Message = long
	m := v1alpha1.NodeMaintenance{Spec: v1alpha1.NodeMaintenanceSpec{NodeName: "worker-17", Reason: long, RequestedBy: "jane"}}
	m.Status.Drain = &v1alpha1.DrainStatus{Pods: []v1alpha1.RemainingPod{{Namespace: "shop", Name: "db-0", Reason: "DisruptionBudget", Message: long}}}
	k := ticket{Node: "worker-17", NotAsked: long, Maintenances: []ticketMaintenance{{Name: "worker-17-x", By: "jane", Reason: long, Drain: "Draining"}}}
	for name, text := range map[string]func(*tool) string{
		"why":                func(tl *tool) string { return tl.whyText(w, true) },
		"describe":           func(tl *tool) string { return tl.timeline(r, []string{"budget workers, by jane: " + long}) },
		"maintenance status": func(tl *tool) string { return tl.maintenancesOfNode([]v1alpha1.NodeMaintenance{m}) },
		"hardware describe":  func(tl *tool) string { return tl.ticketText(k) },
		"status": func(tl *tool) string {
			return tl.statusText(&fleetStatus{Paused: []string{"the cluster: " + long}}, false)
		},
		"watch": func(tl *tool) string {
			return tl.news(happened("12:00:00", "worker-17", "container-runtime", "1/2", long))
		},
		"pause": func(tl *tool) string {
			tl.printf("%s is paused: %s\n", "budget workers", long)
			return ""
		},
	} {
		for _, columns := range []int{60, 80, 200} {
			if name == "status" && columns < lineWidth { // it has tables
				continue
			}
			got := onTerminalOf(t, uint16(columns), func(streams genericiooptions.IOStreams) {
				tl := atNoon()
				tl.streams = streams
				_, _ = streams.Out.Write([]byte(text(tl)))
			})
			for _, line := range tooLong(got, columns) {
				if !strings.HasPrefix(line, quote) {
					t.Errorf("%s in %d columns: %s", name, columns, line)
				}
			}
			if !says(got, long) && !inOrder(got, "budget workers: 2 of 2", "permits", "before", "12:00") {
				t.Errorf("%s in %d columns does not say all:\n%s", name, columns, got)
			}
			if whole := strings.Contains(got, long); whole != (columns == 200) && name != "describe" {
				t.Errorf("%s in %d columns: in one line: %t\n%s", name, columns, whole, got)
			}
		}
	}
}
