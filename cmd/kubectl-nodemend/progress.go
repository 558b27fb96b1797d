package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/fold"
)

const (
	// lookEvery is how often a drain is looked at.
	lookEvery = time.Second
	// silentFor is after how long somebody who waits for the controller is told so.
	silentFor = 15 * time.Second
	// barWidth is how many characters a bar has.
	barWidth = 20
)

// progress shows how far drains are until all are done: as bars that move on a terminal,
// elsewhere as a line for each change.
func (t *tool) progress(ctx context.Context, c client.Client, names []string) error {
	began, shown, silent := t.clock.Now(), newScreen(t.streams), false
	bars, failed := make([]drainBar, len(names)), false
	err := wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) {
		lines, left, begun, failing := make([]string, len(names)), 0, true, false
		for i, name := range names {
			b := &bars[i]
			if !b.over {
				note, err := b.look(ctx, c, name)
				switch {
				case apierrors.IsForbidden(err) || ctx.Err() != nil:
					return false, err
				case err != nil && !failed: // the drains go on, and so does this
					failed = true
					shown.note("cannot look at the drains: " + oneLine(explained(err).Error()) + "; trying again")
				}
				failing = failing || err != nil
				if note != "" {
					shown.note(note)
				}
			}
			if !b.over {
				left++
			}
			begun = begun && (b.over || b.line != "")
			lines[i] = b.line
		}
		if !begun && !silent && t.clock.Since(began) > silentFor {
			silent = true
			shown.note("the controller has not begun yet: does it run? kubectl nodemend status")
		}
		failed = failing
		shown.show(lines)
		return left == 0, nil
	})
	if err != nil {
		return err
	}
	var errs []error
	for i := range bars {
		errs = append(errs, bars[i].err)
	}
	return errors.Join(errs...)
}

// drainBar is what is shown of one drain.
type drainBar struct {
	line string
	// over says that nothing more comes of it, and err what is wrong then.
	over bool
	err  error
	// late says that somebody was told that its time is over.
	late bool
}

// look brings the bar up to date. It returns what is to be told once.
func (b *drainBar) look(ctx context.Context, c client.Client, name string) (note string, err error) {
	var m v1alpha1.NodeMaintenance
	if err := c.Get(ctx, types.NamespacedName{Name: name}, &m); apierrors.IsNotFound(err) {
		b.over, b.err = true, fmt.Errorf("maintenance %s was ended before the node was drained", name)
		return "", nil
	} else if err != nil {
		return "", err
	}
	drained := m.Condition(v1alpha1.MaintenanceDrained)
	if drained == nil {
		return "", nil
	}
	b.line = m.Spec.NodeName + "  " + bar(&m)
	b.over = m.Drained()
	switch {
	case drained.Reason == v1alpha1.ReasonDrainAborted:
		b.over, b.err = true, fmt.Errorf("the drain of node %s was given up: %s", m.Spec.NodeName, drained.Message)
	case drained.Reason == v1alpha1.ReasonDrainTimedOut && !b.late:
		b.late = true
		return fmt.Sprintf("the time of node %s is over: %s\n  kubectl nodemend maintenance status %[1]s", m.Spec.NodeName, oneLine(drained.Message)), nil
	}
	return "", nil
}

// screen shows lines in the place of those before on a terminal, and below them elsewhere.
type screen struct {
	out           io.Writer
	terminal      bool
	width, height int
	last          []string
	rows          int // that the last ones take
}

func newScreen(streams genericiooptions.IOStreams) *screen {
	s := &screen{out: streams.Out}
	if file, ok := streams.Out.(*os.File); ok {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil {
			s.terminal, s.width, s.height = true, max(width, 20), max(height, 4)
		}
	}
	return s
}

// note prints a line that stays, above the others.
func (s *screen) note(text string) {
	s.clear()
	_, _ = fmt.Fprintln(s.out, fold.Lines(visible(text), s.width)) // nobody is left to tell
}

// clear removes the lines from a terminal.
func (s *screen) clear() {
	if s.terminal && s.rows > 0 {
		_, _ = fmt.Fprintf(s.out, "\x1b[%dA\r\x1b[J", s.rows)
		s.rows, s.last = 0, nil
	}
}

// show shows the lines that are not empty, as many as there is room for.
func (s *screen) show(lines []string) {
	if slices.Equal(lines, s.last) {
		return
	}
	last := s.last
	s.clear()
	s.last = slices.Clone(lines)
	for i, line := range lines {
		switch {
		case line == "" || !s.terminal && i < len(last) && last[i] == line:
		case !s.terminal:
			_, _ = fmt.Fprintln(s.out, oneLine(line))
		case s.rows < s.height-2:
			runes := []rune(oneLine(line))
			_, _ = fmt.Fprintln(s.out, string(runes[:min(len(runes), s.width-1)]))
			s.rows++
		}
	}
}

func isTerminal(streams genericiooptions.IOStreams) bool {
	file, ok := streams.Out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// bar is "[##########----------] 50%, 3 of 6 pods left: default/web-0 (DisruptionBudget)".
func bar(m *v1alpha1.NodeMaintenance) string {
	d := m.Status.Drain
	if d == nil {
		return drainState(m)
	}
	full := int(d.Percent) * barWidth / 100
	line := fmt.Sprintf("[%s%s] %d%%, %d of %d pods left", strings.Repeat("#", full), strings.Repeat("-", barWidth-full), d.Percent, d.Left, d.Total)
	return line + detail("", obstacle(d))
}
