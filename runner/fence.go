package runner

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/serverclock"
)

const (
	// fenceEvery is how often each switch is asked whether it would do.
	fenceEvery = time.Hour
	// fenceAgain is when one is asked again that did not do: then after as long as it has not, up
	// to fenceEvery.
	fenceAgain = 5 * time.Minute
	// fenceLogin is how long one is left alone, in the end, that refuses the login. BMCs lock out who
	// tries too often.
	fenceLogin = 24 * time.Hour
	// fenceAsked is how often people may have a switch asked.
	fenceAsked = time.Minute
	// fenceStart is the time over which all nodes are looked at once, after a start.
	fenceStart = 10 * time.Minute
	// fencesAtOnce is how many switches are asked at a time. Most answer within a second.
	fencesAtOnce = 16
	// settlesAtOnce is of how many it is settled at a time whether they say off for long enough, each for settleTime at
	// most: they are asked each stepTime. The others are asked again after fenceAgain.
	settlesAtOnce = 32
	settleTime    = 10 * time.Minute
)

// FenceAPI is what a FenceWorker asks and tells the API server.
type FenceAPI interface {
	// Node returns the node, live; nil: there is none.
	Node(ctx context.Context, name string) (*corev1.Node, error)
	// WriteCondition writes one condition of the node, and nothing else of it.
	WriteCondition(ctx context.Context, node *corev1.Node, c corev1.NodeCondition) error
}

// FenceWorkerOptions are what a FenceWorker has to do with the world. All are required.
type FenceWorkerOptions struct {
	API FenceAPI
	// Switch is as in RemoteWorkerOptions.
	Switch func(*corev1.Node) (power.Switch, error)
	// Busy reports whether something is under way with the node's machine. Then its switch is not
	// asked.
	Busy func(node string) bool
	// ServerClock tells when: others compare it.
	ServerClock *serverclock.Clock
	// Registry takes the metrics.
	Registry prometheus.Registerer
}

// FenceWorker asks the switch of each node now and then whether it would do, and has the node's
// condition Fenceable say so. It switches nothing. When it is asked again follows from the condition,
// so a process that begins goes on where the one before has ended, and resets nothing.
type FenceWorker struct {
	FenceWorkerOptions
	checks *prometheus.CounterVec
	// nodes are what is kept of all nodes, by nodeNeeded.
	nodes cache.Indexer

	mu    sync.Mutex
	known map[string]fenceCheck // by the name of the node
}

// fenceCheck is what this process knows of a node's checks.
type fenceCheck struct {
	// found is what came of the last one, by which its switch was asked. Zero: not by this process.
	found corev1.NodeCondition
	// node and machine are whose switch that was.
	node    types.UID
	machine string
	// doubted: the last check did not do, and the node's condition says nothing of it: a second one
	// has to say so, too.
	doubted bool
	// read is what was read since the switch says off, and settling since when that is not believed yet: it may have
	// restarted, and say so of a machine that runs. Zero: it is no question. forPeople: they have asked.
	read      readings
	settling  time.Time
	forPeople bool
	// asked is the last value of the annotation that was heeded.
	asked string
}

// byMachine is the index of nodes by their systemUUID.
const byMachine = "machine"

// fenceIndexers are those of the nodes.
func fenceIndexers() cache.Indexers {
	return cache.Indexers{byMachine: func(obj any) ([]string, error) {
		if node, is := obj.(*corev1.Node); is {
			if machine, err := power.ParseUUID(node.Status.NodeInfo.SystemUUID); err == nil {
				return []string{machine.String()}, nil
			}
		}
		return nil, nil
	}}
}

// NewFenceWorker returns a FenceWorker. It fails if its metrics are registered already.
func NewFenceWorker(o FenceWorkerOptions) (*FenceWorker, error) {
	checks := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "nodemend_runner_fence_checks_total",
		Help: "How often switches of nodes were asked whether they would do, by what came of it: the reason of the condition Fenceable.",
	}, []string{"reason"})
	if err := o.Registry.Register(checks); err != nil {
		return nil, fmt.Errorf("registering the runner's metrics: %w", err)
	}
	return &FenceWorker{FenceWorkerOptions: o, checks: checks, nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, fenceIndexers()), known: map[string]fenceCheck{}}, nil
}

