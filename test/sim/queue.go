package sim

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/controller/worker"
)

// queue is a loop's queue of requests. Nothing in it happens by itself: whoever asks for
// what is ready gets it.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request] // nil: what is not here is not used

	limiter workqueue.TypedRateLimiter[reconcile.Request]
	// ready has what is to be looked at, oldest first; later what is due later.
	ready []waiting
	later []due
	// turn numbers all that waits in the world.
	turn func() uint64
	// busy are those that are looked at; true: once more.
	busy map[string]bool
}

// waiting is a request that is ready since its turn was given.
type waiting struct {
	name string
	turn uint64
}

// due is a request that is ready at a time.
type due struct {
	at   time.Time
	name string
}

func newQueue(turn func() uint64) *queue {
	return &queue{limiter: worker.NewRateLimiter(), busy: map[string]bool{}, turn: turn}
}

// Add implements workqueue.TypedInterface.
func (q *queue) Add(r reconcile.Request) { q.add(r.Name) }

func (q *queue) add(name string) {
	if _, busy := q.busy[name]; busy {
		q.busy[name] = true
		return
	}
	if !slices.ContainsFunc(q.ready, func(w waiting) bool { return w.name == name }) {
		q.ready = append(q.ready, waiting{name, q.turn()})
	}
}

// sortFrom lets those that were added since there were so many take turns in the order of
// their names.
func (q *queue) sortFrom(before int) {
	added := q.ready[before:]
	turns := make([]uint64, len(added))
	for i, w := range added {
		turns[i] = w.turn
	}
	slices.SortFunc(added, func(a, b waiting) int { return cmp.Compare(a.name, b.name) })
	for i := range added {
		added[i].turn = turns[i]
	}
}

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *queue) AddAfter(r reconcile.Request, after time.Duration) {
	if after <= 0 {
		q.Add(r)
		return
	}
	at := time.Now().Add(after)
	if i := slices.IndexFunc(q.later, func(d due) bool { return d.name == r.Name }); i >= 0 {
		if !at.Before(q.later[i].at) {
			return // as in client-go, the earlier one counts
		}
		q.later = slices.Delete(q.later, i, i+1)
	}
	d := due{at, r.Name}
	i, _ := slices.BinarySearchFunc(q.later, d, func(a, b due) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name))
	})
	q.later = slices.Insert(q.later, i, d)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *queue) AddRateLimited(r reconcile.Request) { q.AddAfter(r, q.limiter.When(r)) }

// Forget implements workqueue.TypedRateLimitingInterface.
func (q *queue) Forget(r reconcile.Request) { q.limiter.Forget(r) }

// tick makes ready what is due by now.
func (q *queue) tick(now time.Time) {
	for len(q.later) > 0 && !q.later[0].at.After(now) {
		name := q.later[0].name
		q.later = q.later[1:]
		q.add(name)
	}
}

// next returns when something is due; false: nothing is.
func (q *queue) next() (time.Time, bool) {
	if len(q.later) == 0 {
		return time.Time{}, false
	}
	return q.later[0].at, true
}

// take takes the i-th request that is ready.
func (q *queue) take(i int) string {
	name := q.ready[i].name
	q.ready = slices.Delete(q.ready, i, i+1)
	q.busy[name] = false
	return name
}

// done ends a look.
func (q *queue) done(name string) {
	again := q.busy[name]
	delete(q.busy, name)
	if again {
		q.add(name)
	}
}
