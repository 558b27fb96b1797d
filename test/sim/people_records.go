package sim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

func (w *world) aRemediation(wanted func(*v1alpha1.Remediation) bool) (*v1alpha1.Remediation, bool) {
	var list v1alpha1.RemediationList
	return anyObject(w, &list, func() []*v1alpha1.Remediation { return pointers(list.Items) }, wanted)
}

func (w *world) deleteRemediation() bool {
	r, ok := w.aRemediation(func(r *v1alpha1.Remediation) bool { return r.DeletionTimestamp == nil })
	if !ok {
		return false
	}
	return w.removeRemediation(r)
}

func (w *world) removeRemediation(r *v1alpha1.Remediation) bool {
	if r.Annotations[v1alpha1.TombstoneAnnotation] != "" {
		w.people.unburied = time.Now()
	}
	node := apiserver.Peek[*corev1.Node](w.server, client.ObjectKey{Name: r.Spec.NodeName})
	if r.Ended() || len(r.Finalizers) == 0 || node == nil || node.UID != r.Spec.NodeUID {
		w.people.meddled = time.Now() // what it did is forgotten with it
	}
	return w.remove(r)
}

func (w *world) removeFinalizer() bool {
	r, ok := w.aRemediation(func(r *v1alpha1.Remediation) bool { return len(r.Finalizers) > 0 })
	if !ok {
		return false
	}
	w.people.meddled = time.Now()
	w.force(r)
	r.Finalizers = nil
	return w.update(r)
}

// forceRemediation deletes one that acts, and does not wait for its end.
func (w *world) forceRemediation() bool {
	r, ok := w.aRemediation(func(r *v1alpha1.Remediation) bool { return r.Status.Action != "" && !r.Ended() })
	if !ok {
		return false
	}
	w.forceOf(r)
	return true
}

func (w *world) deleteAction() bool {
	var list v1alpha1.NodeActionList
	a, ok := anyObject(w, &list, func() []*v1alpha1.NodeAction { return pointers(list.Items) }, nil)
	if !ok {
		return false
	}
	w.people.meddled = time.Now()
	r := apiserver.Peek[*v1alpha1.Remediation](w.server, client.ObjectKey{Name: a.Spec.Remediation})
	w.people.blinded[a.Name] = r != nil && r.State() == v1alpha1.ReasonStarting || w.creating(a.Name) || w.people.forced[a.Spec.RemediationUID]
	return w.remove(a)
}

// creating reports whether a request to create an action is on its way.
func (w *world) creating(action string) bool {
	return slices.ContainsFunc(w.calls, func(c *call) bool {
		return !c.served && c.request.Verb == "create" && c.request.Kind == "NodeAction" && c.request.Name == action
	})
}

func (w *world) deleteMaintenance() bool {
	var list v1alpha1.NodeMaintenanceList
	m, ok := anyObject(w, &list, func() []*v1alpha1.NodeMaintenance { return pointers(list.Items) }, nil)
	if ok && w.chance(300) { // somebody else needs the node
		w.after(0, func() { w.takeOut(w.node(m.Spec.NodeName)) })
	}
	return ok && w.remove(m)
}

func (w *world) startMaintenance() bool { return w.takeOut(of(w.choices, w.nodes...)) }

func (w *world) takeOut(n *node) bool {
	w.people.created++
	name := fmt.Sprintf("by-hand-%d", w.people.created)
	w.say("people", "take %s out: %s", n.name, name)
	w.must(w.admin.Create(w.ctx, &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: n.name, Reason: "search", Drain: w.newDrain()},
	}))
	w.after(w.while(), func() {
		m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: name}}
		w.remove(m)
	})
	return true
}

// callOffDrain lets a person delete a maintenance whose drain waits for pods that veto it,
// and then those pods, while no controller sees that.
func (w *world) callOffDrain() bool {
	var list v1alpha1.NodeMaintenanceList
	m, ok := anyObject(w, &list, func() []*v1alpha1.NodeMaintenance { return pointers(list.Items) }, func(m *v1alpha1.NodeMaintenance) bool {
		return drains(m) && m.Spec.Drain.VetoedBy != nil && w.oracles.vetoes(m.Spec.NodeName)
	})
	if !ok {
		return false
	}
	unseen := time.Now().Add(time.Minute)
	w.trouble(unseen)
	for _, p := range w.leaders() {
		for _, watch := range p.watches {
			if sameType(watch.kind, m) {
				watch.stalled = unseen
			}
		}
	}
	w.remove(m)
	for _, pod := range stored[*corev1.Pod](w.oracles) {
		if pod.Spec.NodeName == m.Spec.NodeName && pod.Labels[vetoLabel] != "" {
			w.remove(pod.DeepCopy())
		}
	}
	return true
}

func (w *world) approve() bool {
	r, ok := w.aRemediation(func(r *v1alpha1.Remediation) bool { return !r.Ended() })
	if !ok {
		return false
	}
	annotate(r, v1alpha1.ApprovedStepAnnotation, fmt.Sprint(max(1, r.Status.Step)))
	return w.update(r)
}

func (w *world) retry() bool {
	r, ok := w.aRemediation(func(r *v1alpha1.Remediation) bool { return !r.Ended() })
	if !ok {
		return false
	}
	w.people.retries++
	annotate(r, v1alpha1.RetryAnnotation, fmt.Sprint(w.people.retries))
	return w.update(r)
}
