package vm

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestWhatTheAgentSaysReachesWhoAsked(t *testing.T) {
	m := &Machine{changed: make(chan struct{}), waiting: map[int]chan<- result{}}
	answers := make([]chan result, 5)
	for number := range answers {
		answers[number] = make(chan result, 1)
		m.waiting[number] = answers[number]
	}
	m.readAgent(strings.NewReader("3 0 b25l\n1 2 b25l dHdv\n2 0 b25l \n7 0  \n4 0 b2boot torn off\n"))
	m.onEvent(Event{Name: "RESET"})
	m.readAgent(strings.NewReader("boot 1-2-3\n"))

	if got := <-answers[1]; got != (result{status: 2, stdout: "one", stderr: "two"}) {
		t.Errorf("the first script: %+v", got)
	}
	if got := <-answers[2]; got != (result{stdout: "one"}) {
		t.Errorf("the second script: %+v", got)
	}
	for _, number := range []int{3, 4} {
		if got := <-answers[number]; got.err == nil || errors.Is(got.err, ErrDown) {
			t.Errorf("a broken answer is taken for %+v", got)
		}
	}
	if got := <-answers[0]; !errors.Is(got.err, ErrDown) {
		t.Errorf("a script that ran when the machine was reset: %+v", got)
	}
	if !m.up || !slices.Equal(m.Boots(), []string{"1-2-3"}) {
		t.Errorf("it is %t that it is up; boots are %q", m.up, m.Boots())
	}
}

func TestAResetIsCountedOnce(t *testing.T) {
	m := &Machine{changed: make(chan struct{}), waiting: map[int]chan<- result{}}
	reset := func(reason string) {
		event := Event{Name: "RESET"}
		event.Data.Reason = reason
		m.onEvent(event)
	}
	for range 2 {
		m.readAgent(strings.NewReader("boot 1\n"))
		reset("guest-reset")
		reset("guest-reset") // by the firmware
	}
	m.readAgent(strings.NewReader("boot 1\n"))
	reset("host-qmp-system-reset")
	if got := m.Resets(); got != 2 {
		t.Errorf("got %d resets, want 2", got)
	}
}
