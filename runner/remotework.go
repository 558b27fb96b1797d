package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
	"github.com/nodemend/nodemend/internal/serverclock"
	"github.com/nodemend/nodemend/runner/remedy"
)

// maxSwitch is how long status.power.proof.switch may be.
const maxSwitch = 512

// bootPoll is how often the node is looked at while it is to boot.
const bootPoll = 5 * time.Second

// Outside is what the workers of a remote runner have to do with the world. All is required but DryRun.
type Outside struct {
	// RunnerID names this process, and no other one.
	RunnerID string
	// Switch returns what switches the power of a node. It asks nobody.
	Switch func(*corev1.Node) (power.Switch, error)
	// Needed returns a node with nothing but its name and what Switch looks at, to be kept for
	// when the node is gone.
	Needed func(*corev1.Node) (*corev1.Node, error)
	// Clock measures what passes, ServerClock is what others compare.
	Clock       clock.WithTicker
	ServerClock *serverclock.Clock
	// Events are told of every claim and every result, and when a machine is switched.
	Events record.EventRecorder
	// DryRun says what would be done, and does nothing. What another process has switched is
	// switched back all the same.
	DryRun bool
}

// RemoteWorkerOptions are what a RemoteWorker has to do with the world. All are required but
// Host and Settled.
type RemoteWorkerOptions struct {
	Outside
	// API is the API server.
	API RemoteAPI
	// Host returns the switch that is this BareMetalHost. Required where Switch returns one: it is asked for
	// again by what was kept of it.
	Host func(v1alpha1.BareMetalHostReference) (power.Switch, error)
	// Registry takes the metrics.
	Registry prometheus.Registerer
	// Machines has those replaced that are under nodes.
	Machines Machines
	// Settled is as in RemoteOptions.
	Settled time.Duration
}

// RemoteWorker brings actions of the remote runner to their ends, those of several nodes at
// once. What it has begun stands in the action's status before, so another one can go on at any
// time; of two that both believe to lead, one writes that status, and the other one stops.
type RemoteWorker struct {
	RemoteWorkerOptions
	metrics *metrics

	mu   sync.Mutex
	busy map[string]bool // by the name of the node
	// awaited are the actions, by their UIDs, that this process takes over: what another one has sent may still
	// arrive, and is waited for.
	awaited map[types.UID]bool
	// unheard are actions as they were to be written, by their names: see [RemoteWorker.settle].
	unheard map[string]*v1alpha1.NodeAction
}

// NewRemoteWorker returns a RemoteWorker. It fails if the metrics are registered already.
func NewRemoteWorker(o RemoteWorkerOptions) (*RemoteWorker, error) {
	metrics, err := newMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	return &RemoteWorker{RemoteWorkerOptions: o, metrics: metrics, busy: map[string]bool{}, awaited: map[types.UID]bool{}, unheard: map[string]*v1alpha1.NodeAction{}}, nil
}

// Work takes an action as far as it can go now, which may take until the step's timeout. An
// error means that the API server could not be asked or told something, or that the action has
// to wait: the next call goes on from what it reads.
func (w *RemoteWorker) Work(ctx context.Context, name string) error {
	action, err := w.API.Action(ctx, name)
	if err != nil {
		return err
	}
	if action == nil || action.Spec.Executor != v1alpha1.ExecutorRemote || action.Finished() != nil {
		w.forget(name)
		return nil
	}
	if !w.take(action.Spec.NodeName) {
		return errBusy
	}
	defer w.give(action.Spec.NodeName)
	if err := w.settle(ctx, action); err != nil || action.Finished() != nil {
		return err
	}
	replaces, err := w.replaces(ctx, action)
	if err != nil {
		return err
	}
	if replaces {
		t := &replacement{w: w, action: action, Worker: w.worker(action, v1alpha1.RemedyReplace)}
		return t.work(ctx)
	}
	t := &powerCycle{w: w, action: action, Worker: w.worker(action, v1alpha1.RemedyReboot)}
	return t.work(ctx)
}

