package sim

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/test/apiserver"
)

// Result is what a run has come to.
type Result struct {
	Seed uint64
	// Steps is how many things have happened.
	Steps int
	// Reached counts what the run has come to: faults, gates, outcomes.
	Reached map[string]int
	// Violation is what was broken first; nil: nothing.
	Violation *Violation
	// choices that were made.
	choices []uint32
}

// Violation is a rule that does not hold.
type Violation struct {
	// Rule as the oracle names it.
	Rule string
	// Message with the names.
	Message string
}

// String tells both.
func (v *Violation) String() string { return v.Rule + ": " + v.Message }

// calmTime is how long nothing goes wrong any more before all has to be well. It is more
// than the longest wait that a policy of a run asks for.
const calmTime = 6 * time.Hour

// mostSteps is far more than any run takes that rests when there is nothing to do, mostHeartbeats for those
// steps that are heartbeats: while a remote runner switches power, it reads all each second.
const mostSteps, mostHeartbeats = 30_000, 300_000

// Run plays a seed. The history goes to out, unless that is nil.
func Run(t *testing.T, definitions *apiserver.Definitions, dir string, seed uint64, out io.Writer) Result {
	result := play(t, definitions, dir, seeded(seed), out)
	result.Seed = seed
	return result
}

// Replay plays choices that were made before; after them all is calm.
func Replay(t *testing.T, definitions *apiserver.Definitions, dir string, given []uint32, out io.Writer) Result {
	return play(t, definitions, dir, replayed(given), out)
}

func play(t *testing.T, definitions *apiserver.Definitions, dir string, c *choices, out io.Writer) (result Result) {
	dir, err := os.MkdirTemp(dir, "run-*")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &world{choices: c, ctx: ctx, dir: dir, reached: map[string]int{},
			traps: map[trap]func(*process, client.Object){}, slow: map[string]func(*call) time.Duration{}, wake: make(chan struct{}, 1)}
		w.oracles = newOracles(w)
		if out != nil {
			w.history = &history{out, time.Now()}
		}
		server, err := apiserver.New(apiserver.Options{
			Definitions: definitions, Now: time.Now, Trusting: true, Others: remediatorKinds(), Changed: w.observe,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.server, w.admin = server, server.Client("admin", nil)
		w.play()
		for len(w.processes) > 0 {
			w.end(w.processes[0])
		}
		result = Result{Steps: w.steps, Reached: w.reached, Violation: w.oracles.violation, choices: c.made}
	})
	return result
}

// observe sees every change.
func (w *world) observe(change apiserver.Change) {
	w.changed(change)
	w.attend(change)
	w.oracles.changed(change)
	w.spring(change)
}

// endRivals ends one of two that lead. One that has seen less, or has nothing kept yet, may write again and again what the
// other one takes back, until it finds that it does not lead: here that takes no time.
func (w *world) endRivals() {
	remotes := slices.DeleteFunc(slices.Clone(w.processes), func(p *process) bool { return !p.remote })
	for _, rivals := range [][]*process{w.leaders(), remotes} {
		if len(rivals) > 1 {
			w.count("two that lead write against each other")
			w.end(rivals[0])
		}
	}
}

// play plays the run: its scene, the chaos, and the calm after it.
func (w *world) play() {
	all := profiles()
	w.profile = all[w.pick(len(all))]
	w.count("profile " + w.profile.name)
	w.swarm()
	w.setScene()
	w.startController()
	w.chaos = true
	for w.steps-w.heartbeats < w.profile.steps && w.oracles.violation == nil {
		w.step(distant)
	}
	w.chaos = false
	if w.oracles.violation != nil {
		return
	}
	w.calm()
	limit := time.Now().Add(calmTime)
	for w.oracles.violation == nil && w.step(limit) {
		if w.steps-w.heartbeats > mostSteps/2 {
			w.endRivals()
		}
		if w.steps-w.heartbeats > mostSteps || w.heartbeats > mostHeartbeats {
			w.broken("Liveness: whoever has nothing to do rests", "%d steps by %s", w.steps, time.Now().UTC().Format(time.TimeOnly))
			return
		}
		if w.steps%10 == 0 && w.oracles.allWell() {
			w.count("ended well")
			return
		}
	}
	if w.oracles.violation == nil {
		w.oracles.notWell()
	}
}

// must fails the run if the simulation itself does not work.
func (w *world) must(err error) {
	if err != nil {
		w.broken("the simulation", "%v", err)
	}
}

// String tells the result in one line.
func (r Result) String() string {
	if r.Violation == nil {
		return fmt.Sprintf("seed %d: %d steps, nothing found", r.Seed, r.Steps)
	}
	return fmt.Sprintf("seed %d: %d steps: %s", r.Seed, r.Steps, r.Violation)
}
