package sim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

// word is that of a person that a machine is off.
type word struct {
	node *node
	uid  types.UID
	boot string
	// silent is since when the node had not answered.
	silent metav1.Time
	// mistaken: that boot ran when they said so.
	mistaken bool
	// over is since when it does not stand any more: it was taken back, or its maintenance was deleted. Zero: it stands.
	over time.Time
}

// What is counted of words.
const (
	wordFrees    = "pods and volumes are freed on a word"
	wordMistaken = "a word is mistaken"
	wordOlder    = "a word is for an older boot"
)

// giveWord lets a person take a node out, and say that its machine is off: mostly they have drawn its cords.
func (w *world) giveWord() bool {
	b := w.aBMC()
	if n := w.anyNode(func(n *node) bool { return n.bmc != nil }); n != nil && w.chance(500) {
		b = n.bmc
	}
	if b == nil || b.node.object() == nil {
		return false
	}
	n := b.node
	w.people.created++
	name := fmt.Sprintf("by-hand-%d", w.people.created)
	w.say("people", "take %s out: %s", n.name, name)
	w.must(w.admin.Create(w.ctx, &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: n.name, Reason: "fire"},
	}))
	if mistaken := w.chance(200); !mistaken {
		b.turnedOff("somebody", "")
	}
	older, back := w.chance(150), w.pick(4)
	w.after(of(w.choices, time.Minute, time.Second, 3*time.Minute), func() { w.speak(n, name, older, back, 3) })
	w.after(of(w.choices, 10*time.Minute, 2*time.Minute, 5*time.Minute), func() {
		w.remove(&v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: name}})
		w.after(10*time.Second, func() { b.turnedOn("somebody") })
	})
	return true
}

// speak lets a person say in a maintenance that the machine of its node is off, for the boot that the Node says, or an
// older one; and perhaps take that back, or have the machine boot, while the controller is about to believe it. While the
// node answers they mostly look again, so many times.
func (w *world) speak(n *node, maintenance string, older bool, back, again int) {
	m := apiserver.Peek[*v1alpha1.NodeMaintenance](w.server, client.ObjectKey{Name: maintenance})
	obj := n.object()
	if m == nil || m.DeletionTimestamp != nil || obj == nil || obj.Status.NodeInfo.BootID == "" || !w.chaos {
		return
	}
	ready := v1alpha1.FindNodeCondition(obj, string(corev1.NodeReady))
	if ready == nil {
		return
	}
	if ready.Status != corev1.ConditionUnknown && again > 0 {
		w.after(20*time.Second, func() { w.speak(n, maintenance, older, back, again-1) })
		return
	}
	said := &word{node: n, uid: obj.UID, boot: obj.Status.NodeInfo.BootID, silent: ready.LastTransitionTime}
	if older && n.boot > 1 {
		w.count(wordOlder)
		said.boot = fmt.Sprintf("%s-boot-%d", n.name, n.boot-1)
	}
	if said.mistaken = n.up && n.bootID() == said.boot; said.mistaken {
		w.count(wordMistaken)
		w.people.freed[n.name] = true
	}
	w.people.words[maintenance] = said
	m = m.DeepCopy()
	m.Spec.OutOfService, m.Spec.MachineOff = true, &v1alpha1.PersonsWord{
		Kind: v1alpha1.KindPersonsWord, NodeUID: said.uid, BootID: said.boot, SilentSince: said.silent, By: "jane", Time: metav1.Now(), Reason: "both cords are drawn",
	}
	w.say("people", "say that the machine of %s is off, for %s", n.name, said.boot)
	w.update(m)
	switch back {
	case 1:
		w.after(of(w.choices, 40*time.Second, 3*time.Second), func() { w.takeBack(n, maintenance) })
	case 2:
		w.slow["list VolumeAttachment"] = func(*call) time.Duration {
			w.after(time.Second, func() { w.takeBack(n, maintenance) })
			return of(w.choices, 25*time.Second, 12*time.Second)
		}
	case 3:
		w.slow["patch Node"] = func(*call) time.Duration {
			n.bmc.boots = 8 * time.Second
			w.after(time.Second, func() { n.bmc.turnedOn("somebody") })
			return of(w.choices, 15*time.Second, 4*time.Second)
		}
	}
}