// replaces reports whether the action has a machine replaced. One of which nobody knows what it asks
// for is taken for a power cycle, which refuses it.
func (w *RemoteWorker) replaces(ctx context.Context, action *v1alpha1.NodeAction) (bool, error) {
	if claim := action.Status.Claim; claim != nil {
		return claim.Remedy == v1alpha1.RemedyReplace, nil
	}
	policy, err := w.API.Policy(ctx, action.Spec.Policy.Name)
	if err != nil || policy == nil {
		return false, err
	}
	step := policy.StepWithHash(action.Spec.StepHash)
	return step != nil && step.Replace != nil, nil
}

// worker is one for the action, which knows this remedy alone: what is decided for one kind of work
// is never done for another.
func (w *RemoteWorker) worker(action *v1alpha1.NodeAction, name string) *Worker {
	return &Worker{
		WorkerOptions: WorkerOptions{
			NodeName: action.Spec.NodeName, API: lastWords{w.API, w}, Clock: w.Clock, ServerClock: w.ServerClock,
			Remedies: map[string]remedy.Remedy{name: nil},
		},
		runnerID: w.RunnerID, audit: newAuditor(action.Spec.NodeName, w.Events), metrics: w.metrics, claiming: map[types.UID]bool{},
	}
}

// take returns false if something is under way on the node.
func (w *RemoteWorker) take(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[node] {
		return false
	}
	w.busy[node] = true
	return true
}

func (w *RemoteWorker) give(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.busy, node)
}

// takesOver reports whether an action that another process has begun, or may have, has still to be waited for.
func (w *RemoteWorker) takesOver(action types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.awaited[action]
}

// await says whether it has.
func (w *RemoteWorker) await(action types.UID, awaits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if awaits {
		w.awaited[action] = true
	} else {
		delete(w.awaited, action)
	}
}

// isBusy reports whether something is under way on the node.
func (w *RemoteWorker) isBusy(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy[node]
}

// powerCycle is one action at work.
type powerCycle struct {
	*Worker
	w *RemoteWorker

	// action as it was read or written last.
	action *v1alpha1.NodeAction
	// phase that is kept.
	phase proof.Phase
	// machine is switched, by the switch of this node: as it was when nothing was switched yet.
	machine power.UUID
	needed  *corev1.Node
	// host is that switch, if it is one.
	host *v1alpha1.BareMetalHostReference
	// gone: somebody has deleted the action after its power was switched. It is brought to its
	// end, without another off, but nobody can be told.
	gone bool
}

// refusal ends an action: before anything was switched, or so late that the machine is for people.
type refusal struct{ remedy.Outcome }

func (r *refusal) Error() string { return r.Reason + ": " + r.Message }

// Is implements errors.Is.
func (*refusal) Is(target error) bool { return target == proof.ErrGivenUp }

// work brings the action to its end.
func (t *powerCycle) work(ctx context.Context) error {
	begun := t.action.Status.Claim != nil
	kept, err := progressOf(t.action)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "What is kept proves nothing: it is proved anew")
	}
	t.phase = kept.Phase
	if err := t.remember(); err != nil {
		return err
	}
	in, err := t.readAll(ctx)
	if err != nil {
		return err
	}
	if t.phase == proof.Looking {
		if d := decideRemote(in); d.verb != execute {
			return t.refuse(ctx, d)
		}
	}
	if o := t.left(in); o != nil {
		return t.conclude(ctx, t.action, *o, v1alpha1.RemedyReboot)
	}
	bmc, plan, err := t.plan(in)
	switch {
	case err != nil && t.phase == proof.Looking:
		return t.conclude(ctx, t.action, remedy.Outcome{Reason: v1alpha1.ReasonRefused, Message: "nothing was switched: " + err.Error()}, v1alpha1.RemedyReboot)
	case err != nil && t.phase != proof.Ended:
		return fmt.Errorf("going on with the power cycle of node %s, which is in phase %s: %w", t.NodeName, t.phase, err)
	}
	if t.phase == proof.Looking {
		twin, err := t.w.API.Twin(ctx, t.NodeName, plan.Machine)
		if err != nil {
			return err
		}
		if twin != "" {
			return t.conclude(ctx, t.action, remedy.Outcome{Reason: v1alpha1.ReasonRefused, Message: fmt.Sprintf(
				"nothing was switched: node %s has the systemUUID %s, too, so nobody can tell which of the two is switched", twin, plan.Machine)}, v1alpha1.RemedyReboot)
		}
	}
	if t.w.DryRun && begun && t.phase == proof.Looking {
		return nil // that of another runner
	}
	if !begun {
		if t.w.DryRun {
			return t.conclude(ctx, t.action, remedy.Outcome{
				Reason: v1alpha1.ReasonDryRun, Message: fmt.Sprintf("dry run, nothing was switched; this runner would switch the power of node %s off and on by %s", t.NodeName, bmc),
			}, v1alpha1.RemedyReboot)
		}
		if err := t.begin(ctx, in, bmc.String()); err != nil {
			return err
		}
		plan.BootID = t.action.Status.Claim.BootID
	}
	if err := t.takeOver(ctx, kept); err != nil {
		return err
	}
	if kept.Phase == proof.Ended { // it needs no switch any more
		return t.end(ctx, kept)
	}
	cycle := proof.Runner{Clock: t.Clock, Switch: bmc, Facts: t.facts, Keep: t.keep}
	kept, err = cycle.Run(ctx, plan, kept)
	var refused *refusal
	if errors.As(err, &refused) {
		if t.gone {
			return t.unheard(ctx, refused.Outcome)
		}
		return t.conclude(ctx, t.action, refused.Outcome, v1alpha1.RemedyReboot)
	}
	if err != nil {
		return err
	}
	return t.end(ctx, kept)
}

