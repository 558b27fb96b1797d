package sim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// linkLost is the condition of an agent that is not ours and that says little by its times: it
// alternates two reasons, and counts a transition for each, and takes a fault back for seconds.
// Policies match it with debounce.
const linkLost = "LinkLost"

// linkPeriod is how often that agent reports, linkDebounce what policies ask for.
const (
	linkPeriod   = 20 * time.Second
	linkDebounce = time.Minute
)

// flicker is that agent, on one node.
type flicker struct {
	node *node
	// lost: the link is, or so the agent says most of the time.
	lost bool
	// away is for how many reports more it says the contrary.
	away   int
	status corev1.ConditionStatus
	since  time.Time
	// reason is counted up: an odd one and an even one take turns.
	reason int
}

// startFlicker lets the agent report on a node from now on.
func (n *node) startFlicker() {
	n.flicker = &flicker{node: n, status: corev1.ConditionFalse, since: time.Now()}
	n.world.after(linkPeriod, n.flicker.beat)
}

// beat reports, and decides what.
func (f *flicker) beat() {
	w := f.node.world
	w.after(linkPeriod, f.beat)
	status := corev1.ConditionFalse
	if f.lost {
		status = corev1.ConditionTrue
	}
	switch {
	case f.away > 0:
		f.away--
		status = contrary(status)
	case !w.chaos:
		f.reason++ // for ever
	case f.lost:
		switch w.weighted([]int{6, 8, 8, 1}) {
		case 1:
			f.reason++
		case 2: // for a moment
			f.away, status = w.pick(2), contrary(status)
		case 3: // for longer than debounce
			f.away, status = 4, contrary(status)
		}
	default:
		switch w.weighted([]int{12, 6, 1}) {
		case 1:
			f.reason++
		case 2:
			status = contrary(status)
		}
	}
	f.report(status)
}

func contrary(status corev1.ConditionStatus) corev1.ConditionStatus {
	if status == corev1.ConditionTrue {
		return corev1.ConditionFalse
	}
	return corev1.ConditionTrue
}

func (f *flicker) report(status corev1.ConditionStatus) {
	n, w := f.node, f.node.world
	var obj corev1.Node
	if !n.connected() || apierrors.IsNotFound(w.admin.Get(w.ctx, client.ObjectKey{Name: n.name}, &obj)) {
		return
	}
	c := v1alpha1.FindNodeCondition(&obj, linkLost)
	if c == nil {
		obj.Status.Conditions = append(obj.Status.Conditions, corev1.NodeCondition{Type: linkLost})
		c = &obj.Status.Conditions[len(obj.Status.Conditions)-1]
	}
	reason := fmt.Sprintf("Reason%d", f.reason%2)
	if c.Status != status || c.Reason != reason {
		f.since = time.Now()
		w.oracles.turned[n.name+"/"+linkLost] = f.since
	}
	if c.Status != status {
		w.say("agent "+n.name, "%s=%s (%s)", linkLost, status, reason)
	}
	f.status, c.Status, c.Reason = status, status, reason
	c.LastTransitionTime, c.LastHeartbeatTime = metav1.NewTime(f.since), metav1.Now()
	w.oracles.checked(n, seen{condition: linkLost, status: status, began: time.Now(), boot: n.boot})
	w.oracles.linkReported(obj.UID, status)
	w.must(w.admin.Status().Update(w.ctx, &obj))
}

// loseLink lets the link of a node be lost for a while.
func (w *world) loseLink() bool {
	n := w.anyNode(func(n *node) bool { return n.flicker != nil && !n.flicker.lost })
	if n == nil {
		return false
	}
	w.say("host "+n.name, "its link is lost, but for moments")
	n.flicker.lost = true
	w.after(of(w.choices, 5*time.Minute, 15*time.Minute, 40*time.Minute), func() { n.flicker.lost = false })
	return true
}

// link is what an agent has reported of the link of a node.
type link struct {
	// turns are when the status became another one, and which.
	turns []turn
	// wrote is when it last reported, gap when it last had not for about as long as debounce.
	wrote, gap time.Time
}

type turn struct {
	at     time.Time
	status corev1.ConditionStatus
}

func (o *oracles) linkReported(node types.UID, status corev1.ConditionStatus) {
	l, now := o.links[node], time.Now()
	if l == nil {
		l = &link{gap: now}
		o.links[node] = l
	} else if now.Sub(l.wrote) > linkDebounce-2*time.Second {
		l.gap = now
	}
	l.wrote = now
	if last := len(l.turns) - 1; last < 0 || l.turns[last].status != status {
		l.turns = append(l.turns, turn{now, status})
	}
}

// held returns since when the status is this one, but for contrary pieces that are shorter, and
// when the last that was not began, zero: there was none; false: it is not.
func (l *link) held(status corev1.ConditionStatus, shorter time.Duration) (since, before time.Time, is bool) {
	end := time.Now()
	for i := len(l.turns) - 1; i >= 0; i-- {
		at := l.turns[i].at
		switch {
		case l.turns[i].status == status:
			since, is = at, true
		case end.Sub(at) >= shorter:
			return since, at, is
		}
		end = at
	}
	return since, time.Time{}, is
}