// takeBack lets a person take back what they have said, and switch the machine on.
func (w *world) takeBack(n *node, maintenance string) {
	m := apiserver.Peek[*v1alpha1.NodeMaintenance](w.server, client.ObjectKey{Name: maintenance})
	if m == nil || m.Spec.MachineOff == nil {
		return
	}
	m = m.DeepCopy()
	m.Spec.OutOfService, m.Spec.MachineOff = false, nil
	w.say("people", "take back that the machine of %s is off", n.name)
	w.update(m)
	n.bmc.turnedOn("somebody")
}

// wordOver remembers since when a word does not stand any more. updated is nil if the maintenance is gone.
func (o *oracles) wordOver(old, updated *v1alpha1.NodeMaintenance) {
	said := o.world.people.words[old.Name]
	if said == nil || old.Spec.MachineOff == nil || !said.over.IsZero() {
		return
	}
	if updated == nil || updated.DeletionTimestamp != nil || updated.Spec.MachineOff == nil {
		said.over = time.Now()
	}
}

// wordReadWithin is how long before the patch is sent that it leads to a word was read at the latest.
const wordReadWithin = 15*time.Second + time.Second

// freedOnWord: on a person's word the taint is set only for the boot and the node that it names, while it stands, of a
// node that is taken out and does not answer, and that no action switches (I10).
func (o *oracles) freedOnWord(n *node, node *corev1.Node, mark v1alpha1.OutOfServiceMark, maintenance string) {
	w := o.world
	said, read := w.people.words[maintenance], w.serving.sent.Add(-wordReadWithin)
	switch {
	case said == nil || said.node != n || said.uid != node.UID || said.boot != mark.BootID || mark.BootID != node.Status.NodeInfo.BootID:
		w.broken("I10: a person's word frees only what it names", "node %s in %s, maintenance %s", n.name, node.Status.NodeInfo.BootID, maintenance)
		return
	case !v1alpha1.FindNodeCondition(node, string(corev1.NodeReady)).LastTransitionTime.Equal(&said.silent):
		w.broken("I10: a word frees nothing of a node that has answered since", "node %s, maintenance %s: silent since %s", n.name, maintenance, said.silent)
	case !said.over.IsZero() && said.over.Before(read):
		w.broken("I10: a word that was taken back frees nothing", "node %s, maintenance %s: %s later", n.name, maintenance, time.Since(said.over))
	case !node.Spec.Unschedulable:
		w.broken("I10: a word frees only what is taken out of service", "node %s, maintenance %s", n.name, maintenance)
	case !said.mistaken && n.up && n.bootID() == mark.BootID:
		w.broken("I10: nothing is freed of a boot that runs", "node %s, %s", n.name, mark.BootID)
	}
	for _, a := range stored[*v1alpha1.NodeAction](o) {
		if since, switches := o.switching[a.UID]; a.Spec.NodeName == n.name && a.Finished() == nil && switches && since.Before(read) {
			w.broken("I10: a word frees nothing while an action switches the machine", "node %s, maintenance %s, action %s", n.name, maintenance, a.Name)
		}
	}
	w.count(wordFrees)
}

// lastsForWord: the taint stays as long as a word stands for which it was set (I10).
func (o *oracles) lastsForWord(n *node, maintenance string) {
	if said := o.world.people.words[maintenance]; said != nil && said.over.IsZero() {
		o.world.broken("I10: the taint stays until the maintenance ends that has the word", "node %s, maintenance %s", n.name, maintenance)
	}
}