// readAll reads all that a decision depends on.
func (t *powerCycle) readAll(ctx context.Context) (input, error) {
	lease, err := t.w.API.Lease(ctx, t.NodeName)
	if err != nil {
		return input{}, err
	}
	var holds Holds
	if t.mayBeHeld() {
		if holds, err = t.w.API.Holds(ctx, t.NodeName); err != nil {
			return input{}, err
		}
	}
	in, err := t.read(ctx, t.action)
	in.remote, in.lease, in.holds = true, lease, holds
	if in.node != nil {
		in.bootID = in.node.Status.NodeInfo.BootID
	}
	return in, err
}

func (t *powerCycle) refuse(ctx context.Context, d decision) error {
	if d.verb == leave {
		return nil
	}
	return t.conclude(ctx, t.action, d.outcome, v1alpha1.RemedyReboot)
}

// mayBeHeld reports whether what people say matters: what was cut in time is switched on again
// whatever they say, but nothing is freed.
func (t *powerCycle) mayBeHeld() bool {
	return t.phase == proof.Looking || t.phase == proof.Cutting || t.phase == proof.ProvedOff || t.wasOff() || t.ServerClock.Now().After(deadline.Over(t.action))
}

// wasOff reports whether the machine is switched on that was off when we came: not by us, so that people
// may have done it, and may keep it so.
func (t *powerCycle) wasOff() bool {
	p := t.action.Status.Power
	return p != nil && p.Outcome == string(proof.PowerWasOff)
}

// isOurs reports whether a node is that of the machine, also if it was registered anew.
func (t *powerCycle) isOurs(node *corev1.Node) bool {
	if node == nil || node.UID == t.action.Spec.NodeUID {
		return node != nil
	}
	is, err := power.ParseUUID(node.Status.NodeInfo.SystemUUID)
	return err == nil && slices.Contains(t.machine.Alike(), is)
}

// hasBooted reports whether the node was seen with another boot than that which was to end.
func (t *powerCycle) hasBooted(node *corev1.Node) bool {
	if !t.isOurs(node) {
		return false
	}
	bootID := node.Status.NodeInfo.BootID
	return bootID != "" && bootID != t.action.Status.Claim.BootID
}

