package sim

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// Search plays many seeds in several processes.
type Search struct {
	// First is the first seed, Seeds their number.
	First uint64
	Seeds int
	// For ends the search earlier, after this time; 0: it does not.
	For time.Duration
	// Stop ends it once a rule is violated.
	Stop bool
	// Processes is how many play at once, Player what starts one.
	Processes int
	Player    func() *exec.Cmd
	// Progress is told how far the search is.
	Progress func(Report)
}

// Report is what a search has come to.
type Report struct {
	Seeds int
	Steps int
	Took  time.Duration
	// CPU is the processor time that the players took; 0 while they still play.
	CPU     time.Duration
	Reached map[string]int
	// Found are the rules that were violated, by their first seed.
	Found []*Found
}

// Found is a rule that was violated.
type Found struct {
	Rule string
	// Seeds is how many violated it.
	Seeds int
	// First is the run of the first of these seeds.
	First Result
	// Shrunk is that run with the fewest events that still break the rule; nil if it
	// could not be shrunk.
	Shrunk *Recorded
}

// blockOf is how many seeds a process is given at once.
const blockOf = 10

// progressEvery is how often the search tells how far it is.
const progressEvery = 5 * time.Second

// Run searches.
func (s Search) Run() (Report, error) {
	h := &hunt{Search: s, began: time.Now(), next: s.First, found: map[string]*Found{}, report: Report{Reached: map[string]int{}}}
	h.told = h.began
	err := h.together(h.play)
	h.report.Took = time.Since(h.began)
	if err == nil {
		err = h.shrinkAll()
	}
	return h.sum(), err
}

// hunt is a search that is going on.
type hunt struct {
	Search
	began time.Time

	mu     sync.Mutex
	next   uint64 // seed
	told   time.Time
	stop   bool
	report Report
	found  map[string]*Found
}

// together does something in all processes at once, and waits for them.
func (h *hunt) together(do func() error) error {
	errs := make(chan error, h.Processes)
	for range h.Processes {
		go func() { errs <- do() }()
	}
	var first error
	for range h.Processes {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

// block returns seeds to play; 0: there are no more.
func (h *hunt) block() (first uint64, count int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	count = min(blockOf, h.Seeds-int(h.next-h.First))
	if count <= 0 || h.stop || h.For > 0 && time.Since(h.began) > h.For {
		return 0, 0
	}
	first = h.next
	h.next += uint64(count)
	return first, count
}

// play plays blocks of seeds until there are no more.
func (h *hunt) play() error {
	var p *player
	defer func() { h.end(p) }()
	for {
		first, count := h.block()
		for count > 0 {
			if p == nil {
				var err error
				if p, err = startPlayer(h.Player()); err != nil {
					return err
				}
			}
			played := 0
			if p.give(order{First: first, Count: count}) == nil {
				for ; played < count; played++ {
					a, ok := p.next()
					if !ok {
						break
					}
					h.take(*a.Result)
				}
			}
			first, count = first+uint64(played), count-played
			if count > 0 { // the process has died of the seed that was next
				h.take(Result{Seed: first, Violation: &Violation{"A run comes to its end", "the process that played it died: " + p.said.String()}})
				first, count = first+1, count-1
				h.end(p)
				p = nil
			}
		}
		if first == 0 {
			return nil
		}
	}
}

// end ends a process.
func (h *hunt) end(p *player) {
	if p == nil {
		return
	}
	took := p.stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report.CPU += took
}

// take takes in the result of a run.
func (h *hunt) take(r Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report.Seeds++
	h.report.Steps += r.Steps
	for what, n := range r.Reached {
		h.report.Reached[what] += n
	}
	if v := r.Violation; v != nil {
		h.stop = h.stop || h.Stop
		f := h.found[v.Rule]
		if f == nil {
			f = &Found{Rule: v.Rule, First: r}
			h.found[v.Rule] = f
		}
		f.Seeds++
		if r.Seed < f.First.Seed {
			f.First = r
		}
	}
	if h.Progress != nil && time.Since(h.told) >= progressEvery {
		h.told = time.Now()
		h.report.Took = time.Since(h.began)
		h.Progress(h.summed())
	}
}

func (h *hunt) sum() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.summed()
}

func (h *hunt) summed() Report {
	h.report.Found = slices.SortedFunc(maps.Values(h.found), func(a, b *Found) int { return cmp.Compare(a.First.Seed, b.First.Seed) })
	return h.report
}

// mostShrunk is how many rules are shrunk: each may take a minute.
const mostShrunk = 4

// shrinkAll shrinks the first runs that were found, unless the search is only to find one.
func (h *hunt) shrinkAll() error {
	if h.Stop || len(h.found) == 0 {
		return nil
	}
	todo := make(chan *Found, mostShrunk)
	for i, f := range h.sum().Found {
		if i < mostShrunk && f.First.Steps > 0 {
			todo <- f
		}
	}
	close(todo)
	return h.together(func() error {
		for f := range todo {
			p, err := startPlayer(h.Player())
			if err != nil {
				return err
			}
			if p.give(order{Shrink: f.First.Seed, Rule: f.Rule}) == nil {
				p.shrunkOf(f)
			}
			p.stop()
		}
		return nil
	})
}

// shrunkOf waits for the shrunk run, which takes long.
func (p *player) shrunkOf(f *Found) {
	timer := time.AfterFunc(10*time.Minute, func() { _ = p.command.Process.Kill() })
	defer timer.Stop()
	if a, ok := <-p.answers; ok {
		f.Shrunk = a.Shrunk
	}
}

// Tell tells people what was reached and what was found.
func (r Report) Tell(out io.Writer) {
	tellReached(out, r.Reached)
	printf(out, "%s\n", r)
}

// String tells in one line how much was played.
func (r Report) String() string {
	line := fmt.Sprintf("%d seeds, %d steps in %s", r.Seeds, r.Steps, r.Took.Truncate(100*time.Millisecond))
	if r.CPU > 0 {
		line += fmt.Sprintf(", %.0f seeds a second of processor time", float64(r.Seeds)/r.CPU.Seconds())
	} else if r.Took > 0 {
		line += fmt.Sprintf(", %.0f a second", float64(r.Seeds)/r.Took.Seconds())
	}
	violated := 0
	for _, f := range r.Found {
		violated += f.Seeds
	}
	return line + fmt.Sprintf(", %d violations of %d rules", violated, len(r.Found))
}
