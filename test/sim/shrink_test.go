package sim

import (
	"slices"
	"testing"
)

func TestShrinkingLeavesOnlyWhatBreaksTheRule(t *testing.T) {
	given := make([]uint32, 400)
	for i := range given {
		given[i] = uint32(i % 7)
	}
	// Broken by a 3 somewhere in the first half and a choice of at least 2 after it.
	play := func(choices []uint32) ([]uint32, bool) {
		three := slices.Index(choices[:min(len(choices), 200)], 3)
		return choices, three >= 0 && slices.ContainsFunc(choices[three+1:], func(c uint32) bool { return c >= 2 })
	}
	got := shrink(given, 2000, play)
	if _, broken := play(got); !broken {
		t.Fatalf("%v breaks nothing", got)
	}
	if n := weight(got) / 1000; n != 2 {
		t.Errorf("%d events are left, want 2: %v", n, got)
	}
}

func TestShrinkingEndsAfterItsRuns(t *testing.T) {
	runs := 0
	shrink([]uint32{1, 2, 3, 4, 5, 6, 7, 8}, 3, func(choices []uint32) ([]uint32, bool) {
		runs++
		return choices, false
	})
	if runs != 3 {
		t.Errorf("%d runs, want 3", runs)
	}
}
