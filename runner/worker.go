package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/serverclock"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/ledger"
	"github.com/nodemend/nodemend/runner/remedy"
)

// freshness is how old what a decision was made on may be when the action is
// claimed.
const freshness = time.Second

// vetoTimeout is how long the node's own configuration may take to answer.
const vetoTimeout = 5 * time.Second

// worker brings one action after the other to its end. One goroutine uses it.
type worker struct {
	api         api
	clock       clock.WithTicker   // the node's
	serverClock *serverclock.Clock // for what others compare
	ledger      *ledger.Ledger
	remedies    map[string]remedy.Remedy
	vetoed      func(order remedy.Order) (string, error)
	recheck     func(context.Context) error // asks the detector for fresh conditions
	audit       auditor
	metrics     *metrics

	nodeName string
	runnerID string
	bootID   string
	dryRun   bool

	// claiming holds the actions for which a claim was sent without an answer.
	// Whether it was committed only the API server knows; nothing was executed.
	claiming map[types.UID]bool
}

// adopt brings to their end the orders that an earlier process has left, before
// anything else is begun. It returns the actions that are to be reported.
func (w *worker) adopt(ctx context.Context) []string {
	var names []string
	for _, e := range w.ledger.Pending() {
		ctx := logr.NewContext(ctx, logr.FromContextOrDiscard(ctx).WithValues("action", e.Order.Action))
		if e.Outcome == nil {
			w.adoptOrder(ctx, e.Order)
		} else {
			w.clean(ctx, e.Order)
		}
		names = append(names, e.Order.Action)
	}
	return names
}

func (w *worker) adoptOrder(ctx context.Context, order remedy.Order) {
	log := logr.FromContextOrDiscard(ctx)
	kind := w.remedies[order.Step.Remedy()]
	if kind == nil {
		w.end(ctx, order, &remedy.Outcome{
			Reason:  v1alpha1.ReasonInterrupted,
			Message: "another version of the runner began it, and this one does not know its remedy: it may or may not have been executed",
		})
		return
	}
	if order.BootID != w.bootID && order.Step.Reboot == nil {
		w.end(ctx, order, &remedy.Outcome{
			Reason:  v1alpha1.ReasonInterrupted,
			Message: fmt.Sprintf("the node has rebooted since it was begun (boot ID %s, now %s): the remedy may or may not have been executed", order.BootID, w.bootID),
		})
		return
	}
	log.Info("Adopting what an earlier runner has begun", "remedy", order.Step.Remedy(), "execution", order.Prepared.Execution, "startedAt", order.StartedAt)
	remedy.Reached(ctx, "before-adopt")
	w.end(ctx, order, kind.Adopt(ctx, order))
}

// end keeps an outcome, unless it is nil: then a later process will have it.
func (w *worker) end(ctx context.Context, order remedy.Order, outcome *remedy.Outcome) {
	if outcome == nil {
		return
	}
	remedy.Reached(ctx, "before-outcome")
	if err := w.ledger.End(order.Action, *outcome); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "The outcome is in no safe place yet, so what the action has left on the node stays")
		return
	}
	remedy.Reached(ctx, "after-outcome")
	w.clean(ctx, order)
	remedy.Reached(ctx, "after-clean")
}

// clean removes what an order that has ended has left on the node.
func (w *worker) clean(ctx context.Context, order remedy.Order) {
	kind := w.remedies[order.Step.Remedy()]
	if kind == nil {
		return
	}
	if err := kind.Clean(ctx, order); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Something of the action is left on the node")
	}
}

// work takes an action as far as it can go now. An error means that the API server
// could not be asked or told something: the next call starts over with fresh
// reads and repeats no side effect.
func (w *worker) work(ctx context.Context, name string) error {
	action, err := w.api.action(ctx, name)
	if err != nil {
		return err
	}
	entry := w.ledger.Find(name)
	if entry != nil && !entry.Reported && entry.Outcome == nil {
		return nil // left for a later process: this one is being stopped
	}
	switch {
	case action == nil:
		return w.forget(ctx, name, entry)
	case entry != nil && entry.Order.UID == action.UID:
		return w.report(ctx, action, entry)
	case action.Finished() != nil:
		return nil
	}
	if err := w.forget(ctx, name, entry); err != nil {
		return err
	}
	in, err := w.read(ctx, action)
	if err != nil {
		return err
	}
	switch d := decide(in); d.verb {
	case finish:
		return w.conclude(ctx, action, d.outcome, remedyOf(in))
	case execute:
		return w.prepare(ctx, in, d)
	default:
		return nil
	}
}

// uptime is how long ago the node booted.
func uptime() time.Duration {
	var since unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &since) != nil {
		return 0 // there is no Linux without it; then nothing counts as seen
	}
	return time.Duration(since.Nano())
}

// read collects what a decision about the action depends on.
func (w *worker) read(ctx context.Context, action *v1alpha1.NodeAction) (input, error) {
	policy, err := w.api.policy(ctx, action.Spec.Policy.Name)
	if err != nil {
		return input{}, err
	}
	node, err := w.api.node(ctx, w.nodeName)
	if err != nil {
		return input{}, err
	}
	in := input{
		action:   action,
		policy:   policy,
		node:     node,
		claiming: w.claiming[action.UID],
		nodeName: w.nodeName,
		runnerID: w.runnerID,
		bootID:   w.bootID,
		now:      w.serverClock.Now(),
	}
	in.booted = in.now.Add(-uptime())
	if c := action.Status.Claim; c != nil {
		in.knowsClaim = w.ledger.Knows(c.RunnerID)
	}
	if e := w.ledger.Find(action.Name); e != nil {
		in.earlier = &e.Order
	}
	return in, nil
}

