package sim

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
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

// snatchBudget lets a person replace a budget as soon as it has given a permit. The
// controller, which has just been cut off, can do nothing with the permit, and does not see
// for a while that it is gone.
func (w *world) snatchBudget() bool {
	if w.permitTrap != nil {
		return false
	}
	const long = 45 * time.Second
	w.permitTrap = func(name string) {
		b := apiserver.Peek[*v1alpha1.RemediationBudget](w.server, client.ObjectKey{Name: name})
		if b == nil || !w.chaos {
			return
		}
		for _, p := range w.leaders() {
			w.cutOffFor(p, long)
			w.stall(p, &v1alpha1Budget, long+3*time.Minute)
		}
		fresh := &v1alpha1.RemediationBudget{Spec: *b.Spec.DeepCopy()}
		fresh.Name = name
		w.people.limited = time.Now()
		w.remove(b.DeepCopy())
		w.must(w.admin.Create(w.ctx, fresh))
	}
	return true
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
