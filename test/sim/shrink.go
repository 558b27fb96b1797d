package sim

import "slices"

// shrinking looks for fewer choices that still break the same rule.
type shrinking struct {
	// play plays choices; it returns those that were really made, and whether the rule
	// was broken again.
	play func([]uint32) (made []uint32, broken bool)
	// runs are left.
	runs int
	best []uint32
}

// shrink returns the fewest choices that it finds with which play still breaks the rule,
// in at most so many runs. The choices given break it.
func shrink(given []uint32, runs int, play func([]uint32) (made []uint32, broken bool)) []uint32 {
	s := &shrinking{play: play, runs: runs, best: trimmed(given)}
	for before := -1; before != s.left(); {
		before = s.left()
		s.calmBlocks()
		s.leaveOut()
		s.lower()
	}
	return s.best
}

// left is how much there is of what is not calm: each such choice, by its value.
func (s *shrinking) left() int { return weight(s.best) }

func weight(choices []uint32) int {
	sum := 0
	for _, c := range choices {
		if c > 0 {
			sum += 1000 + int(c)
		}
	}
	return sum
}

// try keeps the candidate if it still breaks the rule and is smaller.
func (s *shrinking) try(candidate []uint32) bool {
	if s.runs <= 0 {
		return false
	}
	s.runs--
	made, broken := s.play(candidate)
	if made = trimmed(made); !broken || weight(made) >= weight(s.best) {
		return false
	}
	s.best = made
	return true
}

// events are the positions of what is not calm.
func (s *shrinking) events() []int {
	var at []int
	for i, c := range s.best {
		if c > 0 {
			at = append(at, i)
		}
	}
	return at
}

// calmBlocks sets choices to the calm one: halves first, then less and less, the last
// ones first.
func (s *shrinking) calmBlocks() {
	for size := (len(s.events()) + 1) / 2; size > 0; size /= 2 {
		for end := len(s.events()); end > 0; {
			at := s.events()
			end = min(end, len(at))
			candidate := slices.Clone(s.best)
			for _, i := range at[max(0, end-size):end] {
				candidate[i] = 0
			}
			s.try(candidate)
			end -= size
		}
	}
}

// mostLeftOut is how many choices an event makes at most that are left out with it.
const mostLeftOut = 8

// leaveOut calms one choice and leaves out those after it that came of it, so that the
// later ones keep their meaning.
func (s *shrinking) leaveOut() {
	for n := len(s.events()) - 1; n >= 0; n-- {
		at := s.events()
		if n >= len(at) {
			continue
		}
		i := at[n]
		for k := 1; k <= mostLeftOut && i+k <= len(s.best); k++ {
			candidate := slices.Clone(s.best)
			candidate[i] = 0
			if s.try(slices.Delete(candidate, i+1, min(i+1+k, len(candidate)))) {
				break
			}
		}
	}
}

// lower makes single choices smaller.
func (s *shrinking) lower() {
	for n := range s.events() {
		at := s.events()
		if n >= len(at) {
			break
		}
		for _, value := range []uint32{1, s.best[at[n]] / 2} {
			if value == 0 || value >= s.best[at[n]] {
				continue
			}
			candidate := slices.Clone(s.best)
			candidate[at[n]] = value
			if s.try(candidate) {
				break
			}
		}
	}
}

// trimmed leaves out the zeros at the end.
func trimmed(choices []uint32) []uint32 {
	end := len(choices)
	for end > 0 && choices[end-1] == 0 {
		end--
	}
	return choices[:end]
}
