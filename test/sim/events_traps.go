package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

// A trap is sprung by the next action that is created: what has to happen within seconds of
// that is hardly ever played otherwise.

// setTrap lets the controller die right after it has created the next action. Once that
// has finished, somebody deletes it: whoever leads next knows only that it was announced.
func (w *world) setTrap() bool {
	if w.trap != nil {
		return false
	}
	after := of(w.choices, time.Second, 10*time.Second, 40*time.Second)
	w.trap = func(name string) {
		for _, p := range w.leaders() {
			w.end(p)
		}
		w.after(after, func() {
			if a := apiserver.Peek[*v1alpha1.NodeAction](w.server, client.ObjectKey{Name: name}); a != nil && a.Finished() != nil && w.chaos {
				w.people.meddled = time.Now()
				w.people.blinded[name] = true
				w.remove(a.DeepCopy())
			}
			w.oneLeader()
		})
	}
	return true
}

// undoAction lets a person undo the next action, or what it is for, before its runner has
// claimed it or while it runs.
func (w *world) undoAction() bool {
	if w.trap != nil {
		return false
	}
	undo := of(w.choices, w.giveBackOf, w.deleteOf, w.forceOf, w.policyOf, w.pauseOf, w.nodeOf)
	delay := of(w.choices, (*node).runnerAway, (*node).lateClaim, (*node).inTime)
	undone := of(w.choices, 0, time.Second, 10*time.Second)
	leaderless := w.chance(300)
	w.trap = func(name string) {
		a := apiserver.Peek[*v1alpha1.NodeAction](w.server, client.ObjectKey{Name: name})
		if a == nil {
			return
		}
		delay(w.node(a.Spec.NodeName))
		if leaderless {
			for _, p := range w.leaders() {
				w.end(p)
			}
			w.after(time.Minute, w.oneLeader)
		}
		w.after(undone, func() {
			if r := apiserver.Peek[*v1alpha1.Remediation](w.server, client.ObjectKey{Name: a.Spec.Remediation}); r != nil && w.chaos {
				undo(r.DeepCopy())
			}
		})
	}
	return true
}

// runnerAway lets the runner be away for a part of the time that an action may be claimed.
func (n *node) runnerAway() {
	n.world.end(n.runner)
	n.again(of(n.world.choices, 25*time.Second, 55*time.Second), n.startRunner)
}

// lateClaim lets the next claim of the runner be on its way for long.
func (n *node) lateClaim() { n.claimTakes = of(n.world.choices, 5*time.Second, 30*time.Second) }

// inTime changes nothing.
func (n *node) inTime() {}

// giveBackOf gives back the node of a remediation.
func (w *world) giveBackOf(r *v1alpha1.Remediation) {
	if r.Status.Maintenance != "" {
		w.remove(&v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: r.Status.Maintenance}})
	}
}

// deleteOf deletes a remediation.
func (w *world) deleteOf(r *v1alpha1.Remediation) { w.remove(r) }

// forceOf deletes a remediation, and does not wait for whoever has to agree.
func (w *world) forceOf(r *v1alpha1.Remediation) {
	w.people.meddled = time.Now()
	w.people.forced[r.UID] = true
	r.Finalizers = nil
	w.update(r)
	w.remove(r)
}

// policyOf deletes the policy of a remediation.
func (w *world) policyOf(r *v1alpha1.Remediation) {
	var p v1alpha1.RemedyPolicy
	if w.admin.Get(w.ctx, client.ObjectKey{Name: r.Spec.Policy.Name}, &p) == nil {
		w.dropPolicy(&p)
	}
}

// pauseOf pauses the policy of a remediation.
func (w *world) pauseOf(r *v1alpha1.Remediation) {
	w.setPaused(r.Spec.Policy.Name, true)
	w.later(func() { w.setPaused(r.Spec.Policy.Name, false) })
}

// nodeOf replaces the node of a remediation.
func (w *world) nodeOf(r *v1alpha1.Remediation) {
	var node corev1.Node
	if w.admin.Get(w.ctx, client.ObjectKey{Name: r.Spec.NodeName}, &node) == nil {
		w.registerAnew(&node)
	}
}
