package drain

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const (
	// A refused eviction is tried again after firstRetry, doubled with each refusal
	// up to lastRetry.
	firstRetry, lastRetry = time.Second, 30 * time.Second
	// The next pass is worth it after firstPoll, doubled while nothing changes up to
	// lastPoll.
	firstPoll, lastPoll = time.Second, 5 * time.Second
)

// node is what is remembered of a node from one pass to the next.
type node struct {
	mu       sync.Mutex
	refusals map[types.UID]refusal
	// counts are those of the last pass, poll is when the next one was worth it.
	counts counts
	poll   time.Duration
}

// refusal is the last answer to an eviction that is to be tried again.
type refusal struct {
	reason  v1alpha1.PodReason
	message string
	delay   time.Duration
	until   time.Time
}

// recall forgets pods that are not among the node's any more, writes into the plan
// why pods were refused before, and returns those that are due for an eviction.
func (n *node) recall(pods []corev1.Pod, plan *Plan, now time.Time) []*Verdict {
	n.mu.Lock()
	defer n.mu.Unlock()
	kept := map[types.UID]refusal{}
	for i := range pods {
		if r, ok := n.refusals[pods[i].UID]; ok {
			kept[pods[i].UID] = r
		}
	}
	n.refusals = kept
	var due []*Verdict
	for i := range plan.Pods {
		v := &plan.Pods[i]
		if v.Reason != v1alpha1.PodEvictable {
			continue
		}
		r, ok := n.refusals[v.Pod.UID]
		if ok {
			v.Reason, v.Message = r.reason, r.message
		}
		if !r.until.After(now) {
			due = append(due, v)
		}
	}
	return due
}

// refuse notes that the eviction of a pod is to be tried again: not before the
// time that the server asked for.
func (n *node) refuse(v *Verdict, asked time.Duration, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delay := min(max(firstRetry, 2*n.refusals[v.Pod.UID].delay), lastRetry)
	n.refusals[v.Pod.UID] = refusal{reason: v.Reason, message: v.Message, delay: delay, until: now.Add(max(delay, asked))}
}

// next says when another pass is worth it.
func (n *node) next(plan *Plan, c counts, told int, mayEvict bool, now time.Time) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if told > 0 || c != n.counts {
		n.poll = firstPoll
	} else {
		n.poll = min(2*n.poll, lastPoll)
	}
	n.counts = c
	next := n.poll
	for i := range plan.Pods {
		v := &plan.Pods[i]
		r, refused := n.refusals[v.Pod.UID]
		if wait := r.until.Sub(now); mayEvict && refused && r.reason == v.Reason && wait > 0 {
			next = min(next, wait)
		}
	}
	return next
}