// watch returns an informer that keeps the nodes, and queues them: each one after a start, and at once
// those that people ask for, and those that are gone, or of another machine.
func (w *FenceWorker) watch(nodes cache.ListerWatcher, q queue) cache.Controller {
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: nodes,
		ObjectType:    &corev1.Node{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				node, is := obj.(*corev1.Node)
				switch {
				case !is:
				case wantsCheck(node):
					q.Add(node.Name)
				default:
					q.AddAfter(node.Name, spread(node.Name, 0, fenceStart))
				}
			},
			UpdateFunc: func(before, now any) {
				old, is := before.(*corev1.Node)
				node, are := now.(*corev1.Node)
				if is && are && (old.Annotations[v1alpha1.FenceCheckAnnotation] != node.Annotations[v1alpha1.FenceCheckAnnotation] ||
					old.UID != node.UID || old.Status.NodeInfo.SystemUUID != node.Status.NodeInfo.SystemUUID) {
					q.Add(node.Name)
				}
			},
			DeleteFunc: func(obj any) {
				if node, err := cache.DeletionHandlingObjectToName(obj); err == nil {
					q.Add(node.Name)
				}
			},
		},
		Indexers:  fenceIndexers(),
		Transform: nodeNeeded,
	})
	if indexer, is := store.(cache.Indexer); is {
		w.nodes = indexer
	}
	return controller
}

// nodeNeeded keeps of a Node what a FenceWorker needs of all of them, so that thousands take little
// memory.
func nodeNeeded(obj any) (any, error) {
	node, is := obj.(*corev1.Node)
	if !is {
		return obj, nil
	}
	slim := &corev1.Node{}
	slim.Name, slim.UID, slim.ResourceVersion = node.Name, node.UID, node.ResourceVersion
	slim.Status.NodeInfo.SystemUUID = node.Status.NodeInfo.SystemUUID
	if asked, is := node.Annotations[v1alpha1.FenceCheckAnnotation]; is {
		slim.Annotations = map[string]string{v1alpha1.FenceCheckAnnotation: asked}
	}
	if c := v1alpha1.FindNodeCondition(node, v1alpha1.NodeFenceable); c != nil {
		kept := *c
		kept.Message = ""
		slim.Status.Conditions = []corev1.NodeCondition{kept}
	}
	return slim, nil
}

// wantsCheck reports whether people have asked for a check since the last one that the node tells of.
func wantsCheck(kept *corev1.Node) bool {
	value, is := kept.Annotations[v1alpha1.FenceCheckAnnotation]
	at, err := time.Parse(time.RFC3339, value)
	c := v1alpha1.FindNodeCondition(kept, v1alpha1.NodeFenceable)
	return is && (c == nil || err != nil || at.After(c.LastHeartbeatTime.Time))
}

// spread returns a time from least to most that is the same for a node each time, and another one for
// most others: so thousands are not asked at the same moment.
func spread(name string, least, most time.Duration) time.Duration {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name))
	return least + time.Duration(float64(most-least)*float64(sum.Sum32())/math.MaxUint32)
}

