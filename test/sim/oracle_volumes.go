package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power/proof"
)

// offWithin is how long before the taint is set its machine was off at the latest: it is read so within 15 s, and
// the patch takes 5 s at most.
const offWithin = 15*time.Second + 5*time.Second + 2*time.Second

// personsTaint is the value of a taint out-of-service of people.
const personsTaint = "nodeshutdown"

// freedOf looks at what a write has changed of a node's taint out-of-service (I10).
func (o *oracles) freedOf(by string, old, updated *corev1.Node) {
	n := o.world.node(updated.Name)
	if n == nil || n.bmc == nil {
		return
	}
	had, has := v1alpha1.IsOutOfService(old), v1alpha1.IsOutOfService(updated)
	if !had && has {
		o.tainted[n.name] = time.Now()
	}
	if by != "controller" {
		return
	}
	before, _ := v1alpha1.OutOfServiceMarkOf(old)
	after, _ := v1alpha1.OutOfServiceMarkOf(updated)
	switch {
	case !had && has:
		o.world.count("the taint out-of-service is set")
		o.freedOnProof(n, updated, after)
	case had && !has:
		o.world.count("the taint out-of-service is taken away")
		o.backInService(n, old, before)
	case !before.Moved && after.Moved:
		o.world.count("pods and volumes have moved")
		if left := o.leftOn(n); left != "" {
			o.world.broken("I10: it is told that all has moved only if it has", "node %s: %s", n.name, left)
		}
	}
}

// freedOnProof: the taint is set only on a proof for the boot that the node says, while the machine is kept off, or on
// a person's word, and of a node that does not answer.
func (o *oracles) freedOnProof(n *node, node *corev1.Node, mark v1alpha1.OutOfServiceMark) {
	w := o.world
	if c := v1alpha1.FindNodeCondition(node, string(corev1.NodeReady)); c == nil || c.Status != corev1.ConditionUnknown {
		w.broken("I10: nothing is freed of a node that answers", "node %s", n.name)
	}
	if v1alpha1.Excluded(node) {
		w.broken("I10: nothing is freed of a node that is excluded", "node %s", n.name)
	}
	if maintenance, is := mark.Maintenance(); is {
		o.freedOnWord(n, node, mark, maintenance)
		return
	}
	a := find[*v1alpha1.NodeAction](o, mark.Action)
	if a == nil {
		if !o.learnsLater(o.deleted[mark.Action]) {
			w.broken("I10: pods and volumes are freed only on a proof", "node %s: action %s is gone", n.name, mark.Action)
		}
		return
	}
	proved, err := proof.OfAction(a)
	unproved := err != nil && !o.learnsLater(o.unproved[a.UID])
	if unproved || err == nil && !proved.Proves(n.name, mark.BootID) || mark.BootID != node.Status.NodeInfo.BootID || node.UID != a.Spec.NodeUID {
		w.broken("I10: pods and volumes are freed only on a proof", "node %s in %s, action %s: %v", n.name, node.Status.NodeInfo.BootID, a.Name, err)
	}
	switch b := n.bmc; {
	case b.lied[a.Name]: // nothing here can see that
	case n.up && n.bootID() == mark.BootID:
		w.broken("I10: nothing is freed of a boot that runs", "node %s, %s", n.name, mark.BootID)
	case b.on() && time.Since(b.onSince) > offWithin && time.Since(w.delayed) > lookTime: // nobody waits for what is late
		w.broken("I10: pods and volumes are freed only while the machine is kept off", "node %s is on for %s", n.name, time.Since(b.onSince))
	}
	for _, v := range w.volumes.all {
		if v.at == n && v.runs() && !n.bmc.lied[a.Name] {
			w.broken("I10: nothing is freed of a boot that runs", "node %s: pod %s writes in boot %d", n.name, v.name, v.writes)
		}
	}
}

// learnsLater reports whether who frees pods and volumes now may have asked before this happened: it is as for a machine
// that somebody has switched on meanwhile.
func (o *oracles) learnsLater(at time.Time) bool {
	return time.Since(at) <= offWithin || o.world.serving != nil && at.After(o.world.serving.sent)
}

// backInService: the taint is taken away only of a node that is Ready with a newer boot, when nothing of the boot
// before is left.
func (o *oracles) backInService(n *node, node *corev1.Node, mark v1alpha1.OutOfServiceMark) {
	if boot := node.Status.NodeInfo.BootID; boot == "" || boot == mark.BootID || n.bootID() == mark.BootID {
		o.world.broken("I10: the taint is taken away only after a newer boot", "node %s in %s, and the taint is for %s", n.name, boot, mark.BootID)
	}
	if maintenance, is := mark.Maintenance(); is {
		o.lastsForWord(n, maintenance)
	}
	if notReady(node) {
		o.world.broken("I10: the taint is taken away only of a node that is Ready", "node %s", n.name)
	}
	if left := o.leftOn(n); left != "" {
		o.world.broken("I10: the taint is taken away only if nothing of the boot before is left", "node %s: %s", n.name, left)
	}
}

// leftOn says what the taint of a node has not freed yet, "" if nothing. Nothing comes to a node that has it, but
// by hand.
func (o *oracles) leftOn(n *node) string {
	for _, a := range stored[*storagev1.VolumeAttachment](o) {
		if a.Spec.NodeName == n.name {
			return "volume " + a.Name + " is attached"
		}
	}
	for _, pod := range stored[*corev1.Pod](o) {
		if pod.Spec.NodeName == n.name && pod.CreationTimestamp.Time.Before(o.tainted[n.name].Truncate(time.Second)) {
			return "pod " + pod.Name + " is there"
		}
	}
	return ""
}

// detached looks at a volume that Kubernetes is about to detach: no pod writes to it any more, unless a person has
// set the taint, or the switch has lied.
func (o *oracles) detached(v *volume) {
	n := v.at
	o.world.count("a volume is detached")
	if v.runs() && !o.world.people.freed[n.name] && len(n.bmc.lied) == 0 {
		o.world.broken("I10: no volume is detached from a boot that writes to it", "volume %s, node %s, boot %d", v.name, n.name, v.writes)
	}
}

// outOfServiceLeft says which node has our taint yet, "" if none.
func (o *oracles) outOfServiceLeft() string {
	for _, node := range stored[*corev1.Node](o) {
		if mark := node.Annotations[v1alpha1.OutOfServiceAnnotation]; mark != "" {
			return "node " + node.Name + " is out of service: " + mark
		}
	}
	return ""
}
