package sim

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/others"
	"github.com/nodemend/nodemend/test/apiserver"
)

const (
	medik8s            = "medik8s"
	remediatorVersion  = "self-node-remediation.medik8s.io/v1alpha1"
	remediatorFinalize = "self-node-remediation.medik8s.io/snr-finalizer"
	timedOut           = "remediation.medik8s.io/nhc-timed-out"
	// remediatorTaint is not that of a healer that nobody has called.
	remediatorTaint = "remediation.medik8s.io/fence-agents-remediation"
)

// remediatorKinds are the kinds of another program's remediator, and what programs beside us have of a node.
func remediatorKinds() []schema.GroupVersionKind {
	version := schema.FromAPIVersionAndKind(remediatorVersion, "").GroupVersion()
	return []schema.GroupVersionKind{
		version.WithKind("SelfNodeRemediationTemplate"), version.WithKind("SelfNodeRemediation"),
		{Group: others.MachineGroup, Version: "v1beta2", Kind: others.MachineKind},
		{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"},
	}
}

// external is a step that is left to the remediator.
func external() v1alpha1.Step {
	return v1alpha1.Step{
		External: &v1alpha1.ExternalRemedy{TemplateRef: v1alpha1.TemplateReference{
			APIVersion: remediatorVersion, Kind: "SelfNodeRemediationTemplate", Namespace: medik8s, Name: "automatic",
		}},
		Timeout: duration(10 * time.Minute), VerifyTimeout: duration(2 * time.Minute), Attempts: 1,
	}
}

// remediatorTemplate is what its objects are made from.
func remediatorTemplate() *unstructured.Unstructured {
	template := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"remediationStrategy": "Automatic"}}},
	}}
	template.SetGroupVersionKind(remediatorKinds()[0])
	template.SetNamespace(medik8s)
	template.SetName("automatic")
	return template
}

// remediatorObject is that of a node, nil if there is none.
func (w *world) remediatorObject(node string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(remediatorKinds()[1])
	if w.admin.Get(w.ctx, client.ObjectKey{Namespace: medik8s, Name: node}, object) != nil {
		return nil
	}
	return object
}

// says lets a remediator write its conditions.
func says(object *unstructured.Unstructured, processing, succeeded string) {
	object.Object["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": "Processing", "status": processing, "reason": "Played"},
		map[string]any{"type": "Succeeded", "status": succeeded, "reason": "Played"},
	}}
}

// remediatorTaints taints the node while the remediator has it, as those of medik8s do.
func (w *world) remediatorTaints(node string, wanted bool) {
	ours := func(t corev1.Taint) bool { return t.Key == remediatorTaint }
	if n := apiserver.Peek[*corev1.Node](w.server, client.ObjectKey{Name: node}); n == nil || slices.ContainsFunc(n.Spec.Taints, ours) == wanted {
		return
	}
	w.changeNode(node, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, ours)
		if wanted {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: remediatorTaint, Effect: corev1.TaintEffectNoSchedule})
		}
	})
}

// remediators is another program's remediator in a search: what it does with an object is left to
// chance.
type remediators struct {
	world *world
	// plans are by the UIDs of objects, seen are these by the UIDs of the actions that own them.
	plans map[types.UID]*plan
	seen  map[types.UID]types.UID
	// dead is until when it does nothing.
	dead time.Time
}

// plan is what a remediator does with an object.
type plan struct {
	// succeeded is what it says when it is done, "" if it never is; healing whether it makes the node
	// well by then.
	succeeded string
	healing   bool
	// after is how long it takes, began when it has begun. done: it is.
	after time.Duration
	began time.Time
	done  bool

	// uncordons: before it lets go of a node it uncordons that, whoever has cordoned it, and waits until it
	// finds it so once more, as SelfNodeRemediation before 0.12.
	uncordons bool
	// stays: of a Node that is gone it says that there is nothing to do, and keeps its finalizer, as
	// FenceAgentsRemediation.
	stays bool
	// replaces: it deletes the Node, which comes back when it is done, as Metal3Remediation. It can't be
	// told to stop, and never says that it is done.
	replaces bool
	// switches: the machine is off until it is done. If it is to stop before, it stays off, as by a fence
	// agent that is killed.
	switches bool

	// freed: it has found the node uncordoned once. labels are those of the Node that it has deleted, at gone.
	freed  bool
	labels map[string]string
	gone   time.Time
	// deleted: a person has deleted its object.
	deleted bool
}

// install has a remediator at work.
func (w *world) installRemediators() {
	w.count("another program is there")
	w.must(w.admin.Create(w.ctx, remediatorTemplate()))
	w.remediators = &remediators{world: w, plans: map[types.UID]*plan{}, seen: map[types.UID]types.UID{}}
	w.after(5*time.Second, w.remediators.look)
}

// look lets it look at its objects.
func (m *remediators) look() {
	m.world.after(5*time.Second, m.look)
	for _, n := range m.world.nodes {
		object := m.world.remediatorObject(n.name)
		if object == nil {
			m.world.remediatorTaints(n.name, false)
			continue
		}
		if m.collected(object) {
			continue
		}
		m.world.oracles.handedRightly(object, n.name, m.seen)
		if !m.dead.After(time.Now()) && m.works(object, n) {
			m.world.must(m.world.admin.Update(m.world.ctx, object))
		}
	}
}