// left returns how an action ends with which nobody goes on, since it was over long ago: the node
// has booted, and if its power is off by now, somebody wants that; or people have been told to look
// at it, and may work on the machine.
func (t *powerCycle) left(in input) *remedy.Outcome {
	if t.phase == proof.Looking || t.phase == proof.Ended || !in.now.After(deadline.Over(t.action)) {
		return nil
	}
	if t.hasBooted(in.node) {
		o := t.booted(in.bootID)
		return &o
	}
	why := heldByPeople(in)
	if in.now.After(deadline.Restorable(t.action)) {
		why = fmt.Sprintf("nobody went on with it for %s", in.now.Sub(t.action.Status.Claim.Time.Time).Round(time.Second))
	}
	if why == "" {
		return nil
	}
	var o remedy.Outcome
	switch {
	case t.wasOff() && t.phase == proof.ProvedOff:
		o = remedy.Outcome{Reason: v1alpha1.ReasonPowerWasOff, Message: fmt.Sprintf("nothing was switched: the power was off already, and %s: so it stays off", why)}
	case t.wasOff():
		o = t.executed(v1alpha1.ReasonNotBack, fmt.Sprintf("the power was off already, may have been switched on, and %s: so it is left as it is. When nobody works on the machine, switch it on", why), "")
	case t.phase == proof.Cutting || t.phase == proof.Watching:
		o = t.executed(v1alpha1.ReasonPowerStillOn, fmt.Sprintf("the power may have been switched off, and %s: so it is left as it is. Look at it", why), "")
	default:
		o = t.executed(v1alpha1.ReasonNotBack, fmt.Sprintf("the power was switched off, and %s: so it is left as it is, since somebody may work on the machine. When nobody does, switch it on", why), "")
	}
	return &o
}

// remember reads which machine is switched, and by what.
func (t *powerCycle) remember() error {
	status := t.action.Status.Power
	if status == nil || status.Machine == "" {
		return nil
	}
	machine, err := power.ParseUUID(status.Machine)
	if err != nil {
		return fmt.Errorf("status.power.machine of NodeAction %s: %w", t.action.Name, err)
	}
	t.machine, t.host = machine, status.Host
	t.needed = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: t.NodeName, Labels: status.Labels, Annotations: status.Annotations}}
	return nil
}

// plan says what switches the node's power, and how. Once something may have been switched, it is
// the machine that was, whatever has become of the node.
func (t *powerCycle) plan(in input) (power.Switch, proof.Plan, error) {
	plan := proof.DefaultPlan()
	plan.Settled = cmp.Or(t.w.Settled, plan.Settled)
	if step := stepOf(in); step != nil && step.Reboot != nil {
		plan.TakeOff = step.Reboot.IfOff == v1alpha1.IfOffSwitchOn
	}
	if t.phase == proof.Looking || t.needed == nil {
		if in.node == nil || in.node.UID != t.action.Spec.NodeUID {
			return nil, plan, fmt.Errorf("node %s is gone, so nobody knows its machine", t.NodeName)
		}
		machine, err := power.ParseUUID(in.node.Status.NodeInfo.SystemUUID)
		if err != nil {
			return nil, plan, fmt.Errorf("its systemUUID: %w", err)
		}
		needed, err := t.w.Needed(in.node)
		if err != nil {
			return nil, plan, err
		}
		t.machine, t.needed = machine, needed
	}
	bmc, err := t.bmc()
	if err != nil {
		return nil, plan, err
	}
	plan.Node, plan.BootID, plan.Machine = t.NodeName, in.bootID, t.machine
	plan.Reader, plan.Switch = t.w.RunnerID, cut.Head(bmc.String(), maxSwitch)
	if claim := t.action.Status.Claim; claim != nil {
		plan.BootID = claim.BootID
	}
	return bmc, plan, nil
}

// bmc returns what switches the machine. What a BareMetalHost may keep off, nothing else switches on for long: so it
// is that host, whatever the configuration says by now.
func (t *powerCycle) bmc() (power.Switch, error) {
	if t.phase != proof.Looking && t.host != nil {
		return t.w.Host(*t.host)
	}
	bmc, err := t.w.Switch(t.needed)
	t.host = nil
	if of, is := bmc.(interface {
		Host() v1alpha1.BareMetalHostReference
	}); is {
		host := of.Host()
		t.host = &host
	}
	return bmc, err
}

// begin claims the action: from then on it is not begun anew, but gone on with.
func (t *powerCycle) begin(ctx context.Context, in input, bmc string) error {
	order := newOrder(in, decision{verb: execute, step: in.policy.StepWithHash(t.action.Spec.StepHash)}, t.Clock.Now())
	order.Prepared.Execution, order.Prepared.Note = v1alpha1.ExecutionPowerCycle, bmc
	t.BootID = in.bootID
	if err := t.claim(ctx, t.action, order); err != nil {
		return err
	}
	t.audit.claimed(ctx, in, order)
	return nil
}

