package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

// handedOver remembers when an action was in the hands of another program: as long as there was the
// object that it owns.
func (o *oracles) handedOver(c apiserver.Change) {
	object, is := c.New.(*unstructured.Unstructured)
	gone := time.Time{}
	if c.New == nil {
		object, is = c.Old.(*unstructured.Unstructured)
		gone = time.Now()
	}
	if !is {
		return
	}
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == "NodeAction" {
			o.handed[owner.Name] = gone
		}
	}
}

// handedRightly looks at an object of another program that is there: it is the only one of its action,
// which lasts for as long (I1, I2), under the permits of the node's budgets.
func (o *oracles) handedRightly(object *unstructured.Unstructured, node string, seen map[types.UID]types.UID) {
	owner := object.GetOwnerReferences()[0]
	if action, known := seen[object.GetUID()]; !known {
		for _, other := range sortedKeys(seen) {
			if seen[other] == owner.UID {
				o.world.broken("I2: another program's object is created at most once for an action", "of action %s", owner.Name)
			}
		}
		seen[object.GetUID()] = owner.UID
	} else if action != owner.UID {
		o.world.broken("the simulation", "object of %s", owner.Name)
	}
	a := find[*v1alpha1.NodeAction](o, owner.Name)
	if a == nil || a.UID != owner.UID {
		return
	}
	if f := a.Finished(); f != nil {
		if n := find[*corev1.Node](o, node); n == nil || n.UID != a.Spec.NodeUID {
			return // it may never let go, and says that it does nothing
		}
		if f.Reason != v1alpha1.ReasonInterrupted { // whose object may have come late, and is about to go
			o.world.broken("I1: an action lasts until another program's object is gone", "%s is finished as %s", a.Name, f.Reason)
		}
		return
	}
	o.handedUnderPermit(a, node)
}

// handedUnderPermit is underPermit for as long as another program has the node.
func (o *oracles) handedUnderPermit(a *v1alpha1.NodeAction, name string) {
	n := find[*corev1.Node](o, name)
	if n == nil || n.UID != a.Spec.NodeUID || a.CreationTimestamp.Sub(o.world.people.limited) < staleFor || o.world.people.blinded[a.Name] || o.succeeded(a) ||
		find[*v1alpha1.Remediation](o, a.Spec.Remediation) == nil {
		return
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		if selects(b, n) && !holds(b, name, a.Spec.Remediation) {
			o.world.broken("I1: a permit is kept while another program has the node", "%s on node %s, without the permit of budget %s", a.Name, name, b.Name)
		}
	}
}

// soon is after how long a remediator may begin with an object so that what it does then is seen before
// the node counts as clear.
const soon = 10 * time.Second

// A machine that another program has just switched off is not left so because its node was clear for a
// moment: its object is deleted then only once the node has stayed so.
func (o *oracles) notLeftOff(object *unstructured.Unstructured, n *node, p *plan) {
	a := find[*v1alpha1.NodeAction](o, object.GetOwnerReferences()[0].Name)
	if !p.switches || p.done || n.up || n.booted.After(p.began) || p.began.Sub(object.GetCreationTimestamp().Time) > soon ||
		a == nil || a.Status.External == nil || a.Status.External.Stop == nil || !a.Status.External.Stop.Clear {
		return
	}
	o.world.broken("Another program is not stopped between off and on because a node is clear for a moment", "node %s, action %s", n.name, a.Name)
}

// Who deletes a Node to bring it back, while its machine is off, is not stopped by that.
func (o *oracles) notStoppedInTheMiddle(object *unstructured.Unstructured, n *node, p *plan) {
	a := find[*v1alpha1.NodeAction](o, object.GetOwnerReferences()[0].Name)
	at := object.GetDeletionTimestamp()
	if at == nil || p.deleted || p.gone.IsZero() || n.object() != nil || a == nil || a.DeletionTimestamp != nil || a.Status.External == nil || a.Status.External.Stop == nil {
		return
	}
	stop := a.Status.External.Stop
	if stop.Time.After(p.gone) && !stop.Clear && at.Before(&metav1.Time{Time: a.Status.Claim.Time.Add(a.Spec.Timeout.Duration - clockSlack)}) {
		o.world.broken("Another program is not stopped because the Node is gone that it has deleted", "node %s, action %s", n.name, a.Name)
	}
}
