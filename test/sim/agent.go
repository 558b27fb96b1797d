package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// wornOut is the condition of an agent that is not ours: a latch. The agent sets it once, repeats
// it, and says since when as it likes.
const wornOut = "PartWornOut"

// agent is somebody else's.
type agent struct {
	node   *node
	status corev1.ConditionStatus
	since  time.Time
}

// startAgent lets an agent report on a node from now on.
func (n *node) startAgent() {
	n.agent = &agent{node: n, status: corev1.ConditionFalse, since: time.Now()}
	n.world.after(10*time.Second, n.agent.beat)
}

// beat writes the condition, and again after a while.
func (a *agent) beat() {
	period := 30 * time.Second
	if a.status == corev1.ConditionFalse {
		period = 4 * time.Minute
	}
	a.node.world.after(period, a.beat)
	a.write()
}

// say changes what the agent reports; it claims that this is so for a while already.
func (a *agent) say(status corev1.ConditionStatus, already time.Duration) {
	if a.status == status {
		return
	}
	a.status, a.since = status, time.Now().Add(-already)
	a.node.world.say("agent "+a.node.name, "%s=%s, for %s", wornOut, status, already)
	a.write()
}

func (a *agent) write() {
	n, w := a.node, a.node.world
	var obj corev1.Node
	if !n.connected() || apierrors.IsNotFound(w.admin.Get(w.ctx, client.ObjectKey{Name: n.name}, &obj)) {
		return
	}
	c := v1alpha1.FindNodeCondition(&obj, wornOut)
	if c == nil {
		obj.Status.Conditions = append(obj.Status.Conditions, corev1.NodeCondition{Type: wornOut})
		c = &obj.Status.Conditions[len(obj.Status.Conditions)-1]
	}
	if c.Status != a.status {
		w.oracles.turned[n.name+"/"+wornOut] = time.Now()
	}
	c.Status, c.Reason = a.status, "Played"
	c.LastTransitionTime, c.LastHeartbeatTime = metav1.NewTime(a.since), metav1.Now()
	w.oracles.checked(n, seen{condition: wornOut, status: a.status, began: time.Now(), boot: n.boot})
	w.must(w.admin.Status().Update(w.ctx, &obj))
}

// latch lets an agent find something, of now or of long ago, and take it back later.
func (w *world) latch() bool {
	n := w.anyNode(func(n *node) bool { return n.agent != nil && n.connected() && n.agent.status == corev1.ConditionFalse })
	if n == nil {
		return false
	}
	n.agent.say(corev1.ConditionTrue, of(w.choices, 0, 57*time.Minute, 58*time.Minute, 59*time.Minute, 3*time.Hour))
	w.after(of(w.choices, 10*time.Minute, 90*time.Minute), func() { n.agent.say(corev1.ConditionFalse, 0) })
	return true
}
