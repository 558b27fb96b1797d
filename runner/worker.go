package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/serverclock"
	"github.com/nodemend/nodemend/runner/ledger"
	"github.com/nodemend/nodemend/runner/remedy"
)

const (
	// freshness is how old what a decision was made on may be when the action is
	// claimed, and when the remedy begins. What is older is read again.
	freshness = time.Second
	// slowness is how long it may take to be read again; else once more. The API server may
	// be slow for the very reason that the remedy is for.
	slowness = 5 * time.Second
)

// WorkerOptions are what a Worker has to do with the world. All are required but
// MachineID and DryRun.
type WorkerOptions struct {
	// NodeName is the name of the node, BootID that of its present boot. MachineID is the
	// host's own ID; "": nobody can know.
	NodeName  string
	BootID    string
	MachineID string
	// API is the API server.
	API API
	// Ledger remembers what was begun. The caller holds its lock.
	Ledger *ledger.Ledger
	// Remedies by their names.
	Remedies map[string]remedy.Remedy
	// Clock is the node's, ServerClock what others compare, and Uptime how long ago
	// the node booted; nil: nobody knows.
	Clock       clock.WithTicker
	ServerClock *serverclock.Clock
	Uptime      func() time.Duration
	// Vetoed returns why the node's own configuration forbids an order, or "". It returns
	// within seconds.
	Vetoed func(context.Context, remedy.Order) string
	// Recheck asks the detector for fresh conditions.
	Recheck func(context.Context) error
	// Events are told of every claim and every result.
	Events record.EventRecorder
	// Registry takes the metrics.
	Registry prometheus.Registerer
	// DryRun answers every action with what would be done.
	DryRun bool
}

// API is what a Worker asks and tells the API server. What it returns was read live,
// never from a cache.
type API interface {
	// Action, Remediation, Policy, Node and Budget return nil if the API server answers
	// that there is no such object.
	Action(ctx context.Context, name string) (*v1alpha1.NodeAction, error)
	Remediation(ctx context.Context, name string) (*v1alpha1.Remediation, error)
	Policy(ctx context.Context, name string) (*v1alpha1.RemedyPolicy, error)
	Node(ctx context.Context, name string) (*corev1.Node, error)
	Budget(ctx context.Context, name string) (*v1alpha1.RemediationBudget, error)
	// Request is such for the object that has asked for a remediation.
	Request(ctx context.Context, request *v1alpha1.Request) (*v1alpha1.NodemendRemediation, error)
	// UpdateStatus writes the action's status if nobody has written the action since
	// it was read; otherwise the error is a conflict. After any other error the status
	// may have been written or not: only a read can tell.
	UpdateStatus(ctx context.Context, action *v1alpha1.NodeAction) error
}

// Worker brings one action after the other to its end. One goroutine uses it.
type Worker struct {
	WorkerOptions

	runnerID string
	audit    auditor
	metrics  *metrics

	// claiming holds the actions for which a claim was sent without an answer.
	// Whether it was committed only the API server knows; nothing was executed.
	claiming map[types.UID]bool
}

// NewWorker returns a Worker. It fails if the metrics are registered already.
func NewWorker(o WorkerOptions) (*Worker, error) {
	metrics, err := newMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	return &Worker{
		WorkerOptions: o, runnerID: o.Ledger.RunnerID(), audit: newAuditor(o.NodeName, o.Events),
		metrics: metrics, claiming: map[types.UID]bool{},
	}, nil
}

