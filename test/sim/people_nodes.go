package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

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
	n := w.anyCordonedByUs()
	if n == nil {
		return false
	}
	w.setCordon(n, false)
	w.after(of(w.choices, time.Second, time.Minute), func() { w.setCordon(n, true) })
	return true
}

// fillUncordoned lets a person uncordon a node that we have cordoned. Pods come at once.
func (w *world) fillUncordoned() bool {
	n := w.anyCordonedByUs()
	if n != nil {
		w.fill(n)
	}
	return n != nil
}

// fill lets a person uncordon a node. A pod comes at once.
func (w *world) fill(n *node) {
	w.setCordon(n, false)
	w.people.created++
	w.pod(n, fmt.Sprintf("%s-late%d", n.name, w.people.created))
}

// anyCordonedByUs chooses a node that we have cordoned; nil: there is none.
func (w *world) anyCordonedByUs() *node {
	return w.anyNode(func(n *node) bool {
		obj := apiserver.Peek[*corev1.Node](w.server, client.ObjectKey{Name: n.name})
		return obj != nil && obj.Spec.Unschedulable && obj.Annotations[v1alpha1.CordonedAnnotation] != ""
	})
}

// setCordon lets a person cordon or uncordon a node.
func (w *world) setCordon(n *node, cordoned bool) {
	var obj corev1.Node
	if w.admin.Get(w.ctx, client.ObjectKey{Name: n.name}, &obj) == nil && obj.Spec.Unschedulable != cordoned {
		obj.Spec.Unschedulable = cordoned
		w.people.cordoned[n.name] = cordoned
		w.update(&obj)
	}
}

func (w *world) exclude() bool {
	obj, ok := w.anObject()
	if !ok {
		return false
	}
	if v1alpha1.Excluded(obj) {
		delete(obj.Labels, v1alpha1.ExcludeLabel)
		return w.update(obj)
	}
	w.excludeForAWhile(obj.Name)
	return true
}

func (w *world) excludeForAWhile(node string) {
	w.changeNode(node, func(n *corev1.Node) { n.Labels[v1alpha1.ExcludeLabel] = "true" })
	w.later(func() {
		w.changeNode(node, func(n *corev1.Node) { delete(n.Labels, v1alpha1.ExcludeLabel) })
	})
}

// leavingTaint is how the cluster-autoscaler marks a node that it is about to remove.
const leavingTaint = "ToBeDeletedByClusterAutoscaler"

// leave lets an autoscaler mark a node that it is about to remove, and then not do so.
func (w *world) leave() bool {
	obj, ok := w.anObject()
	if !ok || leaving(obj) {
		return false
	}
	obj.Spec.Taints = append(obj.Spec.Taints, corev1.Taint{Key: leavingTaint, Effect: corev1.TaintEffectNoSchedule})
	w.after(w.while(), func() {
		var marked corev1.Node
		if w.admin.Get(w.ctx, client.ObjectKeyFromObject(obj), &marked) == nil {
			marked.Spec.Taints = slices.DeleteFunc(marked.Spec.Taints, func(t corev1.Taint) bool { return t.Key == leavingTaint })
			w.update(&marked)
		}
	})
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
	return ok && w.registerAnew(obj)
}

// registerAnew deletes a node, which then registers itself again.
func (w *world) registerAnew(obj *corev1.Node) bool {
	n := w.node(obj.Name)
	labels := maps.Clone(obj.Labels)
	delete(labels, v1alpha1.ExcludeLabel)
	delete(labels, healerLabel)
	w.people.limited = time.Now()
	w.people.replaced[n.name] = true
	w.after(of(w.choices, time.Second, time.Minute), func() {
		w.people.limited = time.Now()
		if apiserver.Peek[*corev1.Node](w.server, client.ObjectKey{Name: n.name}) != nil {
			return // it has, after another deletion
		}
		w.people.cordoned[n.name] = false
		w.say("kubelet "+n.name, "registers")
		w.register(n, labels)
		n.kubelet()
	})
	return w.remove(obj)
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
