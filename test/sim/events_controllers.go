package sim

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cutControllerOff parts a controller from the API server for a while: what it asks for is
// lost, and it sees nothing.
func (w *world) cutControllerOff() bool {
	leaders := w.leaders()
	if len(leaders) == 0 {
		return false
	}
	w.cutOffFor(of(w.choices, leaders...), of(w.choices, 5*time.Second, 45*time.Second, 3*time.Minute))
	return true
}

func (w *world) cutOffFor(p *process, long time.Duration) {
	w.say(p.name, "is cut off for %s", long)
	p.cut = time.Now().Add(long)
	w.trouble(p.cut)
}

// stall lets a process see nothing of a kind for a while.
func (w *world) stall(p *process, kind client.Object, long time.Duration) {
	for _, watch := range p.watches {
		if sameType(watch.kind, kind) {
			watch.stalled = time.Now().Add(long)
			w.trouble(watch.stalled)
			w.say(p.name, "sees nothing of %T for %s", kind, long)
		}
	}
}

// listAnew lets a process see all of a kind as it is now.
func (w *world) listAnew(p *process, kind client.Object) {
	for _, watch := range p.watches {
		if sameType(watch.kind, kind) && !p.dead.Load() {
			watch.stalled = time.Time{}
			w.say(p.name, "lists %T anew", watch.kind)
			w.relist(p, watch)
		}
	}
}

// hide lets no controller see what becomes of a kind for a while; then each lists it anew.
func (w *world) hide(kind client.Object, long time.Duration) {
	for _, leader := range w.leaders() {
		w.stall(leader, kind, long)
		w.after(long-time.Second, func() { w.listAnew(leader, kind) })
	}
}

// twoLeaders starts a second controller, for a while, unless there are two already; false:
// there is none.
func (w *world) twoLeaders() bool { return len(w.leaders()) > 1 || w.secondLeader() }