// Adopt brings to their end the orders that an earlier process has left, before
// anything else is begun. It returns the actions that are to be reported.
func (w *Worker) Adopt(ctx context.Context) []string {
	var names []string
	for _, e := range w.Ledger.Pending() {
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

func (w *Worker) adoptOrder(ctx context.Context, order remedy.Order) {
	log := logr.FromContextOrDiscard(ctx)
	kind := w.Remedies[order.Step.Remedy()]
	if kind == nil {
		w.end(ctx, order, &remedy.Outcome{
			Reason:  v1alpha1.ReasonInterrupted,
			Message: "another version of the runner began it, and this one does not know its remedy: it may or may not have been executed",
		})
		return
	}
	if order.BootID != w.BootID && kindNamed(order.Step.Remedy()).Booted == nil {
		w.end(ctx, order, &remedy.Outcome{
			Reason:  v1alpha1.ReasonInterrupted,
			Message: fmt.Sprintf("the node has rebooted since it was begun (boot ID %s, now %s): the remedy may or may not have been executed", order.BootID, w.BootID),
		})
		return
	}
	order.StartedAt = w.startOf(order)
	log.Info("Adopting what an earlier runner has begun", "remedy", order.Step.Remedy(), "execution", order.Prepared.Execution, "startedAt", order.StartedAt)
	remedy.Reached(ctx, "before-adopt")
	w.end(ctx, order, kind.Adopt(ctx, order))
}

// startOf returns when an order of this boot was made, by the node's clock as it is now: a clock
// that was set back since would give a remedy more time than the controller waits for.
func (w *Worker) startOf(order remedy.Order) time.Time {
	if order.Uptime == 0 || order.BootID != w.BootID {
		return order.StartedAt
	}
	at := w.Clock.Now().Add(order.Uptime - w.Uptime())
	if at.Sub(order.StartedAt).Abs() <= time.Second { // so the clock was not set
		return order.StartedAt
	}
	return at
}

// end keeps an outcome, unless it is nil: then a later process will have it.
func (w *Worker) end(ctx context.Context, order remedy.Order, outcome *remedy.Outcome) {
	if outcome == nil {
		return
	}
	up := w.Uptime()
	remedy.Reached(ctx, "before-outcome")
	if err := w.Ledger.End(order.Action, *outcome, up); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "The outcome is in no safe place yet, so what the action has left on the node stays")
		return
	}
	remedy.Reached(ctx, "after-outcome")
	w.clean(ctx, order)
	remedy.Reached(ctx, "after-clean")
}

// clean removes what an order that has ended has left on the node.
func (w *Worker) clean(ctx context.Context, order remedy.Order) {
	kind := w.Remedies[order.Step.Remedy()]
	if kind == nil {
		return
	}
	if err := kind.Clean(ctx, order); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Something of the action is left on the node")
	}
}

