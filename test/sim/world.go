package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/test/apiserver"
)

// world is all that there is in one run.
type world struct {
	*choices
	ctx     context.Context
	server  *apiserver.Server
	admin   *apiserver.Client // of the test, and of people
	profile profile
	// happenings are those of this run.
	happenings []happening
	// chaos: faults and events still happen.
	chaos bool
	// agents: one of somebody else reports on each node.
	agents bool
	// flickers: another one reports on each node's link.
	flickers bool
	// fated decides the fate of a request in a story; nil: chance does.
	fated func(*call) int
	dir   string // for files of nodes

	processes   []*process
	controllers int // that were started so far
	nodes       []*node
	people      people
	// healers are the other programs that have a node, by its name.
	healers map[string]*healer
	// remediators are those of another program that steps are left to; nil: there are none.
	remediators *remediators
	// owners have the machines under nodes; nil: nobody has.
	owners *owners
	// powers are the machines under nodes, as BMCs switch them; nil: nobody can. volumes are those that
	// pods of theirs use; nil: there are none.
	powers  *powers
	volumes *volumes
	// remotes is how many remote runners were started so far.
	remotes int
	// drivers are other programs that ask for remediations.
	drivers []*driver
	oracles *oracles

	calls  []*call
	timers []timer
	// serving is the request that the server executes, nil while it executes none.
	serving *call
	steps   int
	// heartbeats are those steps that were requests of detectors, or looks of remote runners, which
	// are many and say little.
	heartbeats int
	turns      uint64
	// counted is told of every request; nil: nobody is.
	counted func(by *process, r apiserver.Request)
	// traps that are set, by what springs them.
	traps map[trap]func(by *process, obj client.Object)
	// slow tells how long a write of a controller takes, by what it does and its kind, until
	// it has said so of one.
	slow map[string]func(*call) time.Duration
	// unheard is what a remote runner asks for next whose answer is lost; "": no answer is.
	unheard string
	// wentWrong is when something last went wrong with a controller, troubled until when
	// it may have lasted; skewed when its clock last did, delayed until when a request of it
	// may be on its way.
	wentWrong, troubled, skewed, delayed time.Time

	// reached counts what a run has come to.
	reached map[string]int
	history *history

	mu sync.Mutex
	// idle are goroutines that wait for something to do.
	idle     []chan func()
	fresh    []*call
	finished []finished
	demanded []*node
	events   int
	wake     chan struct{}
}

// timer is something that happens at a time.
type timer struct {
	at time.Time
	do func()
}

// finished is how a look ended.
type finished struct {
	loop   *loop
	name   string
	result reconcile.Result
	err    error
}

// after lets something happen later.
func (w *world) after(d time.Duration, do func()) {
	t := timer{time.Now().Add(d), do}
	i, found := slices.BinarySearchFunc(w.timers, t, func(a, b timer) int { return a.at.Compare(b.at) })
	for found && i < len(w.timers) && w.timers[i].at.Equal(t.at) {
		i++ // after those of the same time
	}
	w.timers = slices.Insert(w.timers, i, t)
}

// turn numbers what begins to wait.
func (w *world) turn() uint64 {
	w.turns++
	return w.turns
}

// count counts that the run has come to something.
func (w *world) count(what string) { w.reached[what]++ }

func (w *world) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// settle waits until no goroutine can go on by itself.
func (w *world) settle() {
	w.published()
	synctest.Wait()
}

// published lets what the world has written before it waited be read by a goroutine that a
// timer has woken. They never run at once, but the race detector does not know that.
func (w *world) published() {
	w.mu.Lock()
	w.mu.Unlock() //nolint:staticcheck,gocritic // nothing stands between: it is the order that counts
}

