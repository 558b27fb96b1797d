package sim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodemend/nodemend/test/apiserver"
)

// order is what a player is to do: to play so many seeds from the first one, or to shrink
// a run that breaks a rule.
type order struct {
	First uint64 `json:"first,omitempty"`
	Count int    `json:"count,omitempty"`

	Shrink uint64 `json:"shrink,omitempty"`
	Rule   string `json:"rule,omitempty"`
}

// answer is what a player says of one run.
type answer struct {
	Result *Result   `json:"result,omitempty"`
	Shrunk *Recorded `json:"shrunk,omitempty"`
}

// Recorded is a run that can be played again, whatever the seeds come to mean.
type Recorded struct {
	Seed uint64 `json:"seed"`
	Rule string `json:"rule"`
	// Before is how many of the seed's choices were not the calm one, Events how many of
	// these are.
	Before int `json:"before"`
	Events int `json:"events"`
	// Choices of the run.
	Choices []uint32 `json:"choices"`
}

// shrinkRuns and shrinkFor bound how often, and for how long, a run is played to shrink it.
const (
	shrinkRuns = 1500
	shrinkFor  = time.Minute
)

// Serve is the work of a player: it plays what it is told until in ends, one order and one
// answer a line.
func Serve(t *testing.T, definitions *apiserver.Definitions, dir string, in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading what to play: %w", err)
		}
		for i := range o.Count {
			r := Run(t, definitions, dir, o.First+uint64(i), nil)
			if err := answers.Encode(answer{Result: &r}); err != nil {
				return fmt.Errorf("answering: %w", err)
			}
		}
		if o.Shrink > 0 {
			if err := answers.Encode(answer{Shrunk: shrunk(t, definitions, dir, o)}); err != nil {
				return fmt.Errorf("answering: %w", err)
			}
		}
	}
}

// shrunk shrinks the run of a seed that breaks a rule.
func shrunk(t *testing.T, definitions *apiserver.Definitions, dir string, o order) *Recorded {
	whole, began := Run(t, definitions, dir, o.Shrink, nil).choices, time.Now()
	fewest := shrink(whole, shrinkRuns, func(given []uint32) ([]uint32, bool) {
		if time.Since(began) > shrinkFor {
			return nil, false
		}
		r := Replay(t, definitions, dir, given, nil)
		return r.choices, r.Violation != nil && r.Violation.Rule == o.Rule
	})
	return &Recorded{Seed: o.Shrink, Rule: o.Rule, Before: weight(whole) / 1000, Events: weight(fewest) / 1000, Choices: fewest}
}

// player is a process that plays runs.
type player struct {
	command *exec.Cmd
	in      io.WriteCloser
	answers chan answer
	// said is the end of what it printed.
	said tail
}

// silence is after how long without an answer a player is killed: one run takes a
// fraction of a second.
const silence = 3 * time.Minute

// startPlayer starts a process that serves.
func startPlayer(command *exec.Cmd) (*player, error) {
	p := &player{command: command, answers: make(chan answer)}
	command.Stderr = &p.said
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting a process that plays: %w", err)
	}
	p.in = in
	go func() {
		defer close(p.answers)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var a answer
			if json.Unmarshal(lines.Bytes(), &a) == nil && (a.Result != nil || a.Shrunk != nil) {
				p.answers <- a
				continue
			}
			_, _ = p.said.Write(append(lines.Bytes(), '\n')) // to memory
		}
	}()
	return p, nil
}

// give tells it what to do.
func (p *player) give(o order) error { return json.NewEncoder(p.in).Encode(o) }

// next waits for an answer; false: the process has died, or says nothing any more.
func (p *player) next() (answer, bool) {
	timer := time.NewTimer(silence)
	defer timer.Stop()
	select {
	case a, ok := <-p.answers:
		return a, ok
	case <-timer.C:
		_, _ = fmt.Fprintf(&p.said, "no answer within %s, killed\n", silence)
		_ = p.command.Process.Kill()
		return answer{}, false
	}
}

// stop ends the process and returns how much processor time it has taken.
func (p *player) stop() time.Duration {
	_ = p.in.Close()
	for range p.answers { // what it still says
	}
	_ = p.command.Wait() // how it ends is of no interest
	return p.command.ProcessState.UserTime() + p.command.ProcessState.SystemTime()
}

// tail keeps the beginning and the end of what is written.
type tail struct {
	mu          sync.Mutex
	first, last []byte
}

const (
	tailFirst = 2 << 10
	tailLast  = 2 << 10
)

// Write implements io.Writer.
func (t *tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(data)
	room := min(tailFirst-len(t.first), n)
	t.first = append(t.first, data[:room]...)
	t.last = append(t.last, data[room:]...)
	if len(t.last) > tailLast {
		t.last = t.last[len(t.last)-tailLast:]
	}
	return n, nil
}

// String is what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.first) + string(t.last))
}