// Work takes an action as far as it can go now. An error means that the API server
// could not be asked or told something: the next call starts over with fresh
// reads and repeats no side effect.
func (w *Worker) Work(ctx context.Context, name string) error {
	action, err := w.API.Action(ctx, name)
	if err != nil {
		return err
	}
	entry := w.Ledger.Find(name)
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

// read collects what a decision about the action depends on. The remediation, and what has asked for
// it, come last: they are what an action is withdrawn by.
func (w *Worker) read(ctx context.Context, action *v1alpha1.NodeAction) (input, error) {
	since := w.Clock.Now()
	policy, err := w.API.Policy(ctx, action.Spec.Policy.Name)
	if err != nil {
		return input{}, err
	}
	node, err := w.API.Node(ctx, w.NodeName)
	if err != nil {
		return input{}, err
	}
	pause, err := w.API.Budget(ctx, v1alpha1.ClusterPauseBudget)
	if err != nil {
		return input{}, err
	}
	remediation, err := w.API.Remediation(ctx, action.Spec.Remediation)
	if err != nil {
		return input{}, err
	}
	var asked *v1alpha1.NodemendRemediation
	if remediation != nil && remediation.Spec.Request != nil {
		if asked, err = w.API.Request(ctx, remediation.Spec.Request); err != nil {
			return input{}, err
		}
	}
	in := input{
		since:       since,
		action:      action,
		remediation: remediation,
		asked:       asked,
		policy:      policy,
		node:        node,
		pause:       pause,
		claiming:    w.claiming[action.UID],
		remedies:    slices.Sorted(maps.Keys(w.Remedies)),
		nodeName:    w.NodeName,
		machineID:   w.MachineID,
		runnerID:    w.runnerID,
		bootID:      w.BootID,
		now:         w.ServerClock.Now(),
	}
	if w.Uptime != nil {
		in.booted = in.now.Add(-w.Uptime())
	}
	if w.Ledger == nil {
		return in, nil
	}
	if end := w.Ledger.LastEnd(w.BootID); end > 0 {
		in.ended = in.booted.Add(end)
	}
	if c := action.Status.Claim; c != nil {
		in.knowsClaim = w.Ledger.Knows(c.RunnerID)
	}
	if e := w.Ledger.Find(action.Name); e != nil {
		in.earlier = &e.Order
	}
	return in, nil
}

// prepare looks at the node itself, and goes on if nothing speaks against it.
func (w *Worker) prepare(ctx context.Context, in input, d decision) error {
	ctx, through := context.WithCancel(ctx)
	defer through() // closes what Prepare keeps open
	order := newOrder(in, d, w.Clock.Now())
	name := order.Step.Remedy()
	kind := w.Remedies[name]
	prepared, refused := kind.Prepare(ctx, order)
	order.Prepared = prepared
	if refused == nil {
		refused = w.vetoed(ctx, order)
	}
	if refused == nil && w.DryRun {
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
		for old := w.Clock.Since(in.since) > freshness; old; old = w.Clock.Since(in.since) > slowness {
			if in, err = w.read(ctx, in.action); err != nil {
				return false, err
			}
			if d = decide(in); d.verb == finish {
				return true, w.conclude(ctx, in.action, d.outcome, name)
			}
			order = newOrder(in, d, w.Clock.Now())
			order.Prepared = prepared
		}
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
	refused = w.vetoed(ctx, order) // it may have been written since the claim was sent
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if refused != nil {
		return w.conclude(ctx, in.action, *refused, name)
	}
	if finished, err := again(); finished || err != nil {
		return err
	}
	return w.execute(ctx, in, order, kind)
}

// vetoed returns the outcome of an order that the node's own configuration forbids, or nil.
func (w *Worker) vetoed(ctx context.Context, order remedy.Order) *remedy.Outcome {
	if reason := w.Vetoed(ctx, order); reason != "" {
		return &remedy.Outcome{Reason: v1alpha1.ReasonRefused, Message: reason}
	}
	return nil
}

// claim returns nil only if the API server has confirmed the claim. After an
// error it may have been committed: the next call reads it back.
func (w *Worker) claim(ctx context.Context, action *v1alpha1.NodeAction, order remedy.Order) error {
	remedy.Reached(ctx, "before-claim")
	w.claiming[action.UID] = true
	action.Status.Claim = &v1alpha1.Claim{
		RunnerID:     w.runnerID,
		BootID:       w.BootID,
		Time:         metav1.NewTime(w.ServerClock.Now()),
		Remedy:       order.Step.Remedy(),
		InvocationID: order.Prepared.InvocationID,
	}
	if err := w.API.UpdateStatus(ctx, action); err != nil {
		return fmt.Errorf("claiming NodeAction %s: %w", action.Name, err)
	}
	remedy.Reached(ctx, "after-claim")
	return nil
}

// execute executes the remedy of a claimed action and reports the outcome.
func (w *Worker) execute(ctx context.Context, in input, order remedy.Order, kind remedy.Remedy) error {
	name := order.Step.Remedy()
	delete(w.claiming, order.UID)
	order.StartedAt, order.Uptime = w.Clock.Now(), w.Uptime()
	w.audit.claimed(ctx, in, order)
	if err := w.Ledger.Begin(order); err != nil {
		return w.conclude(ctx, in.action, remedy.Outcome{
			Reason:  v1alpha1.ReasonStartFailed,
			Message: fmt.Sprintf("nothing was executed, since it could not be made sure that it is not executed again: %v", err),
		}, name)
	}
	remedy.Reached(ctx, "after-ledger")
	w.end(ctx, order, kind.Execute(ctx, order))
	entry := w.Ledger.Find(order.Action)
	if entry.Outcome == nil {
		logr.FromContextOrDiscard(ctx).Info("Stopping; the next runner adopts what is under way")
		return nil
	}
	return w.report(ctx, in.action, entry)
}

// forget gives up the outcome of an action that is gone, or that was created again
// under its name. The action is nil or has no entry.
func (w *Worker) forget(ctx context.Context, name string, entry *ledger.Entry) error {
	if entry == nil || entry.Reported {
		return nil
	}
	logr.FromContextOrDiscard(ctx).Info("Action was deleted before its result was written", "uid", entry.Order.UID,
		"reason", entry.Outcome.Reason, "message", clip(entry.Outcome.Message))
	return w.Ledger.Reported(name)
}

// retriable says whether an error only means that somebody else was faster.
func retriable(err error) bool { return apierrors.IsConflict(err) }
