package sim

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func (w *world) aPolicy() (*v1alpha1.RemedyPolicy, bool) {
	var list v1alpha1.RemedyPolicyList
	return anyObject(w, &list, func() []*v1alpha1.RemedyPolicy { return pointers(list.Items) }, nil)
}

func (w *world) aBudget() (*v1alpha1.RemediationBudget, bool) {
	var list v1alpha1.RemediationBudgetList
	return anyObject(w, &list, func() []*v1alpha1.RemediationBudget { return pointers(list.Items) }, func(b *v1alpha1.RemediationBudget) bool {
		return b.Name != v1alpha1.ClusterPauseBudget
	})
}

func (w *world) editPolicy() bool {
	p, ok := w.aPolicy()
	if !ok {
		return false
	}
	w.people.edited = time.Now()
	fresh := w.newPolicy(p.Name)
	switch w.pick(3) {
	case 0:
		p.Spec.Steps = fresh.Spec.Steps
	case 1:
		p.Spec.Match = fresh.Spec.Match
	default:
		paused := p.Spec.Paused
		p.Spec = fresh.Spec
		p.Spec.Paused = paused
	}
	return w.update(p)
}

func (w *world) pausePolicy() bool {
	p, ok := w.aPolicy()
	if !ok {
		return false
	}
	p.Spec.Paused = !p.Spec.Paused
	if p.Spec.Paused {
		w.later(func() { w.setPaused(p.Name, false) })
	}
	return w.update(p)
}

func (w *world) setPaused(policy string, paused bool) {
	var p v1alpha1.RemedyPolicy
	if w.admin.Get(w.ctx, client.ObjectKey{Name: policy}, &p) == nil {
		p.Spec.Paused = paused
		w.update(&p)
	}
}

func (w *world) deletePolicy() bool {
	p, ok := w.aPolicy()
	return ok && w.dropPolicy(p)
}

// dropPolicy deletes a policy, and creates another one of its name later.
func (w *world) dropPolicy(p *v1alpha1.RemedyPolicy) bool {
	w.after(w.while(), func() {
		fresh := w.newPolicy(p.Name)
		w.people.edited = time.Now()
		w.say("people", "create policy %s", p.Name)
		_ = w.admin.Create(w.ctx, fresh) // somebody else may have
	})
	return w.remove(p)
}

func (w *world) editBudget() bool {
	b, ok := w.aBudget()
	if !ok {
		return false
	}
	w.people.limited = time.Now()
	if w.chance(300) {
		b.Spec.NodeSelector = w.selector()
	} else {
		w.limits(&b.Spec)
	}
	return w.update(b)
}

func (w *world) pauseBudget() bool {
	b, ok := w.aBudget()
	if !ok {
		return false
	}
	b.Spec.Paused = !b.Spec.Paused
	if b.Spec.Paused {
		w.later(func() { w.setBudgetPaused(b.Name, false) })
	}
	return w.update(b)
}

func (w *world) setBudgetPaused(name string, paused bool) {
	var b v1alpha1.RemediationBudget
	if w.chaos && w.admin.Get(w.ctx, client.ObjectKey{Name: name}, &b) == nil && b.Spec.Paused != paused {
		b.Spec.Paused = paused
		w.update(&b)
	}
}

func (w *world) deleteBudget() bool {
	b, ok := w.aBudget()
	if !ok {
		return false
	}
	w.people.limited = time.Now()
	fresh := w.newBudget(b.Name)
	w.after(of(w.choices, time.Second, time.Minute), func() {
		w.people.limited = time.Now()
		w.say("people", "create budget %s", b.Name)
		_ = w.admin.Create(w.ctx, fresh) // somebody else may have
	})
	return w.remove(b)
}

func (w *world) pauseCluster() bool {
	b := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterPauseBudget}}
	if w.admin.Get(w.ctx, client.ObjectKeyFromObject(b), b) == nil {
		return w.remove(b)
	}
	b.Spec.Paused = true
	w.say("people", "pause the cluster")
	w.must(w.admin.Create(w.ctx, b))
	w.later(func() { w.remove(b) })
	return true
}