// takeOver has this process go on from what was kept. What another one has sent may still reach
// the switch: that is waited for.
func (t *powerCycle) takeOver(ctx context.Context, kept proof.Progress) error {
	uid := t.action.UID
	if t.holder() != t.w.RunnerID {
		logr.FromContextOrDiscard(ctx).Info("Going on with what another remote runner has begun", "runner", t.holder(), "phase", kept.Phase)
		t.w.await(uid, true) // before the write, whose answer may be lost
		if err := t.keep(ctx, kept); err != nil {
			return err
		}
	}
	if t.w.takesOver(uid) && kept.Phase == proof.Cutting {
		if err := t.pause(ctx, proof.Straggle); err != nil {
			return err
		}
	}
	t.w.await(uid, false)
	return nil
}

// holder is the ID of the process that goes on with the action.
func (t *powerCycle) holder() string {
	if p := t.action.Status.Power; p != nil {
		return p.RunnerID
	}
	return t.action.Status.Claim.RunnerID
}

// over reports whether the step's timeout is.
func (t *powerCycle) over() bool {
	return !t.ServerClock.Now().Before(t.action.Status.Claim.Time.Add(t.action.Spec.Timeout.Duration))
}

// facts says what is known of the node now. The error is a refusal if nothing must be switched any
// more.
func (t *powerCycle) facts(ctx context.Context) (proof.Facts, error) {
	action, err := t.API.Action(ctx, t.action.Name)
	if err != nil {
		return proof.Facts{Over: t.over()}, err
	}
	uid := t.action.UID
	switch {
	case action != nil && action.UID == uid && action.Finished() == nil && action.Status.Claim != nil:
		t.action = action
		if t.holder() != t.w.RunnerID {
			return proof.Facts{}, proof.ErrTakenOver
		}
	case t.phase == proof.Looking:
		return proof.Facts{}, fmt.Errorf("NodeAction %s is gone, or somebody has written its status", t.action.Name)
	default:
		t.gone = true
	}
	in, err := t.readAll(ctx)
	if err != nil {
		return proof.Facts{Over: t.over()}, err
	}
	if o := t.left(in); o != nil {
		return proof.Facts{}, &refusal{*o}
	}
	d := decideRemote(in)
	if t.phase == proof.Looking && d.verb != execute {
		return proof.Facts{}, &refusal{d.outcome}
	}
	// What we have cut is switched on again; not what has booted since, which somebody may have
	// switched off.
	known := proof.Facts{Confirmed: d.verb == execute && !t.gone && !t.w.DryRun, Restore: !t.hasBooted(in.node), Over: t.over()}
	if t.wasOff() && (t.gone || t.w.DryRun || stands(in).verb != execute) {
		known.Restore = false
	}
	if !t.gone && !t.w.DryRun {
		known.Hold, known.Await = frees(in)
	}
	if t.isOurs(in.node) {
		known.Answers, known.BootID = signOfLife(in.node, in.lease, in.now) != "", in.bootID
	}
	return known, nil
}

// keep writes the progress into the action, unless anybody has written it since it was read.
func (t *powerCycle) keep(ctx context.Context, p proof.Progress) error {
	if t.gone {
		t.phase = p.Phase
		return nil
	}
	remedy.Reached(ctx, "before-"+string(p.Phase))
	written := t.action.DeepCopy()
	written.Status.Power = powerStatus(t.w.RunnerID, p)
	if t.needed != nil {
		written.Status.Power.Machine = t.machine.String()
		written.Status.Power.Host = t.host
		written.Status.Power.Labels, written.Status.Power.Annotations = t.needed.Labels, t.needed.Annotations
	}
	write := t.API.UpdateStatus
	if t.phase == proof.Cutting && p.Phase != proof.Cutting {
		write = t.w.writeLast
	}
	err := write(ctx, written)
	if apierrors.IsNotFound(err) && t.phase != proof.Looking {
		t.gone, t.phase = true, p.Phase
		return nil
	}
	if err != nil {
		return err
	}
	if written.Status.Power == nil {
		return errors.New("the API server drops status.power of a NodeAction: install the CRDs of this version of Nodemend")
	}
	t.action, t.phase = written, p.Phase
	logr.FromContextOrDiscard(ctx).Info("Power cycle", "node", t.NodeName, "phase", p.Phase, "outcome", p.Outcome, "message", p.Message)
	remedy.Reached(ctx, "after-"+string(p.Phase))
	return nil
}