// gather takes in what processes have sent and finished, in an order that does not
// depend on the order of goroutines.
func (w *world) gather() {
	for {
		w.settle()
		w.mu.Lock()
		fresh, done, demanded := w.fresh, w.finished, w.demanded
		w.fresh, w.finished, w.demanded = nil, nil, nil
		w.mu.Unlock()
		began := false
		for _, n := range w.nodes {
			began = n.takeEffect() || began
		}
		if len(fresh) == 0 && len(done) == 0 && len(demanded) == 0 && !began {
			break
		}
		slices.SortFunc(demanded, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
		for _, n := range demanded {
			n.demandNow()
		}
		if len(done) > 1 {
			slices.SortFunc(done, func(a, b finished) int {
				return cmp.Or(cmp.Compare(a.loop.process.name, b.loop.process.name), cmp.Compare(a.loop.name, b.loop.name), cmp.Compare(a.name, b.name))
			})
		}
		for _, f := range done {
			f.loop.ended(f)
		}
		if len(fresh) > 1 {
			slices.SortStableFunc(fresh, func(a, b *call) int {
				return cmp.Or(cmp.Compare(a.process.name, b.process.name), cmp.Compare(a.task, b.task), cmp.Compare(a.request.String(), b.request.String()))
			})
		}
		for _, c := range fresh {
			c.turn = w.turn()
		}
		w.calls = append(w.calls, fresh...)
	}
	select {
	case <-w.wake:
	default:
	}
}

// ended puts a request back into the queue as controller-runtime does.
func (l *loop) ended(f finished) {
	if l.process.dead.Load() {
		return
	}
	l.queue.done(f.name)
	for _, name := range l.more {
		l.queue.add(name)
	}
	l.more = nil
	request := reconcile.Request{}
	request.Name = f.name
	switch {
	case errors.Is(f.err, reconcile.TerminalError(nil)):
	case f.err != nil:
		l.process.world.count("look failed: " + l.name)
		l.queue.AddRateLimited(request)
	case f.result.RequeueAfter > 0:
		l.queue.Forget(request)
		l.queue.AddAfter(request, f.result.RequeueAfter)
	default:
		l.queue.Forget(request)
	}
}

// lookTime bounds one look of a controller, as in the product.
const lookTime = 30 * time.Second

// start lets a loop look at an object.
func (l *loop) start(name string, bound time.Duration) {
	w := l.process.world
	ctx := context.WithValue(l.process.ctx, taskKey{}, l.name+"/"+name)
	ctx = context.WithValue(ctx, beganKey{}, w.turn())
	cancel := func() {}
	if bound > 0 {
		ctx, cancel = context.WithTimeout(ctx, bound)
	}
	if l.process.node == nil {
		l.process.learn() // as from the requests that renew the leader's Lease
	}
	w.goDo(func() {
		defer cancel()
		result, err := l.look(ctx, name)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.finished = append(w.finished, finished{l, name, result, err})
		w.rouse()
	})
}

// goDo does something in a goroutine: one that has done something before, whose stack has grown by then, or a new one.
func (w *world) goDo(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := len(w.idle) - 1; last >= 0 {
		w.idle[last] <- do
		w.idle = w.idle[:last]
		return
	}
	todo := make(chan func(), 1)
	todo <- do
	go func() {
		for {
			select {
			case <-w.ctx.Done():
				return
			case do := <-todo:
				do()
			}
			w.mu.Lock()
			w.idle = append(w.idle, todo)
			w.mu.Unlock()
		}
	}()
}

// option is something that can happen next, and its turn.
type option struct {
	turn  uint64
	call  *call
	watch *watch
	loop  *loop
	owner *process
}

// options returns what can happen now, what has waited longest first.
func (w *world) options(now time.Time) []option {
	var all []option
	for _, c := range w.calls {
		// A point is passed even so: nothing stands between a last look and what it allows
		// but a moment, and whoever is frozen right then can't be helped.
		if !c.ready.After(now) && (c.abandoned || c.request.Verb == point || !c.process.frozen.After(now)) {
			all = append(all, option{turn: c.turn, call: c})
		}
	}
	for _, p := range w.processes {
		if !p.mayWork(now) {
			continue
		}
		for _, watch := range p.unseen() {
			if !watch.stalled.After(now) && !p.cutOff() && p.view.Behind(watch.kind) > 0 {
				if watch.turn == 0 {
					watch.turn = w.turn()
				}
				all = append(all, option{turn: watch.turn, watch: watch, owner: p})
			}
		}
		for _, l := range p.loops {
			l.queue.tick(now)
			if len(l.queue.ready) > 0 && len(l.queue.busy) < l.workers {
				all = append(all, option{turn: l.queue.ready[0].turn, loop: l, owner: p})
			}
		}
	}
	if len(all) > 1 {
		slices.SortFunc(all, func(a, b option) int { return cmp.Compare(a.turn, b.turn) })
	}
	return all
}

// step lets one thing happen, or time go on; false: nothing will ever happen, or not
// before the limit.
func (w *world) step(limit time.Time) bool {
	w.gather()
	w.steps++
	now := time.Now()
	if len(w.timers) > 0 && !w.timers[0].at.After(now) {
		t := w.timers[0]
		w.timers = w.timers[1:]
		t.do()
		return true
	}
	if w.chaos && w.chance(w.profile.events) {
		w.befall()
		return true
	}
	options := w.options(now)
	if len(options) == 0 {
		return w.rest(now, limit)
	}
	chosen := 0
	if w.chaos && len(options) > 1 && w.chance(w.profile.disorder) {
		chosen = w.pick(len(options))
	}
	switch o := options[chosen]; {
	case o.call != nil:
		if role := o.call.process.role(); role == "detector" || role == "remote" && !o.call.request.IsWrite() {
			w.heartbeats++
		}
		w.carry(o.call)
	case o.watch != nil:
		w.deliver(o.owner, o.watch)
	default:
		i := 0
		if w.chaos && len(o.loop.queue.ready) > 1 && w.chance(w.profile.disorder) {
			i = w.pick(len(o.loop.queue.ready))
		}
		name := o.loop.queue.take(i)
		bound := lookTime
		if !o.owner.leads() {
			bound = 0 // a runner takes as long as its remedy
		}
		o.loop.start(name, bound)
	}
	return true
}

// rest lets time go on, where nothing else can happen; false: the limit is over.
func (w *world) rest(now, limit time.Time) bool {
	if now.After(limit) {
		return false
	}
	w.oracles.rested()
	w.sleep(now)
	return true
}

// sleep lets time go on until something can happen.
func (w *world) sleep(now time.Time) {
	next := now.Add(10 * time.Minute)
	sooner := func(at time.Time) {
		if at.After(now) && at.Before(next) {
			next = at
		}
	}
	if len(w.timers) > 0 {
		sooner(w.timers[0].at)
	}
	for _, c := range w.calls {
		sooner(c.ready)
		if !c.abandoned {
			sooner(c.process.frozen)
		}
	}
	for _, p := range w.processes {
		sooner(p.frozen)
		sooner(p.cut)
		for _, watch := range p.watches {
			sooner(watch.stalled)
		}
		for _, l := range p.loops {
			if at, ok := l.queue.next(); ok {
				sooner(at)
			}
		}
	}
	w.published()
	t := time.NewTimer(next.Sub(now))
	defer t.Stop()
	w.published()
	select {
	case <-t.C:
	case <-w.wake:
	}
}

// distant is later than anything.
var distant = time.Unix(math.MaxInt32, 0)

// broken reports that something is wrong. The first one counts.
func (w *world) broken(rule, format string, args ...any) {
	w.oracles.violated(rule, fmt.Sprintf(format, args...))
}
