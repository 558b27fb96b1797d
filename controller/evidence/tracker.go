package evidence

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Seen is what a Tracker has seen of a condition for an entry of match with debounce. All times
// are of the clock of who observes.
type Seen struct {
	// Held is since when the entry's status counts as held: since then the condition had no
	// other one for debounce in one piece. Zero: it does not, or nothing is known.
	Held time.Time
	// Status that was seen last, "" if the node had no such condition; Since is since when it
	// was that, in one piece.
	Status corev1.ConditionStatus
	Since  time.Time
}

// Tracker remembers, for entries of match with debounce, since when conditions have been what
// they are. It goes by its own clock and by the order of what it was shown: what a condition says
// about its times only makes it count anew. It knows nothing of the time before it was first
// asked, so a controller that starts counts from then.
//
// It has a memory of the conditions that match, and of those that a decision has lately asked
// for. Everything costs what is remembered of one node. It may be used by several goroutines; a
// nil one knows nothing.
type Tracker struct {
	mu    sync.Mutex
	nodes map[types.UID]*tracked
}

// tracked is what is remembered of a node.
type tracked struct {
	// version is the latest of the node that was observed.
	version string
	counts  map[counted]*count
}

// counted is what is counted for: entries that are alike share it.
type counted struct {
	condition string
	status    corev1.ConditionStatus
	debounce  time.Duration
}

// count is what is remembered of a condition.
type count struct {
	// status since when, in one piece; held as in Seen, but for what has ended since.
	status      corev1.ConditionStatus
	since, held time.Time
	// away is since when the status is not the one that is counted for, by the clock of who
	// observes and by that of the node; zero: it is.
	away, awayHeartbeat time.Time
	// at is when the last report was observed, which had these times.
	at, heartbeat, transition time.Time
	// asked is when somebody last asked.
	asked time.Time
}

// askedFor is for how long a condition is remembered that is healthy, after somebody has asked:
// longer than an open remediation takes to ask again.
const askedFor = time.Hour

// Observe learns what a node reports. Each version of a node is to be shown, in their order; one
// that is not newer than the last changes nothing.
func (t *Tracker) Observe(node *corev1.Node, now time.Time) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[node.UID]
	if n == nil || !n.observe(node, now) {
		return
	}
	for of, c := range n.counts {
		if c.ended(of, now) && now.Sub(c.asked) > askedFor {
			delete(n.counts, of)
		}
	}
	if len(n.counts) == 0 {
		delete(t.nodes, node.UID)
	}
}

// Seen tells what was seen for an entry with debounce, and begins to count if nothing is
// remembered.
func (t *Tracker) Seen(node *corev1.Node, m *v1alpha1.ConditionMatch, now time.Time) Seen {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[node.UID]
	if n == nil {
		if t.nodes == nil {
			t.nodes = map[types.UID]*tracked{}
		}
		n = &tracked{version: node.ResourceVersion, counts: map[counted]*count{}}
		t.nodes[node.UID] = n
	}
	n.observe(node, now)
	of := counted{m.Type, m.Status, m.Debounce.Duration}
	c := n.counts[of]
	if c == nil {
		if older(node.ResourceVersion, n.version) {
			return Seen{}
		}
		c = begin(of, v1alpha1.FindNodeCondition(node, m.Type), now)
		n.counts[of] = c
	}
	c.asked = now
	seen := Seen{Held: c.held, Status: c.status, Since: c.since}
	if c.ended(of, now) {
		seen.Held = time.Time{}
	}
	return seen
}

// Forget drops what is remembered of a node that is gone.
func (t *Tracker) Forget(node *corev1.Node) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.nodes, node.UID)
}

// observe shows the node to all that is counted, and reports whether it is a newer one.
func (n *tracked) observe(node *corev1.Node, now time.Time) bool {
	if node.ResourceVersion == n.version || older(node.ResourceVersion, n.version) {
		return false
	}
	n.version = node.ResourceVersion
	for of, c := range n.counts {
		c.report(of, v1alpha1.FindNodeCondition(node, of.condition), now)
	}
	return true
}

// older reports whether a version of a node was before another one.
func older(version, than string) bool {
	c, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && c < 0
}

// begin counts from the first report.
func begin(of counted, c *corev1.NodeCondition, now time.Time) *count {
	n := &count{}
	n.read(c)
	n.since, n.at = now, now
	if n.status == of.status {
		n.held = now
	} else {
		n.away, n.awayHeartbeat = now, n.heartbeat
	}
	return n
}

// read takes over what a report says. A node that lacks the condition tells no times.
func (n *count) read(c *corev1.NodeCondition) {
	n.status = ""
	if c != nil {
		n.status, n.heartbeat, n.transition = c.Status, c.LastHeartbeatTime.Time, c.LastTransitionTime.Time
	}
}

// report counts the next report.
func (n *count) report(of counted, c *corev1.NodeCondition, now time.Time) {
	before := *n
	n.read(c)
	if n.status == before.status && n.heartbeat.Equal(before.heartbeat) && n.transition.Equal(before.transition) {
		return // the node tells something else
	}
	n.at = now
	if n.unknownBetween(&before, of) {
		asked := n.asked
		*n = *begin(of, c, now)
		n.asked = asked
		return
	}
	if n.status != before.status {
		n.since = now
	}
	switch counts := n.status == of.status; {
	case counts && !n.away.IsZero():
		if n.held.IsZero() || max(now.Sub(n.away), n.heartbeat.Sub(n.awayHeartbeat)) >= of.debounce {
			n.held = now
		}
		n.away, n.awayHeartbeat = time.Time{}, time.Time{}
	case !counts && n.away.IsZero():
		n.away, n.awayHeartbeat = now, n.heartbeat
	}
}

// unknownBetween reports whether nobody can know what was between two reports: another status
// for debounce may have been missed, while the watch of nodes was interrupted, or it came late.
// Whoever says that nothing has turned meanwhile is believed, if he was not silent for long. The
// times of two reports of one node are of one clock, so they can be compared; if that was set
// back they can't.
func (n *count) unknownBetween(before *count, of counted) bool {
	apart := max(n.at.Sub(before.at), n.heartbeat.Sub(before.heartbeat))
	turned := !n.transition.Equal(before.transition)
	return apart > MaxHealthyAge || turned && (apart > of.debounce || n.heartbeat.Before(before.heartbeat))
}

// ended reports whether the status does not count as held: it was another one for debounce.
func (n *count) ended(of counted, now time.Time) bool {
	return n.held.IsZero() || !n.away.IsZero() && now.Sub(n.away) >= of.debounce
}
