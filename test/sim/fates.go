package sim

import (
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodemend/nodemend/internal/power/proof"
)

// send puts a request on its way. It is called by the goroutines of processes.
func (w *world) send(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fresh = append(w.fresh, c)
	w.rouse()
}

// trouble says that something is wrong with a controller until a time.
func (w *world) trouble(until time.Time) {
	w.wentWrong, w.troubled = time.Now(), later(w.troubled, until)
}

// delay says that a request of a controller may be on its way until a time.
func (w *world) delay(until time.Time) { w.delayed = later(w.delayed, until) }

// mayBeOnItsWay reports whether a request may be on its way that nobody waits for, or arrives just now.
func (w *world) mayBeOnItsWay() bool { return !w.delayed.Before(time.Now()) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// deliver lets a process see the next event of a kind.
func (w *world) deliver(p *process, watch *watch) {
	watch.turn = 0
	if w.chaos && w.chance(w.profile.stalls) {
		watch.stalled = time.Now().Add(of(w.choices, 2*time.Second, 10*time.Second, time.Minute, 5*time.Minute))
		if p.leads() {
			w.trouble(watch.stalled)
		}
		w.count("watch stalls")
		w.say(p.name, "sees nothing of %T for a while", watch.kind)
		return
	}
	if w.chaos && w.chance(w.profile.relists) {
		w.count("watch breaks")
		w.say(p.name, "lists %T anew", watch.kind)
		w.relist(p, watch)
		return
	}
	step, ok, err := p.view.Next(watch.kind)
	switch {
	case err != nil:
		w.relist(p, watch)
	case ok:
		w.oracles.seen(step)
		watch.told(step)
	}
}

func (w *world) relist(p *process, watch *watch) {
	steps, err := p.view.Relist(watch.kind)
	if err != nil {
		w.broken("the simulation", "listing %T: %v", watch.kind, err)
		return
	}
	for _, step := range steps {
		w.oracles.seen(step)
		watch.told(step)
	}
}

var errLost = errors.New("connection reset by peer")

// fates of a request.
const (
	arrives = iota
	late
	lost
	answeredLate
	answerLost
	diesBefore
	diesAfter
	fails
)

// carry takes a request to the server, or its answer back.
func (w *world) carry(c *call) {
	fate := arrives
	if (w.chaos || w.fated != nil) && !c.judged && !c.abandoned {
		c.judged = true
		if w.fated != nil {
			fate = w.fated(c)
		} else {
			fate = w.fate(c)
		}
	}
	if n := c.process.node; fate == arrives && n != nil && n.claimTakes > 0 && c.request.Verb == "update" && c.request.Kind == "NodeAction" && !c.served {
		w.say(c.process.name, "%s: takes %s", c.request, n.claimTakes)
		c.ready, n.claimTakes = time.Now().Add(n.claimTakes), 0
		return
	}
	if fate == arrives && w.slowedDown(c) {
		return
	}
	if what := c.request.Verb + " " + c.request.Kind; w.chaos && fate == arrives && c.process.remote && what == w.unheard && !c.abandoned {
		fate, w.unheard = answerLost, ""
	}
	if longest := time.Now().Add(3 * time.Minute); fate != arrives && c.process.leads() { // that it is late
		w.trouble(longest)
		if fate == late || fate == answeredLate {
			w.delay(longest)
		}
	} else if fate != arrives {
		c.process.slowUntil(longest)
	}
	if fate != arrives {
		w.say(c.process.name, "%s: %s", c.request, fateNames[fate])
		w.count("request " + fateNames[fate])
	}
	switch fate {
	case late:
		c.slowed = true
		c.ready = time.Now().Add(of(w.choices, time.Second, 5*time.Second, 40*time.Second, 3*time.Minute))
		return
	case lost:
		w.reply(c, errLost)
		return
	case fails:
		w.reply(c, apierrors.NewInternalError(errors.New("etcdserver: request timed out")))
		return
	case diesBefore:
		w.end(c.process)
		w.drop(c)
		return
	}
	if c.abandoned && c.process.leads() {
		w.trouble(time.Now()) // whoever asked had no time to end its look
	}
	if !c.served && c.abandoned && c.process.role() == "detector" {
		// A detector's patch names no version: one that arrived after a later one would
		// undo it until the next heartbeat. It is taken as ended with its connection.
		w.drop(c)
		return
	}
	if !c.served && c.abandoned && (c.request.Kind == machineKind && time.Since(c.sent) > stragglesFor || c.request.Kind == bmcKind && time.Since(c.sent) >= proof.CallTimeout) {
		w.drop(c) // it ended with its connection
		return
	}
	if !c.served {
		c.served = true
		if c.process.cutOff() && c.request.Verb != point && c.request.Kind != bmcKind {
			c.answer = errLost
		} else {
			w.count("requests of " + c.process.role())
			if w.counted != nil {
				w.counted(c.process, c.request)
			}
			w.executing(c)
			w.serving = c
			c.answer = c.serve()
			w.serving = nil
			w.said(c)
			c.process.learn()
		}
	}
	switch fate {
	case answeredLate:
		c.ready = time.Now().Add(of(w.choices, time.Second, 5*time.Second, 40*time.Second, 3*time.Minute))
	case answerLost:
		w.reply(c, errLost)
	case diesAfter:
		w.end(c.process)
		w.drop(c)
	default:
		w.reply(c, c.answer)
	}
}

// slowedDown lets a write take as long as somebody has said; false: nobody has.
func (w *world) slowedDown(c *call) bool {
	what := c.request.Verb + " " + c.request.Kind
	takes := w.slow[what]
	if takes == nil || c.process.node != nil || c.served || c.slowed {
		return false
	}
	long := takes(c)
	if long == 0 {
		return false
	}
	c.slowed = true
	delete(w.slow, what)
	w.say(c.process.name, "%s: takes %s", c.request, long)
	c.ready = time.Now().Add(long)
	if c.process.leads() {
		w.trouble(c.ready)
		w.delay(c.ready)
	} else {
		c.process.slowUntil(c.ready)
	}
	return true
}

var fateNames = []string{"arrives", "late", "lost", "answered late", "answer lost", "dies before", "dies after", "fails"}

func (w *world) fate(c *call) int {
	switch {
	case c.request.Verb == point:
		return []int{arrives, diesBefore}[w.weighted([]int{1000, w.profile.crashes})]
	case c.request.IsWrite():
		return w.weighted(w.profile.writes)
	default:
		return w.weighted(w.profile.reads)
	}
}

// reply answers a request, if anybody waits.
func (w *world) reply(c *call, err error) {
	w.drop(c)
	if !c.abandoned {
		c.abandoned = true
		c.reply <- err
	}
}

func (w *world) drop(c *call) {
	w.calls = slices.DeleteFunc(w.calls, func(other *call) bool { return other == c })
}

// point is the verb of a point at which a process may die; it is no request.
const point = "reach"
