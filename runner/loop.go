package runner

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const (
	// A request that failed is repeated after firstRetry, then after twice as
	// long each time, up to lastRetry.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second

	// conflictRetry is the pause after somebody else wrote the action first.
	conflictRetry = 20 * time.Millisecond

	// busyRetry is the pause after something else was under way on the node.
	busyRetry = time.Second

	// A runner that stops tries for farewell to report what is not reported yet,
	// every farewellRetry.
	farewell      = 5 * time.Second
	farewellRetry = 200 * time.Millisecond
)

// errBusy says that something else is under way on the node.
var errBusy = errors.New("something else is under way on the node")

// queue holds the names of actions to look at.
type queue = workqueue.TypedRateLimitingInterface[string]

func newQueue() queue {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry))
}

// watch returns an informer that queues the actions that are listed or change, as
// long as they have not ended; of those that have, ended is told, if it is not nil. It keeps little more
// of them than their names.
func watch(actions cache.ListerWatcher, q queue, ended func(*v1alpha1.NodeAction)) cache.Controller {
	see := func(obj any) {
		switch action, ok := obj.(*v1alpha1.NodeAction); {
		case !ok:
		case action.Finished() == nil:
			q.Add(action.Name)
		case ended != nil:
			ended(action)
		}
	}
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: actions,
		ObjectType:    &v1alpha1.NodeAction{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    see,
			UpdateFunc: func(_, obj any) { see(obj) },
		},
		Transform: onlyWhatIsQueued,
	})
	return controller
}

// onlyWhatIsQueued keeps what watch needs of an action.
func onlyWhatIsQueued(obj any) (any, error) {
	if action, ok := obj.(*v1alpha1.NodeAction); ok {
		slim := &v1alpha1.NodeAction{}
		slim.Name, slim.UID, slim.ResourceVersion = action.Name, action.UID, action.ResourceVersion
		if c := action.Finished(); c != nil {
			slim.Status.Conditions = append(slim.Status.Conditions, *c)
			if claim := action.Status.Claim; claim != nil {
				slim.Status.Claim = &v1alpha1.Claim{Remedy: claim.Remedy, BootID: claim.BootID}
			}
			if action.Status.Aftermath != nil {
				slim.Status.Aftermath = &v1alpha1.Aftermath{}
			}
		}
		return slim, nil
	}
	return obj, nil
}

// run works on one action at a time until ctx ends.
func (w *Worker) run(ctx context.Context, q queue) {
	stop := context.AfterFunc(ctx, q.ShutDown)
	defer stop()
	for _, name := range w.Adopt(ctx) {
		q.Add(name)
	}
	each(ctx, q, w.Work)
	w.sayFarewell(ctx)
}

// each works on one name after the other until the queue is shut down.
func each(ctx context.Context, q queue, work func(context.Context, string) error) {
	for {
		name, stopped := q.Get()
		if stopped {
			return
		}
		next(ctx, q, name, work)
	}
}

// eachAgain is each, for work that says after how long it is to be looked at again; 0: only when it is queued.
func eachAgain(ctx context.Context, q queue, work func(context.Context, string) (time.Duration, error)) {
	each(ctx, q, func(ctx context.Context, name string) error {
		again, err := work(ctx, name)
		if err == nil && again > 0 {
			q.AddAfter(name, again)
		}
		return err
	})
}

// next works on the action that q.Get has returned.
func next(ctx context.Context, q queue, name string, work func(context.Context, string) error) {
	defer q.Done(name)
	if ctx.Err() != nil {
		return
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("action", name)
	err := work(logr.NewContext(ctx, log), name)
	after, known := Again(err)
	switch {
	case err == nil:
		q.Forget(name)
	case known:
		q.Forget(name)
		q.AddAfter(name, after)
	case ctx.Err() == nil:
		log.Error(err, "Trying again", "tries", q.NumRequeues(name)+1)
		q.AddRateLimited(name)
	}
}

// Again says after how long an action is to be looked at again of which Work has returned the error;
// false if that is no matter of time.
func Again(err error) (after time.Duration, known bool) {
	var again lookAgain
	switch {
	case errors.As(err, &again):
		return time.Duration(again), true
	case errors.Is(err, errBusy):
		return busyRetry, true
	case retriable(err):
		return conflictRetry, true
	default:
		return 0, false
	}
}

// sayFarewell reports what is not yet reported, for a while. If it does not get
// through, the next runner on the node finds it in the ledger.
func (w *Worker) sayFarewell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	for _, e := range w.Ledger.Pending() {
		if e.Outcome == nil {
			continue
		}
		log := logr.FromContextOrDiscard(ctx).WithValues("action", e.Order.Action)
		var lastErr error
		err := wait.PollUntilContextCancel(ctx, farewellRetry, true, func(context.Context) (bool, error) {
			lastErr = w.Work(logr.NewContext(ctx, log), e.Order.Action)
			return lastErr == nil, nil
		})
		if err != nil {
			log.Error(lastErr, "Stopping without having reported a result; the next runner will")
		}
	}
}
