package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

const driverNamespace = "nhc"

// driver is a NodeHealthCheck, in a program of its own, which asks for remediations of one node as its contract
// says: when the node is sick by what it looks at, and until it is well. It reads nothing but what
// that contract has.
type driver struct {
	world *world
	node  string
	// policy that it asks for.
	policy string
	// sickFor is for how long a node has to be sick; patience when it tells to stop, 0: never.
	sickFor, patience time.Duration
	// name of the NodeHealthCheck; leases: it holds the Lease of medik8s as long as it asks.
	name   string
	leases bool
	// dead is until when it does nothing.
	dead time.Time
	// asks changes what it asks for; nil: nothing does.
	asks func(*v1alpha1.NodemendRemediation)

	sickSince time.Time
	// asked are the requests so far, gaveUp whether the last one was told to have failed.
	asked         int
	gaveUp        bool
	told, deleted bool
}

// looks lets the driver look at its node, as long as the run lasts.
func (d *driver) looks() {
	d.world.after(5*time.Second, d.looks)
	if d.dead.After(time.Now()) {
		return
	}
	d.look()
}

func (d *driver) look() {
	w, asked := d.world, d.request()
	switch sick := d.sick(); {
	case asked == nil && !sick:
		d.sickSince = time.Time{}
	case asked == nil && d.sickSince.IsZero():
		d.sickSince = time.Now()
	case asked == nil && time.Since(d.sickSince) >= d.sickFor:
		d.ask()
	case asked == nil, asked.DeletionTimestamp != nil:
	case !sick:
		d.deleted = true
		w.must(client.IgnoreNotFound(w.admin.Delete(w.ctx, asked)))
	case d.patience > 0 && time.Since(asked.CreationTimestamp.Time) >= d.patience && asked.Annotations[timedOut] == "":
		d.told = true
		asked = asked.DeepCopy()
		asked.Annotations[timedOut] = time.Now().UTC().Format(time.RFC3339)
		w.must(w.admin.Update(w.ctx, asked))
	}
	if asked != nil {
		d.gaveUp = d.gaveUp || meta.IsStatusConditionFalse(asked.Status.Conditions, v1alpha1.RequestSucceeded)
	}
	if d.leases {
		d.lease(d.request() != nil)
	}
}

// request is that of the node, nil if there is none.
func (d *driver) request() *v1alpha1.NodemendRemediation {
	return apiserver.Peek[*v1alpha1.NodemendRemediation](d.world.server, client.ObjectKey{Namespace: driverNamespace, Name: d.node})
}

// sick is by conditions alone, as a NodeHealthCheck sees them. It lets go of a Node that is gone, unless
// it was told before that it goes, and not yet that this was a success.
func (d *driver) sick() bool {
	node := apiserver.Peek[*corev1.Node](d.world.server, client.ObjectKey{Name: d.node})
	if node == nil {
		asked := d.request()
		return asked != nil && meta.IsStatusConditionTrue(asked.Status.Conditions, v1alpha1.RequestNodeGoes) &&
			!meta.IsStatusConditionTrue(asked.Status.Conditions, v1alpha1.RequestSucceeded)
	}
	for _, c := range node.Status.Conditions {
		switch {
		case c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue,
			slices.Contains(conditions(), string(c.Type)) && c.Status == corev1.ConditionTrue:
			return true
		}
	}
	return false
}

func (d *driver) ask() {
	d.asked++
	d.gaveUp, d.sickSince = false, time.Time{}
	d.world.count("another program asks")
	asked := &v1alpha1.NodemendRemediation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: driverNamespace, Name: d.node, Labels: map[string]string{"app.kubernetes.io/part-of": "node-healthcheck-controller"},
			Annotations:     map[string]string{"remediation.medik8s.io/node-name": d.node, "remediation.medik8s.io/template-name": "template"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "remediation.medik8s.io/v1alpha1", Kind: "NodeHealthCheck", Name: d.name, UID: types.UID(d.name)}},
		},
		Spec: v1alpha1.NodemendRemediationSpec{Policy: d.policy},
	}
	if d.asks != nil {
		d.asks(asked)
	}
	d.world.must(d.world.admin.Create(d.world.ctx, asked))
}

// lease has the Lease held, or not.
func (d *driver) lease(wanted bool) {
	lease := healerLease(d.node)
	switch holder := leaseHolder(d.world, d.node); {
	case wanted && holder == "":
		d.world.must(d.world.admin.Create(d.world.ctx, lease))
	case !wanted && holder == *lease.Spec.HolderIdentity:
		d.world.remove(lease)
	}
}

// installDrivers has a policy that is asked for, and who asks for it. Other healers hold Leases in another
// name than theirs.
func (w *world) installDrivers() {
	w.count("another program may ask")
	p := w.newPolicy("asked")
	p.Spec.Match, p.Spec.NodeSelector = nil, nil
	w.must(w.admin.Create(w.ctx, p))
	for _, n := range w.nodes {
		d := &driver{world: w, node: n.name, policy: p.Name, name: "drivers"}
		d.sickFor = of(w.choices, 30*time.Second, 3*time.Minute)
		d.patience = of(w.choices, 0, 5*time.Minute, 30*time.Minute)
		w.drivers = append(w.drivers, d)
		w.after(time.Second, d.looks)
	}
}

// makeTwice lets a controller that is about to make a remediation for a driver read for long, and another one lead and make it.
func (w *world) makeTwice() bool {
	if len(w.drivers) == 0 || w.profile.steady {
		return false
	}
	takes := of(w.choices, 5*time.Second, 9*time.Second)
	w.slow["get RemedyPolicy"] = func(*call) time.Duration {
		if !slices.ContainsFunc(stored[*v1alpha1.NodemendRemediation](w.oracles), func(asked *v1alpha1.NodemendRemediation) bool {
			return asked.Status.Remediation != "" && len(asked.Status.Conditions) == 0
		}) {
			return 0
		}
		w.count("two controllers make the remediation of one request")
		w.after(100*time.Millisecond, func() { w.secondLeader() })
		return takes
	}
	return true
}

// driverDies lets a driver do nothing for a while.
func (w *world) driverDies() bool {
	if len(w.drivers) == 0 {
		return false
	}
	w.drivers[w.pick(len(w.drivers))].dead = time.Now().Add(w.while())
	return true
}

// deleteRequest lets a person delete what a driver has asked for.
func (w *world) deleteRequest() bool {
	n := w.anyNode(func(n *node) bool {
		return slices.ContainsFunc(w.drivers, func(d *driver) bool { return d.node == n.name && d.request() != nil })
	})
	if n == nil {
		return false
	}
	asked := &v1alpha1.NodemendRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: n.name}}
	w.must(client.IgnoreNotFound(w.admin.Delete(w.ctx, asked)))
	return true
}