// collected plays Kubernetes' garbage collector: an object whose owner is gone goes, and its remediator
// lets it.
func (m *remediators) collected(object *unstructured.Unstructured) bool {
	owner := object.GetOwnerReferences()[0]
	if a := apiserver.Peek[*v1alpha1.NodeAction](m.world.server, client.ObjectKey{Name: owner.Name}); a != nil && a.UID == owner.UID {
		return false
	}
	m.world.count("another program's object is collected")
	object.SetFinalizers(nil)
	m.world.must(m.world.admin.Update(m.world.ctx, object))
	m.world.must(client.IgnoreNotFound(m.world.admin.Delete(m.world.ctx, object)))
	return true
}

// works works on an object, and reports whether it has changed that.
func (m *remediators) works(object *unstructured.Unstructured, n *node) bool {
	w := m.world
	p := m.plans[object.GetUID()]
	if p == nil {
		p = of(w.choices, &plan{succeeded: "True", healing: true}, &plan{succeeded: "True"}, &plan{succeeded: "False"}, &plan{})
		p.after = w.while()
		switch w.pick(6) {
		case 1:
			p.uncordons = true
		case 2:
			p.stays = true
		case 3:
			p.replaces = true
		case 4:
			p.switches = true
		}
		m.plans[object.GetUID()] = p
		w.count("another program has a node")
	}
	return w.worksOn(object, n, p)
}

// worksOn lets a remediator work on an object, and reports whether it has changed that.
func (w *world) worksOn(object *unstructured.Unstructured, n *node, p *plan) bool {
	_, stop := object.GetAnnotations()[timedOut]
	begun := controllerutil.ContainsFinalizer(object, remediatorFinalize)
	switch {
	case p.stays && n.object() == nil:
		w.count("another program keeps what it has of a Node that is gone")
		says(object, "False", "False")
	case p.replaces && begun && !p.done:
		w.oracles.notStoppedInTheMiddle(object, n, p)
		w.replace(n, p)
		return false
	case object.GetDeletionTimestamp() != nil:
		w.oracles.notLeftOff(object, n, p)
		if p.uncordons && !w.frees(n, p) {
			return false
		}
		w.remediatorTaints(n.name, false)
		controllerutil.RemoveFinalizer(object, remediatorFinalize)
	case stop:
		says(object, "False", "False")
	case !begun:
		p.began = time.Now()
		w.remediatorTaints(n.name, true)
		controllerutil.AddFinalizer(object, remediatorFinalize)
		says(object, "True", "Unknown")
		if p.switches && w.chaos { // it may leave it off
			n.powerOff()
		}
	case !p.done && p.succeeded != "" && time.Since(p.began) >= p.after:
		p.done = true
		if p.healing {
			clear(n.faults)
		}
		if p.switches {
			n.powerOn()
		}
		says(object, "False", p.succeeded)
	default:
		return false
	}
	return true
}

// frees uncordons a node, and reports whether it has stayed so.
func (w *world) frees(n *node, p *plan) bool {
	obj := n.object()
	if obj != nil && obj.Spec.Unschedulable {
		w.count("another program uncordons a node")
		p.freed = false
		w.changeNode(n.name, func(n *corev1.Node) { n.Spec.Unschedulable = false })
		return false
	}
	free := p.freed || obj == nil
	p.freed = true
	return free
}

// replace deletes the Node, and has it register anew with its machine when the time is over.
func (w *world) replace(n *node, p *plan) {
	obj := n.object()
	switch {
	case p.labels == nil && obj == nil: // somebody else has deleted it
		p.done = true
	case p.labels == nil:
		w.count("another program deletes a Node, which comes back")
		p.labels, p.gone = maps.Clone(obj.Labels), time.Now()
		delete(p.labels, v1alpha1.ExcludeLabel)
		delete(p.labels, healerLabel)
		w.people.limited, w.people.replaced[n.name] = time.Now(), true
		n.powerOff()
		w.must(client.IgnoreNotFound(w.admin.Delete(w.ctx, obj.DeepCopy())))
	case time.Since(p.began) >= p.after:
		p.done = true
		if p.healing {
			clear(n.faults)
		}
		w.people.limited, w.people.cordoned[n.name] = time.Now(), false
		if obj == nil {
			w.register(n, p.labels)
		}
		n.powerOn()
		n.kubelet()
	}
}

// deleteOfOthers lets a person delete the object of another program.
func (w *world) deleteOfOthers() bool {
	n := w.anyNode(func(n *node) bool { return w.remediators != nil && w.remediatorObject(n.name) != nil })
	if n == nil {
		return false
	}
	object := w.remediatorObject(n.name)
	if p := w.remediators.plans[object.GetUID()]; p != nil {
		p.deleted = true
	}
	w.must(client.IgnoreNotFound(w.admin.Delete(w.ctx, object)))
	return true
}

// deleteNodeOfOthers deletes the Node of what another program has, which registers itself again.
func (w *world) deleteNodeOfOthers() bool {
	n := w.anyNode(func(n *node) bool {
		return w.remediators != nil && n.object() != nil && w.remediatorObject(n.name) != nil
	})
	return n != nil && w.registerAnew(n.object().DeepCopy())
}

// otherDies lets the other program do nothing for a while.
func (w *world) otherDies() bool {
	if w.remediators == nil {
		return false
	}
	w.remediators.dead = time.Now().Add(w.while())
	return true
}
