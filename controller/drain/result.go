package drain

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// maxPods is how many pods a status lists.
const maxPods = 32

// Result is what a pass has found and done.
type Result struct {
	// Pods are those left, at most 32: what keeps the drain from ending first,
	// then by namespace and name.
	Pods []v1alpha1.RemainingPod
	// Left is how many pods are waited for: all that are to go or veto, but the stuck.
	Left int32
	// Stuck is how many were told to end and do not. Nothing waits for them.
	Stuck int32
	// Vetoes is how many veto. They are in Left, too.
	Vetoes int32
	// Done: nothing is waited for. Never in a pass that evicted something, so that
	// it was seen gone.
	Done bool
	// Next is when another pass is worth it; 0 when Done.
	Next time.Duration
}

// counts are what a change of the node is told by.
type counts struct{ left, stuck, vetoes int32 }

func (n *node) result(plan *Plan, told int, mayEvict bool, now time.Time) Result {
	var r Result
	for i := range plan.Pods {
		v := &plan.Pods[i]
		switch v.Reason {
		case gone:
			continue
		case v1alpha1.PodStuckTerminating:
			r.Stuck++
		default:
			r.Left++
		}
		r.Pods = append(r.Pods, v1alpha1.RemainingPod{
			Namespace: v.Pod.Namespace, Name: v.Pod.Name, Reason: v.Reason, Message: clip(v.Message),
		})
	}
	slices.SortFunc(r.Pods, func(a, b v1alpha1.RemainingPod) int {
		return cmp.Or(cmp.Compare(rank(a.Reason), rank(b.Reason)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	r.Pods = r.Pods[:min(len(r.Pods), maxPods)]
	r.Vetoes = plan.Vetoes
	r.Done = told == 0 && r.Left == 0
	next := n.next(plan, counts{r.Left, r.Stuck, r.Vetoes}, told, mayEvict, now)
	if !r.Done {
		r.Next = next
	}
	return r
}

// rank sorts reasons: what a person has to do something about comes first.
func rank(reason v1alpha1.PodReason) int {
	return slices.Index([]v1alpha1.PodReason{
		v1alpha1.PodVeto,
		v1alpha1.PodEvictionFailed,
		v1alpha1.PodLocalStorage,
		v1alpha1.PodUnmanaged,
		v1alpha1.PodDisruptionBudget,
		v1alpha1.PodStuckTerminating,
		v1alpha1.PodVetoed,
		v1alpha1.PodTerminating,
		v1alpha1.PodEvictable,
	}, reason)
}