// Work checks a node if that is due. It returns after how long to look again; 0: never, since there is
// no such node.
func (w *FenceWorker) Work(ctx context.Context, name string) (again time.Duration, err error) {
	obj, exists, err := w.nodes.GetByKey(name)
	kept, is := obj.(*corev1.Node)
	if err != nil || !exists || !is {
		w.forget(name)
		return 0, err
	}
	known := w.recall(name)
	wait, asked := known.wait(kept, w.ServerClock.Now())
	if wait > 0 {
		return wait, nil
	}
	if w.Busy(name) {
		return fenceAgain, nil
	}
	node, err := w.API.Node(ctx, name)
	if err != nil || node == nil {
		return 0, err
	}
	begun := w.ServerClock.Now()
	found := w.look(ctx, node)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	w.checks.WithLabelValues(found.Reason).Inc()
	before := v1alpha1.FindNodeCondition(node, v1alpha1.NodeFenceable)
	now := metav1.NewTime(w.ServerClock.Now())
	found.Type, found.LastHeartbeatTime, found.LastTransitionTime = v1alpha1.NodeFenceable, now, now
	if before != nil && before.Status == found.Status {
		found.LastTransitionTime = before.LastTransitionTime
	}
	asked = asked || !known.settling.IsZero() && known.forPeople
	twice := known.doubted && known.found.Reason != v1alpha1.FenceAnswersOff
	doubted := !asked && !twice && mayPass(found.Reason) && (before == nil || before.Status != corev1.ConditionFalse)
	read, settling := readings{}, time.Time{}
	if found.Reason == v1alpha1.FenceAnswersOff && (before == nil || before.Reason != v1alpha1.FenceAnswersOff) {
		if known.node == kept.UID && known.machine == kept.Status.NodeInfo.SystemUUID {
			read, settling = known.read, known.settling
		}
		// The message names the switch.
		doubted = read.saw(found.Message, begun, now.Time, power.Reading{Power: power.Off}, nil) != ""
		switch {
		case !doubted, settling.IsZero() && w.settling() >= settlesAtOnce, !settling.IsZero() && now.Sub(settling) > settleTime:
			settling = time.Time{}
		case settling.IsZero():
			settling = now.Time
		}
	}
	known = fenceCheck{
		found: found, node: kept.UID, machine: kept.Status.NodeInfo.SystemUUID, doubted: doubted, read: read, settling: settling, forPeople: asked, asked: kept.Annotations[v1alpha1.FenceCheckAnnotation],
	}
	w.remember(name, known)
	log := logr.FromContextOrDiscard(ctx).WithValues("node", name, "reason", found.Reason, "message", found.Message)
	if !doubted {
		// Another try would ask the switch again: it is not asked more often because the API server
		// does not take the answer.
		if err := w.API.WriteCondition(ctx, node, found); err != nil {
			log.Error(err, "Whether the node can be fenced could not be told")
		}
		if before == nil || before.Status != found.Status || before.Reason != found.Reason {
			log.Info("Whether the node can be fenced", "fenceable", found.Status)
		}
	}
	wait, _ = known.wait(kept, now.Time)
	return wait, nil
}

// wait returns how long the next check of a node takes yet, 0: it is due; and whether it is asked for: by
// people, or since it is another machine.
func (k *fenceCheck) wait(kept *corev1.Node, now time.Time) (time.Duration, bool) {
	last := k.found
	if c := v1alpha1.FindNodeCondition(kept, v1alpha1.NodeFenceable); last.Type == "" && c != nil {
		last = *c
	}
	asked := wantsCheck(kept)
	if k.found.Type != "" { // by this process, which has no need to compare clocks
		value := kept.Annotations[v1alpha1.FenceCheckAnnotation]
		asked = value != "" && value != k.asked || k.node != kept.UID || k.machine != kept.Status.NodeInfo.SystemUUID
	}
	if last.Type == "" { // never, as far as anybody knows
		return 0, asked
	}
	every := fenceEvery
	age := last.LastHeartbeatTime.Sub(last.LastTransitionTime.Time)
	switch {
	case !k.settling.IsZero():
		return max(0, stepTime-max(0, now.Sub(last.LastHeartbeatTime.Time))), asked
	case k.doubted:
		every = fenceAgain
	case last.Status == corev1.ConditionTrue || last.Reason == v1alpha1.FenceNoSwitch:
	case last.Reason == v1alpha1.FenceLoginRefused:
		every = min(max(age, fenceEvery), fenceLogin)
	default:
		every = min(max(age, fenceAgain), fenceEvery)
	}
	every = spread(kept.Name, every*9/10, every*11/10)
	switch {
	case asked && last.Reason == v1alpha1.FenceLoginRefused:
		every = min(every, fenceAgain)
	case asked:
		every = min(every, fenceAsked)
	}
	since := now.Sub(last.LastHeartbeatTime.Time)
	if since < -time.Minute { // the clock was set, or the kubelet's rights were used to write it
		return 0, asked
	}
	return max(0, every-max(0, since)), asked
}

// mayPass reports whether it is no more than a moment's trouble, as far as one check can tell: a BMC
// restarts, a node was shut down just now.
func mayPass(reason string) bool {
	switch reason {
	case v1alpha1.FenceNoAnswer, v1alpha1.FenceReadsOff, v1alpha1.FenceCheckFailed:
		return true
	}
	return false
}

