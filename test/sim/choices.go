package sim

import "math/rand/v2"

// choices are all that a run leaves to chance. They come from a seed or from an earlier
// run.
type choices struct {
	random *rand.Rand
	// given are those of an earlier run; past their end all are 0.
	given []uint32
	made  []uint32
}

func seeded(seed uint64) *choices {
	return &choices{random: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), made: make([]uint32, 0, 1<<12)}
}

func replayed(given []uint32) *choices { return &choices{given: given} }

// draw makes a choice from 0 to n-1; random draws it if there is nothing given.
func (c *choices) draw(n int, random func(*rand.Rand) int) int {
	choice := 0
	switch {
	case n <= 1:
	case c.random != nil:
		choice = random(c.random)
	case len(c.made) < len(c.given):
		choice = int(c.given[len(c.made)]) % n
	}
	c.made = append(c.made, uint32(choice))
	return choice
}

// pick chooses from n, all alike.
func (c *choices) pick(n int) int {
	return c.draw(n, func(r *rand.Rand) int { return r.IntN(n) })
}

// chance is true so many times in a thousand.
func (c *choices) chance(permille int) bool {
	return c.draw(2, func(r *rand.Rand) int {
		if r.IntN(1000) < permille {
			return 1
		}
		return 0
	}) == 1
}

// weighted chooses by weights; the first is the calm choice.
func (c *choices) weighted(weights []int) int {
	return c.draw(len(weights), func(r *rand.Rand) int {
		total := 0
		for _, w := range weights {
			total += w
		}
		at := r.IntN(total)
		for i, w := range weights {
			if at -= w; at < 0 {
				return i
			}
		}
		return 0
	})
}

// of chooses one of the values.
func of[T any](c *choices, values ...T) T { return values[c.pick(len(values))] }
