package sim

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

// people are those who use the cluster, and what oracles have to know of their acts.
type people struct {
	world *world
	// cordoned are the nodes that a person has cordoned and nobody uncordoned since.
	cordoned map[string]bool
	// limited is when somebody last changed a budget, or what budgets select.
	limited time.Time
	// edited is when somebody last changed a policy.
	edited time.Time
	// meddled is when somebody last changed or deleted objects that only the controller
	// is to write.
	meddled time.Time
	// unburied is when somebody last deleted a tombstone.
	unburied time.Time
	// replaced are the nodes whose object was deleted.
	replaced map[string]bool
	// blinded are the actions that were deleted before any controller had seen that they
	// exist: it takes them for never created. Admission lets nobody do that but
	// system:masters.
	blinded map[string]bool
	retries int
	created int
}

// peoplesActs are what people do.
func peoplesActs() []happening {
	return []happening{
		{"a policy is edited", 2, (*world).editPolicy},
		{"a policy is paused or resumed", 2, (*world).pausePolicy},
		{"a policy is deleted", 1, (*world).deletePolicy},
		{"a budget is edited", 2, (*world).editBudget},
		{"a budget is paused or resumed", 2, (*world).pauseBudget},
		{"a budget is deleted", 1, (*world).deleteBudget},
		{"the cluster is paused or resumed", 2, (*world).pauseCluster},
		{"a remediation is deleted", 2, (*world).deleteRemediation},
		{"a finalizer is removed", 1, (*world).removeFinalizer},
		{"an action is deleted", 2, (*world).deleteAction},
		{"a maintenance is deleted", 2, (*world).deleteMaintenance},
		{"a person takes a node out", 2, (*world).startMaintenance},
		{"a node is cordoned or uncordoned", 3, (*world).cordon},
		{"a cordon of ours is taken over", 2, (*world).takeOverCordon},
		{"a node is excluded or included", 2, (*world).exclude},
		{"a node is relabelled", 2, (*world).relabel},
		{"a node is deleted and registered anew", 1, (*world).replaceNode},
		{"a step is approved", 3, (*world).approve},
		{"somebody starts over", 3, (*world).retry},
		{"a pod is deleted", 1, (*world).deletePod},
	}
}

// anyObject chooses an object of a kind that is as wanted; false: there is none.
func anyObject[T client.Object](w *world, list client.ObjectList, items func() []T, wanted func(T) bool) (T, bool) {
	w.must(w.admin.List(w.ctx, list))
	var fit []T
	for _, item := range items() {
		if wanted == nil || wanted(item) {
			fit = append(fit, item)
		}
	}
	if len(fit) == 0 {
		var none T
		return none, false
	}
	return of(w.choices, fit...), true
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}

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

func (w *world) aRemediation(wanted func(*v1alpha1.Remediation) bool) (*v1alpha1.Remediation, bool) {
	var list v1alpha1.RemediationList
	return anyObject(w, &list, func() []*v1alpha1.Remediation { return pointers(list.Items) }, wanted)
}

// update writes an object as a person does, whatever others do at that time.
func (w *world) update(obj client.Object) bool {
	w.say("people", "change %s", describe(obj))
	w.must(client.IgnoreNotFound(w.admin.Update(w.ctx, obj)))
	return true
}