// look asks the switch of the node, and returns what came of it.
func (w *FenceWorker) look(ctx context.Context, node *corev1.Node) corev1.NodeCondition {
	machine, err := power.ParseUUID(node.Status.NodeInfo.SystemUUID)
	if err != nil {
		return notFenceable(v1alpha1.FenceMachineUnknown, "the node's systemUUID: %v", err)
	}
	if other := w.twin(node.Name, machine); other != "" {
		return notFenceable(v1alpha1.FenceMachineUnknown, "node %s has the systemUUID %s, too, so nobody can tell which of the two is switched", other, machine)
	}
	found, err := w.Switch(node)
	switch {
	case errors.Is(err, power.ErrNoSwitch):
		return notFenceable(v1alpha1.FenceNoSwitch, "%v", err)
	case err != nil:
		return notFenceable(reasonOf(err), "%v", err)
	}
	reading, err := call(ctx, func(ctx context.Context) (power.Reading, error) { return found.Read(ctx, machine) })
	if err == nil {
		err = power.Check(reading.GUID, machine)
	}
	if err != nil {
		return notFenceable(reasonOf(err), "%v", err)
	}
	switch {
	case reading.Power == power.Changing:
		return notFenceable(v1alpha1.FenceReadsOff, "%s says that the power is %s, which is neither on nor off, so nothing would be switched", found, reading.Power)
	case reading.Power == power.Off && isReady(node):
		// It was read a while ago.
		live, err := w.API.Node(ctx, node.Name)
		switch {
		case err != nil:
			return notFenceable(v1alpha1.FenceReadsOff, "%s says that the power is %s, and whether the node is Ready is not known: %v", found, reading.Power, err)
		case live != nil && isReady(live):
			return notFenceable(v1alpha1.FenceReadsOff, "%s says that the power is %s, and the node is Ready: it does not tell the truth", found, reading.Power)
		}
	}
	message := fmt.Sprintf("%s answers, and is that of the node's machine", found)
	if reading.Reported {
		message += "; it frees no pods and volumes, since it does not say when the power was read"
	}
	reason := v1alpha1.FenceAnswers
	if reading.Power == power.Off {
		reason = v1alpha1.FenceAnswersOff
	}
	return corev1.NodeCondition{Status: corev1.ConditionTrue, Reason: reason, Message: clip(message)}
}

// twin returns the name of another node whose systemUUID a switch can't tell from this machine's; "":
// there is none.
func (w *FenceWorker) twin(name string, machine power.UUID) string {
	for _, alike := range machine.Alike() {
		names, err := w.nodes.IndexKeys(byMachine, alike.String())
		if err != nil {
			continue // there is this index
		}
		for _, other := range names {
			if other != name {
				return other
			}
		}
	}
	return ""
}

// reasonOf is the reason of a node whose switch has answered with this error.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, power.ErrLogin):
		return v1alpha1.FenceLoginRefused
	case errors.Is(err, power.ErrOtherMachine):
		return v1alpha1.FenceOtherMachine
	case errors.Is(err, power.ErrNoIdentity):
		return v1alpha1.FenceMachineUnknown
	case errors.Is(err, power.ErrNoAnswer), errors.Is(err, context.DeadlineExceeded):
		return v1alpha1.FenceNoAnswer
	default:
		return v1alpha1.FenceCheckFailed
	}
}

func notFenceable(reason, format string, args ...any) corev1.NodeCondition {
	return corev1.NodeCondition{Status: corev1.ConditionFalse, Reason: reason, Message: clip(fmt.Sprintf(format, args...))}
}

func (w *FenceWorker) recall(name string) fenceCheck {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[name]
}

func (w *FenceWorker) remember(name string, is fenceCheck) {
	w.mu.Lock()
	defer w.mu.Unlock()
	is.found.Message = ""
	w.known[name] = is
}

// settling returns of how many nodes it is being settled whether they are off.
func (w *FenceWorker) settling() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, known := range w.known {
		if !known.settling.IsZero() {
			n++
		}
	}
	return n
}

func (w *FenceWorker) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, name)
}