// prepare looks at the node itself, and goes on if nothing speaks against it.
func (w *worker) prepare(ctx context.Context, in input, d decision) error {
	ctx, through := context.WithCancel(ctx)
	defer through() // closes what Prepare keeps open
	read := w.clock.Now()
	order := newOrder(in, d, read)
	name := order.Step.Remedy()
	kind := w.remedies[name]
	prepared, refused := kind.Prepare(ctx, order)
	order.Prepared = prepared
	if refused == nil {
		refused = w.veto(ctx, order)
	}
	if refused == nil && w.dryRun {
		refused = &remedy.Outcome{Reason: v1alpha1.ReasonDryRun, Message: "dry run, nothing was executed; this runner would " + describe(order)}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if refused != nil {
		return w.conclude(ctx, in.action, *refused, name)
	}
	// What was decided on must not be old when the remedy begins, however long the
	// node or the API server took to answer.
	again := func() (finished bool, err error) {
		if w.clock.Since(read) <= freshness {
			return false, nil
		}
		read = w.clock.Now()
		if in, err = w.read(ctx, in.action); err != nil {
			return false, err
		}
		if d = decide(in); d.verb == finish {
			return true, w.conclude(ctx, in.action, d.outcome, name)
		}
		order = newOrder(in, d, read)
		order.Prepared = prepared
		return false, nil
	}
	if finished, err := again(); finished || err != nil {
		return err
	}
	if in.action.Status.Claim == nil {
		if err := w.claim(ctx, in.action, order); err != nil {
			return err
		}
	}
	if finished, err := again(); finished || err != nil {
		return err
	}
	return w.execute(ctx, in, order, kind)
}

// veto asks the node's own configuration. Looking at files on a file system that has
// died never ends: then nobody knows, and a goroutine is given up.
func (w *worker) veto(ctx context.Context, order remedy.Order) *remedy.Outcome {
	type answer struct {
		reason string
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		reason, err := w.vetoed(order)
		answers <- answer{reason, err}
	}()
	timer := w.clock.NewTimer(vetoTimeout)
	defer timer.Stop()
	var got answer
	select {
	case got = <-answers:
	case <-ctx.Done():
		got.err = ctx.Err()
	case <-timer.C():
		got.err = fmt.Errorf("no answer from the file system within %s: is a mount dead that the command, or an entry of the file, is on?", vetoTimeout)
	}
	reason := got.reason
	switch {
	case got.err != nil:
		reason = fmt.Sprintf("the node's own configuration can't be asked, so it may forbid this: %v", got.err)
	case reason == "":
		return nil
	}
	return &remedy.Outcome{Reason: v1alpha1.ReasonRefused, Message: reason}
}

// claim returns nil only if the API server has confirmed the claim. After an
// error it may have been committed: the next call reads it back.
func (w *worker) claim(ctx context.Context, action *v1alpha1.NodeAction, order remedy.Order) error {
	remedy.Reached(ctx, "before-claim")
	w.claiming[action.UID] = true
	action.Status.Claim = &v1alpha1.Claim{
		RunnerID:     w.runnerID,
		BootID:       w.bootID,
		Time:         metav1.NewTime(w.serverClock.Now()),
		Remedy:       order.Step.Remedy(),
		InvocationID: order.Prepared.InvocationID,
	}
	if err := w.api.updateStatus(ctx, action); err != nil {
		return fmt.Errorf("claiming NodeAction %s: %w", action.Name, err)
	}
	remedy.Reached(ctx, "after-claim")
	return nil
}

// execute executes the remedy of a claimed action and reports the outcome.
func (w *worker) execute(ctx context.Context, in input, order remedy.Order, kind remedy.Remedy) error {
	name := order.Step.Remedy()
	delete(w.claiming, order.UID)
	order.StartedAt = w.clock.Now()
	w.audit.claimed(ctx, in, order)
	if err := w.ledger.Begin(order); err != nil {
		return w.conclude(ctx, in.action, remedy.Outcome{
			Reason:  v1alpha1.ReasonStartFailed,
			Message: fmt.Sprintf("nothing was executed, since it could not be made sure that it is not executed again: %v", err),
		}, name)
	}
	remedy.Reached(ctx, "after-ledger")
	w.end(ctx, order, kind.Execute(ctx, order))
	entry := w.ledger.Find(order.Action)
	if entry.Outcome == nil {
		logr.FromContextOrDiscard(ctx).Info("Stopping; the next runner adopts what is under way")
		return nil
	}
	return w.report(ctx, in.action, entry)
}

// forget gives up the outcome of an action that is gone, or that was created again
// under its name. The action is nil or has no entry.
func (w *worker) forget(ctx context.Context, name string, entry *ledger.Entry) error {
	if entry == nil || entry.Reported {
		return nil
	}
	logr.FromContextOrDiscard(ctx).Info("Action was deleted before its result was written", "uid", entry.Order.UID,
		"reason", entry.Outcome.Reason, "message", clip(entry.Outcome.Message))
	return w.ledger.Reported(name)
}

// retriable says whether an error only means that somebody else was faster.
func retriable(err error) bool { return apierrors.IsConflict(err) }