func (w *world) remove(obj client.Object) bool {
	w.say("people", "delete %s", describe(obj))
	w.must(client.IgnoreNotFound(w.admin.Delete(w.ctx, obj)))
	return true
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

// later lets people undo what they did, as they mostly do.
func (w *world) later(undo func()) {
	w.after(w.while(), func() {
		if w.chaos {
			undo()
		}
	})
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
	if !ok {
		return false
	}
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
		w.later(func() {
			if w.admin.Get(w.ctx, client.ObjectKeyFromObject(b), b) == nil {
				b.Spec.Paused = false
				w.update(b)
			}
		})
	}
	return w.update(b)
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

func (w *world) deleteRemediation() bool {
	r, ok := w.aRemediation(func(r *v1alpha1.Remediation) bool { return r.DeletionTimestamp == nil })
	if !ok {
		return false
	}
	if r.Annotations[v1alpha1.TombstoneAnnotation] != "" {
		w.people.unburied = time.Now()
	}
	if r.Ended() {
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
	r.Finalizers = nil
	return w.update(r)
}

func (w *world) deleteAction() bool {
	var list v1alpha1.NodeActionList
	a, ok := anyObject(w, &list, func() []*v1alpha1.NodeAction { return pointers(list.Items) }, nil)
	if !ok {
		return false
	}
	w.people.meddled = time.Now()
	r := apiserver.Peek[*v1alpha1.Remediation](w.server, client.ObjectKey{Name: a.Spec.Remediation})
	w.people.blinded[a.Name] = r != nil && r.State() == v1alpha1.ReasonStarting
	return w.remove(a)
}

func (w *world) deleteMaintenance() bool {
	var list v1alpha1.NodeMaintenanceList
	m, ok := anyObject(w, &list, func() []*v1alpha1.NodeMaintenance { return pointers(list.Items) }, nil)
	return ok && w.remove(m)
}

func (w *world) startMaintenance() bool {
	n := of(w.choices, w.nodes...)
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

// anObject chooses a node that has an object.
func (w *world) anObject() (*corev1.Node, bool) {
	var list corev1.NodeList
	return anyObject(w, &list, func() []*corev1.Node { return pointers(list.Items) }, nil)
}

func (w *world) cordon() bool {
	obj, ok := w.anObject()
	if !ok {
		return false
	}
	obj.Spec.Unschedulable = !obj.Spec.Unschedulable
	w.people.cordoned[obj.Name] = obj.Spec.Unschedulable
	if obj.Spec.Unschedulable {
		w.later(func() {
			if w.people.cordoned[obj.Name] && w.admin.Get(w.ctx, client.ObjectKeyFromObject(obj), obj) == nil {
				w.people.cordoned[obj.Name], obj.Spec.Unschedulable = false, false
				w.update(obj)
			}
		})
	}
	return w.update(obj)
}

// takeOverCordon lets a person uncordon a node that we have cordoned, and cordon it again
// for a reason of their own.
func (w *world) takeOverCordon() bool {
	n := w.anyNode(func(n *node) bool {
		obj := apiserver.Peek[*corev1.Node](w.server, client.ObjectKey{Name: n.name})
		return obj != nil && obj.Spec.Unschedulable && obj.Annotations[v1alpha1.CordonedAnnotation] != ""
	})
	if n == nil {
		return false
	}
	set := func(cordoned bool) {
		var obj corev1.Node
		if w.admin.Get(w.ctx, client.ObjectKey{Name: n.name}, &obj) == nil && obj.Spec.Unschedulable != cordoned {
			obj.Spec.Unschedulable = cordoned
			w.people.cordoned[n.name] = cordoned
			w.update(&obj)
		}
	}
	set(false)
	w.after(of(w.choices, time.Second, time.Minute), func() { set(true) })
	return true
}

func (w *world) exclude() bool {
	obj, ok := w.anObject()
	if !ok {
		return false
	}
	if v1alpha1.Excluded(obj) {
		delete(obj.Labels, v1alpha1.ExcludeLabel)
	} else {
		obj.Labels[v1alpha1.ExcludeLabel] = "true"
		w.later(func() {
			if w.admin.Get(w.ctx, client.ObjectKeyFromObject(obj), obj) == nil {
				delete(obj.Labels, v1alpha1.ExcludeLabel)
				w.update(obj)
			}
		})
	}
	return w.update(obj)
}

func (w *world) relabel() bool {
	obj, ok := w.anObject()
	if !ok {
		return false
	}
	w.people.limited = time.Now()
	if w.chance(500) {
		obj.Labels["rack"] = of(w.choices, "r1", "r2")
	} else {
		obj.Labels[poolLabel] = of(w.choices, "a", "b")
	}
	return w.update(obj)
}

// replaceNode deletes a node's object; its kubelet registers it anew later.
func (w *world) replaceNode() bool {
	obj, ok := w.anObject()
	if !ok {
		return false
	}
	n := w.node(obj.Name)
	labels := maps.Clone(obj.Labels)
	delete(labels, v1alpha1.ExcludeLabel)
	w.people.limited = time.Now()
	w.people.replaced[n.name] = true
	w.after(of(w.choices, time.Second, time.Minute), func() {
		w.people.limited = time.Now()
		w.people.cordoned[n.name] = false
		w.say("kubelet "+n.name, "registers")
		w.register(n, labels)
		n.kubelet()
	})
	return w.remove(obj)
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

func annotate(obj client.Object, key, value string) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
}

func (w *world) deletePod() bool {
	var list corev1.PodList
	pod, ok := anyObject(w, &list, func() []*corev1.Pod { return pointers(list.Items) }, nil)
	return ok && w.remove(pod)
}

// comeToRest lets people give back what only they give back: their own maintenances, and
// those that a remediation has left behind which somebody has deleted. Pods that veto end.
func (p *people) comeToRest() {
	for _, pod := range apiserver.Stored[*corev1.Pod](p.world.server) {
		if pod.Labels[vetoLabel] != "" {
			p.world.remove(pod.DeepCopy())
		}
	}
	for _, m := range apiserver.Stored[*v1alpha1.NodeMaintenance](p.world.server) {
		owner := m.Spec.Remediation
		if owner != nil {
			r := apiserver.Peek[*v1alpha1.Remediation](p.world.server, client.ObjectKey{Name: owner.Name})
			if r != nil && r.UID == owner.UID && r.State() != v1alpha1.ReasonDeleted {
				continue
			}
		}
		p.world.remove(m.DeepCopy())
	}
}
