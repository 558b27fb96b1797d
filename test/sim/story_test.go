package sim

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/apiserver"
)

// A story is told in the order of time: what befalls nodes, what people do, and what has to
// come of it. Nothing in it is left to chance, so it ends alike each time. All oracles look
// on.
type story struct {
	name string
	tell func(*stage)
}

// stage is the world of a story.
type stage struct {
	*world
	death death
	// calls are those so far at which a process of a role could die; true: after which,
	// too.
	calls map[string][]bool
	died  bool
	// service is how nodes were, one after the other, as far as pods may be scheduled.
	service map[string][]string
	// caught are the pods that were on a node when it was rebooted.
	caught []string
	// refuses are the controller's requests that the API server refuses; nil: none.
	refuses func(*call) bool
	// slow are the pods that do not end.
	slow map[string]bool
	// mostOut is how many nodes were out for us at once.
	mostOut int
}

// death is that of a process in a story: before its n-th call that changes something, or
// after it was answered to nobody. The zero value: nobody dies.
type death struct {
	role  string
	at    int
	after bool
}

// String tells it to people.
func (d death) String() string {
	when := "before"
	if d.after {
		when = "after"
	}
	return fmt.Sprintf("the %s dies %s its call %d", d.role, when, d.at)
}

// mostStepsOf is far more than one thing takes that a story waits for.
const mostStepsOf = 20_000

// everyDeath plays stories with every death; without it each is played with some, evenly
// spread: the race detector makes a run ten times as long.
var everyDeath = flag.Bool("sim.deaths", false, "play every story with every death of a process")

// spread keeps the stories of each run of the tests below half a minute.
const spread = 4

// defined are the definitions of our kinds.
var defined = sync.OnceValues(func() (*apiserver.Definitions, error) { return apiserver.Define(deploy.CRDs) })

// play plays the story and returns what broke; nil: nothing.
func (st story) play(t *testing.T, dir string, d death, out io.Writer) (s *stage) {
	t.Helper()
	definitions, err := defined()
	if err != nil {
		t.Fatal(err)
	}
	dir, err = os.MkdirTemp(dir, "story-*")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &world{choices: replayed(nil), ctx: ctx, dir: dir, reached: map[string]int{}, wake: make(chan struct{}, 1)}
		s = &stage{world: w, death: d, calls: map[string][]bool{}, service: map[string][]string{}, slow: map[string]bool{}, caught: []string{}}
		w.oracles, w.fated = newOracles(w), s.fate
		w.people = people{world: w, cordoned: map[string]bool{}, replaced: map[string]bool{}}
		w.profile = profile{historyLimit: 10}
		if out != nil {
			w.history = &history{out, time.Now()}
		}
		server, err := apiserver.New(apiserver.Options{Definitions: definitions, Now: time.Now, Trusting: true, Others: remediatorKinds(), Changed: func(c apiserver.Change) {
			s.see(c)
			w.observe(c)
		}})
		if err != nil {
			t.Fatal(err)
		}
		w.server, w.admin = server, server.Client("admin", nil)
		s.act(st.tell)
		for len(w.processes) > 0 {
			w.end(w.processes[0])
		}
	})
	return s
}

// ended ends a story early since something is not as it has to be, interrupted since a
// person has to look what a runner has done that died.
type (
	ended       struct{}
	interrupted struct{}
)

// act tells the story until something is not as it has to be.
func (s *stage) act(tell func(*stage)) {
	defer s.caughtUp()
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(interrupted{}) {
				panic(r)
			}
		}()
		tell(s)
	}()
	s.end("Liveness: once all faults end, everything ends and is given back")
}

// caughtUp stops what ends a story.
func (*stage) caughtUp() {
	if r := recover(); r != nil && r != any(ended{}) {
		panic(r)
	}
}

// unclear reports whether a runner, or a controller that had claimed an action for another program, has
// died where nobody can tell what it has done: that holds until a person has looked.
func (s *stage) unclear() bool {
	return s.died && slices.ContainsFunc(stored[*v1alpha1.Remediation](s.oracles), func(r *v1alpha1.Remediation) bool {
		return r.BlockedBy() == v1alpha1.ReasonInterrupted || r.BlockedBy() == v1alpha1.ReasonRebootNotObserved
	})
}