// end waits for the node to boot, if its power was switched off and on, and reports.
func (t *powerCycle) end(ctx context.Context, p proof.Progress) error {
	var o remedy.Outcome
	switch p.Outcome {
	case proof.PowerCycled, proof.NewBoot, proof.WentOffLate:
		var err error
		if o, err = t.awaitBoot(ctx, p); err != nil {
			return err
		}
	case proof.PowerStillOff:
		o = t.executed(v1alpha1.ReasonNotBack, p.Message, "")
	case proof.PowerStillOn, proof.NodeAnswers:
		o = t.executed(v1alpha1.ReasonPowerStillOn, p.Message, "")
	case proof.PowerWasOff, proof.CameOn:
		o = remedy.Outcome{Reason: v1alpha1.ReasonPowerWasOff, Message: p.Message}
	case proof.NotTheMachine:
		o = remedy.Outcome{Reason: v1alpha1.ReasonRefused, Message: p.Message}
	case proof.NoAnswer:
		o = remedy.Outcome{Reason: v1alpha1.ReasonStartFailed, Message: p.Message}
	default: // NotConfirmed
		o = remedy.Outcome{Reason: v1alpha1.ReasonNotNeeded, Message: p.Message}
	}
	if p.Proof != nil {
		o.Message += ". " + p.Proof.String()
	}
	if t.gone {
		return t.unheard(ctx, o)
	}
	return t.conclude(ctx, t.action, o, v1alpha1.RemedyReboot)
}

// unheard logs an outcome that nobody can be told.
func (t *powerCycle) unheard(ctx context.Context, o remedy.Outcome) error {
	logr.FromContextOrDiscard(ctx).Info("Action was deleted before its result was written", "uid", t.action.UID, "reason", o.Reason, "message", clip(o.Message))
	return nil
}

// awaitBoot waits until the node has booted, or the step's timeout is over.
func (t *powerCycle) awaitBoot(ctx context.Context, p proof.Progress) (remedy.Outcome, error) {
	claim := t.action.Status.Claim
	end := claim.Time.Add(t.action.Spec.Timeout.Duration)
	for {
		node, err := t.API.Node(ctx, t.NodeName)
		if err != nil {
			return remedy.Outcome{}, err
		}
		if t.hasBooted(node) {
			return t.booted(node.Status.NodeInfo.BootID), nil
		}
		if !t.ServerClock.Now().Before(end) {
			why := "its power was switched off and on"
			if p.Message != "" {
				why = p.Message
			}
			return t.executed(v1alpha1.ReasonNotBack, fmt.Sprintf("%s, and %s after the claim the node is not back: look at its console", why, t.action.Spec.Timeout.Duration), ""), nil
		}
		if err := t.pause(ctx, bootPoll); err != nil {
			return remedy.Outcome{}, err
		}
	}
}

// booted is the outcome of a node that has booted.
func (t *powerCycle) booted(bootID string) remedy.Outcome {
	claim := t.action.Status.Claim
	return t.executed(v1alpha1.ReasonSucceeded, fmt.Sprintf("the node has booted: boot ID %s -> %s, %.0f s after the claim",
		claim.BootID, bootID, max(0, t.ServerClock.Since(claim.Time.Time).Seconds())), bootID)
}

// executed is an outcome after something was switched.
func (t *powerCycle) executed(reason, message, bootID string) remedy.Outcome {
	return remedy.Outcome{Reason: reason, Message: message, Result: &v1alpha1.ActionResult{
		Execution: v1alpha1.ExecutionPowerCycle, BootIDAfter: bootID,
		StartedAt: v1alpha1.NewMicroTime(t.action.Status.Claim.Time.Time), FinishedAt: v1alpha1.NewMicroTime(t.ServerClock.Now()),
	}}
}

func (w *Worker) pause(ctx context.Context, d time.Duration) error {
	timer := w.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