// end cures all that is left, and expects that everything ends.
func (s *stage) end(rule string) {
	for _, n := range s.nodes {
		n.blind, n.deaf, n.lacks = false, false, nil
	}
	clear(s.slow)
	s.calm()
	limit := time.Now().Add(30 * time.Hour)
	for steps := 0; !s.oracles.allWell(); steps++ {
		if s.oracles.violation != nil {
			panic(ended{})
		}
		if !s.step(limit) || steps > mostStepsOf {
			s.broken(rule, "%s", s.oracles.left())
			panic(ended{})
		}
	}
}

// fate lets a process die where the story is to be played with a death.
func (s *stage) fate(c *call) int {
	role, n := c.process.role(), c.process.node
	if s.refuses != nil && c.process.leads() && s.refuses(c) {
		return fails
	}
	if role == "detector" || c.request.Verb != point && !c.request.IsWrite() {
		return arrives
	}
	s.calls[role] = append(s.calls[role], c.request.Verb != point)
	if role != s.death.role || len(s.calls[role]) != s.death.at || s.died {
		return arrives
	}
	s.died = true
	switch {
	case role == "remote":
		s.after(20*time.Second, s.oneRemote)
	case n == nil:
		s.after(20*time.Second, s.oneLeader)
	default:
		n.again(5*time.Second, n.startRunner)
	}
	if s.death.after {
		return diesAfter
	}
	return diesBefore
}

// test plays the story undisturbed, and then with every so many-th death of controllers and
// runners, or with all.
func (st story) test(t *testing.T, every int) {
	t.Helper()
	every *= spread
	dir := playground(t)
	calm := st.play(t, dir, death{}, nil)
	if calm.oracles.violation != nil {
		st.fail(t, dir, calm)
	}
	if *everyDeath && every < 1000*spread {
		every = 1
	}
	runs := 1
	for _, role := range []string{"controller", "runner", "remote"} {
		for i, afterToo := range calm.calls[role] {
			for _, after := range []bool{false, true} {
				if after && !afterToo || (2*i+btoi(after))%every != 0 {
					continue
				}
				runs++
				s := st.play(t, dir, death{role, i + 1, after}, nil)
				if s.oracles.violation != nil {
					st.fail(t, dir, s)
				}
				if !s.died {
					t.Errorf("%s did not happen", s.death)
				}
			}
		}
	}
	t.Logf("%d runs of %d steps", runs, calm.steps)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fail tells what is wrong, and the story up to there.
func (st story) fail(t *testing.T, dir string, s *stage) {
	t.Helper()
	var out bytes.Buffer
	again := st.play(t, dir, s.death, &out)
	who := ""
	if s.death.at > 0 {
		who = s.death.String() + ": "
	}
	lines := slices.DeleteFunc(bytes.Split(out.Bytes(), []byte("\n")), func(line []byte) bool {
		return bytes.Contains(line, []byte("patch Node/status"))
	})
	lines = lines[max(0, len(lines)-60):]
	t.Fatalf("%s\n%s%s\nagain: %v", bytes.Join(lines, []byte("\n")), who, s.oracles.violation, again.oracles.violation)
}

// tellAll tests stories, each with every so many-th death.
func tellAll(t *testing.T, every int, stories ...story) {
	t.Helper()
	for _, st := range stories {
		t.Run(st.name, func(t *testing.T) { st.test(t, every) })
	}
}

// until lets the world go on until it is so.
func (s *stage) until(what string, so func() bool) {
	for range mostStepsOf {
		s.gather() // so that nobody runs who might change what is looked at
		if s.oracles.violation != nil {
			panic(ended{})
		}
		if so() {
			return
		}
		if s.unclear() {
			panic(interrupted{})
		}
		if !s.step(distant) {
			break
		}
	}
	s.miss("it never came to this: %s", what)
}

// pass lets time go by.
func (s *stage) pass(d time.Duration) {
	over := false
	s.after(d, func() { over = true })
	s.until(d.String(), func() bool { return over })
}

// miss ends the story, since something is not as it has to be.
func (s *stage) miss(format string, args ...any) {
	s.broken("the story", format, args...)
	panic(ended{})
}

// expect ends the story unless both are alike.
func expect[T any](s *stage, what string, got, want T) {
	if g, w := fmt.Sprintf("%v", got), fmt.Sprintf("%v", want); g != w {
		for _, r := range stored[*v1alpha1.Remediation](s.oracles) {
			s.say("", "  there is %s", describe(r))
		}
		s.miss("%s: got %s, want %s", what, g, w)
	}
}

// expectOneOf ends the story unless it is one of them.
func expectOneOf(s *stage, what, got string, want ...string) {
	if !slices.Contains(want, got) {
		s.miss("%s: got %s, want one of %v", what, got, want)
	}
}
