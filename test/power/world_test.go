package power

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/outofservice"
	switches "github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/serverclock"
	"github.com/nodemend/nodemend/runner"
)

const (
	nodeName    = "worker-1"
	machineUUID = "4c4c4544-0032-3810-8052-b4c04f4a5731"
	volumeName  = "attachment-1"
)

var (
	start   = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	errDied = errors.New("the process has died")
)

// actor is a process, or a part of the world that acts by itself. One of them acts at a time: each
// call hands the turn back.
type actor struct {
	*world
	name  string
	wake  time.Time
	turn  chan struct{}
	dead  bool
	ended bool
	kill  context.CancelFunc
}

// world is the machine and all around it.
type world struct {
	*testing.T
	client.Client
	rand   *rand.Rand
	now    time.Time
	actors []*actor
	yield  chan struct{}
	story  []string
	bad    string
	events int // how many may still happen
	lives  int

	// The machine. podsOf is the boot in which the pod writes; 0: it does not.
	on       bool
	onAt     time.Time // when it was switched on; zero: long ago
	boot     int
	hung     bool
	kubelet  time.Time // when the kubelet of the boot says something; zero: never
	podsAt   time.Time // when it starts its pods
	podsOf   int
	bootTime time.Duration
	cutAt    time.Time
	shutAt   time.Time // when the operating system has shut down
	heard    time.Time // when the API server has last heard of the kubelet

	// The BMC. lied: it has said off of a machine that was on. One that restarts says nothing until silent, and then
	// off until blank, whatever is so: less than Plan.Settled.
	guid             switches.GUID
	lies, lied, dumb bool
	silent, blank    time.Time

	// persons: a person has set a taint, or taken one away.
	persons bool
	// seen are what has been reached.
	seen map[string]int
	// rack is what a world of maintenances has besides; nil: none.
	rack *rack
}

// boots are the boot IDs.
func bootID(boot int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000001", boot) }

func (w *world) note(format string, args ...any) {
	w.story = append(w.story, w.now.Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// broken notes that an invariant is violated.
func (w *world) broken(format string, args ...any) {
	w.note("BROKEN: "+format, args...)
	if w.bad == "" {
		w.bad = fmt.Sprintf(format, args...)
	}
}

func (w *world) reached(what string) { w.seen[what]++ }

// start has an actor act from now on.
func (w *world) start(name string, act func(ctx context.Context, a *actor)) {
	ctx, kill := context.WithCancel(w.Context())
	a := &actor{world: w, name: name, wake: w.now, turn: make(chan struct{}), kill: kill}
	w.actors = append(w.actors, a)
	go func() {
		<-a.turn
		defer func() {
			if r := recover(); r != nil {
				w.broken("%s panics: %v\n%s", name, r, debug.Stack())
			}
			a.ended = true
			w.yield <- struct{}{}
		}()
		act(ctx, a)
	}()
}

// sleep hands the turn to others, for so long at least.
func (a *actor) sleep(d time.Duration) {
	a.wake = a.now.Add(d)
	a.yield <- struct{}{}
	<-a.turn
}

// call is the beginning of each call of a process.
func (a *actor) call() error {
	d := time.Duration(1+a.rand.IntN(40)) * time.Millisecond
	if a.events > 0 {
		switch a.rand.IntN(120) {
		case 0:
			d = time.Duration(a.rand.IntN(40)) * time.Second
			a.note("%s is slow, for %s", a.name, d)
		case 1, 2:
			d = time.Duration(a.rand.IntN(4000)) * time.Millisecond
		}
	}
	a.sleep(d)
	if a.dead {
		return errDied
	}
	return nil
}

// run lets the actors act until all of those are done, or for so long.
func (w *world) run(long time.Duration, done func() bool) {
	for end := w.now.Add(long); w.now.Before(end) && w.bad == "" && !done(); {
		var ready []*actor
		next := end
		for _, a := range w.actors {
			switch {
			case a.ended:
			case !a.wake.After(w.now):
				ready = append(ready, a)
			case a.wake.Before(next):
				next = a.wake
			}
		}
		w.actors = slices.DeleteFunc(w.actors, func(a *actor) bool { return a.ended })
		if len(ready) == 0 {
			w.pass(next)
			continue
		}
		a := ready[w.rand.IntN(len(ready))]
		if w.rack != nil {
			w.rack.look()
		}
		a.turn <- struct{}{}
		<-w.yield
		if w.rack != nil {
			w.rack.look()
		}
	}
}

// stop ends all actors.
func (w *world) stop() {
	for _, a := range w.actors {
		a.dead = true
		a.kill()
	}
	for range 100000 {
		i := slices.IndexFunc(w.actors, func(a *actor) bool { return !a.ended })
		if i < 0 {
			return
		}
		w.actors[i].turn <- struct{}{}
		<-w.yield
	}
	w.Fatal("they do not end")
}

// pass lets the time pass, and the machine do what it does.
func (w *world) pass(to time.Time) {
	for _, at := range []time.Time{w.cutAt, w.shutAt, w.kubelet, w.podsAt} {
		if !at.IsZero() && at.After(w.now) && at.Before(to) {
			to = at
		}
	}
	w.now = to
	due := func(at *time.Time) bool {
		is := !at.IsZero() && !w.now.Before(*at)
		if is {
			*at = time.Time{}
		}
		return is
	}
	if due(&w.cutAt) {
		w.off("by the BMC")
	}
	if due(&w.shutAt) {
		w.off("by its operating system")
	}
	if due(&w.kubelet) && w.on {
		w.hung = false
		w.says()
		w.podsAt = w.now.Add(time.Duration(500+w.rand.IntN(3000)) * time.Millisecond)
	}
	if due(&w.podsAt) && w.on {
		w.startPods()
	}
}

func (w *world) off(by string) {
	if !w.on {
		return
	}
	w.note("the power is off, %s; boot %d is over", by, w.boot)
	w.on, w.podsOf, w.kubelet, w.podsAt, w.shutAt = false, 0, time.Time{}, time.Time{}, time.Time{}
	if w.rack != nil {
		w.rack.wentOff(by)
	}
}

func (w *world) switchOn(by string) {
	if w.on {
		return
	}
	w.on, w.onAt, w.hung, w.boot = true, w.now, true, w.boot+1
	w.bootTime = time.Duration(8+w.rand.IntN(60)) * time.Second
	w.kubelet = w.now.Add(w.bootTime)
	w.note("the power is on, %s; boot %d", by, w.boot)
	if w.rack != nil {
		w.rack.cameOn()
	}
}

// says has the kubelet write its Node.
func (w *world) says() {
	node := w.node()
	w.heard = w.now
	if node == nil {
		return
	}
	if is := readyOf(node); is.Status != corev1.ConditionTrue || node.Status.NodeInfo.BootID != bootID(w.boot) {
		if is.Status != corev1.ConditionTrue {
			is.LastTransitionTime = metav1.NewTime(w.now.Truncate(time.Second))
		}
		is.Status = corev1.ConditionTrue
		node.Status.NodeInfo.BootID = bootID(w.boot)
		w.must(w.Status().Update(w.Context(), node))
		w.note("the node is Ready, boot %d", w.boot)
	}
}

// startPods has the kubelet start what is bound to its node, as it sees that: no pod that is told to
// end, or that does not tolerate a taint.
func (w *world) startPods() {
	node, pod := w.node(), w.pod()
	if node == nil || pod == nil || pod.DeletionTimestamp != nil || slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }) {
		return
	}
	if !w.attached() {
		return
	}
	w.podsOf = w.boot
	w.note("the pod writes, in boot %d", w.boot)
}

func readyOf(node *corev1.Node) *corev1.NodeCondition { return &node.Status.Conditions[0] }

func (w *world) must(err error) {
	if err != nil {
		w.broken("the world itself: %v", err)
	}
}

// node returns the Node, nil if there is none.
func (w *world) node() *corev1.Node {
	var node corev1.Node
	switch err := w.Get(w.Context(), client.ObjectKey{Name: nodeName}, &node); {
	case apierrors.IsNotFound(err):
		return nil
	default:
		w.must(err)
		return &node
	}
}

func (w *world) pod() *corev1.Pod {
	var pod corev1.Pod
	if w.Get(w.Context(), client.ObjectKey{Namespace: "ns", Name: "db-0"}, &pod) != nil {
		return nil
	}
	return &pod
}

func (w *world) attached() bool {
	return w.Get(w.Context(), client.ObjectKey{Name: volumeName}, &storagev1.VolumeAttachment{}) == nil
}

func (w *world) action() *v1alpha1.NodeAction {
	var action v1alpha1.NodeAction
	if w.Get(w.Context(), client.ObjectKey{Name: "action"}, &action) != nil {
		return nil
	}
	return &action
}

// kubernetes is the node controller, the taint manager, the garbage collector of pods and
// attach-detach: they believe the taint blindly.
func kubernetes(_ context.Context, a *actor) {
	w := a.world
	var told, detachAt time.Time
	for {
		d := time.Duration(500+w.rand.IntN(3000)) * time.Millisecond
		if told.IsZero() { // nothing to do soon
			d *= 2
		}
		a.sleep(d)
		if a.dead {
			return
		}
		if w.on && !w.hung && w.kubelet.IsZero() {
			w.says()
		}
		node := w.node()
		if node == nil {
			continue
		}
		ready := readyOf(node)
		if ready.Status == corev1.ConditionTrue && w.now.Sub(w.heard) > 50*time.Second {
			ready.Status, ready.LastTransitionTime = corev1.ConditionUnknown, metav1.NewTime(w.now.Truncate(time.Second))
			w.must(w.Status().Update(w.Context(), node))
			w.note("the node is Unknown")
		}
		out := v1alpha1.IsOutOfService(node)
		pod := w.pod()
		switch {
		case pod != nil && out && told.IsZero():
			w.note("the pod is told to end")
			told = w.now
		case pod != nil && !told.IsZero() && w.now.Sub(told) > time.Duration(w.rand.IntN(30))*time.Second:
			// By podgc while the node is not Ready, by its kubelet if that runs.
			if ready.Status != corev1.ConditionTrue || w.on && !w.hung {
				if w.podsOf == w.boot && w.on && ready.Status == corev1.ConditionTrue {
					w.podsOf = 0 // the kubelet ends it
				}
				w.must(w.Delete(w.Context(), pod, client.GracePeriodSeconds(0)))
				w.note("the pod is gone, so it starts elsewhere")
				detachAt = w.now.Add(time.Duration(w.rand.IntN(5000)) * time.Millisecond)
			}
		case pod == nil && out && w.attached() && w.now.After(detachAt):
			if w.on && w.podsOf != 0 && !w.lied && !w.persons {
				w.broken("I10: the volume is torn from boot %d, in which the pod writes", w.podsOf)
			}
			w.must(w.Delete(w.Context(), &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: volumeName}}))
			w.note("the volume is detached, and attached elsewhere")
			w.reached("detached")
		}
	}
}

// look compares what the controller has written with the truth.
func (w *world) look(before, after *corev1.Node, by string) {
	if w.rack != nil && before.Spec.Unschedulable && !after.Spec.Unschedulable {
		w.rack.givenBack(by)
	}
	had, has := v1alpha1.IsOutOfService(before), v1alpha1.IsOutOfService(after)
	mark, _ := v1alpha1.OutOfServiceMarkOf(after)
	former, _ := v1alpha1.OutOfServiceMarkOf(before)
	switch {
	case !had && has:
		w.note("%s sets the taint: %s", by, mark)
		w.reached("set")
		proof, word := w.proofOf(mark), w.wordOf(mark)
		if word {
			w.reached("set by a word")
		}
		switch {
		case mark.BootID != before.Status.NodeInfo.BootID || w.rack == nil && mark.BootID != bootID(1):
			w.broken("I10: the taint is for boot %s", mark.BootID)
		case !word && (proof == nil || proof.BootID != mark.BootID):
			w.broken("I10: the taint is set without a proof")
		case w.on && mark.BootID == bootID(w.boot) && !w.lied:
			w.broken("I10: the taint is set, and boot %d runs", w.boot)
		case w.podsOf != 0 && !w.lied:
			w.broken("I10: the taint is set, and the pod writes in boot %d", w.podsOf)
		}
	case had && !has:
		w.note("%s takes the taint away", by)
		w.reached("taken away")
		switch {
		case before.Spec.Taints[0].Value == "nodeshutdown":
			w.broken("I3: a person's taint is taken away")
		case bootID(w.boot) == former.BootID || after.Status.NodeInfo.BootID == former.BootID:
			w.broken("the taint is taken away, and there was no newer boot")
		case w.rack != nil && w.rack.lasts(before):
			w.broken("the taint is taken away, and its maintenance has not ended")
		case readyOf(after).Status != corev1.ConditionTrue:
			w.broken("the taint is taken away from a node that is not Ready")
		case w.pod() != nil || w.attached():
			w.broken("the taint is taken away, and pod or volume of the boot before are left")
		}
	case had && has && !former.Moved && mark.Moved:
		if w.pod() != nil || w.attached() {
			w.broken("it is told that all has moved, and it has not")
		}
		w.reached("moved")
	case had && has && len(before.Spec.Taints) == len(after.Spec.Taints) && before.Spec.Taints[0].Value != after.Spec.Taints[0].Value:
		w.broken("I3: a taint is changed")
	}
}

// proofOf returns what the mark rests on, nil if there is none.
func (w *world) proofOf(mark v1alpha1.OutOfServiceMark) *v1alpha1.PowerProof {
	if name, is := mark.Maintenance(); is {
		var m v1alpha1.NodeMaintenance
		if w.Get(w.Context(), client.ObjectKey{Name: name}, &m) != nil || m.Status.Power == nil {
			return nil
		}
		return m.Status.Power.Proof
	}
	if action := w.action(); action != nil && action.Status.Power != nil {
		return action.Status.Power.Proof
	}
	return nil
}

// wordOf reports whether a person has given their word for the boot of the mark, or has taken it back so
// lately that the patch was on its way.
func (w *world) wordOf(mark v1alpha1.OutOfServiceMark) bool {
	var m v1alpha1.NodeMaintenance
	name, is := mark.Maintenance()
	if !is || w.rack == nil || w.Get(w.Context(), client.ObjectKey{Name: name}, &m) != nil {
		return false
	}
	at, back := w.rack.takenBack[name]
	return back && w.now.Sub(at) < 20*time.Second || m.Spec.MachineOff != nil && m.Spec.MachineOff.BootID == mark.BootID
}

// apiOf is the API server, as one controller sees it.
type apiOf struct {
	client.Client
	a *actor
}

func (c apiOf) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.a.call(); err != nil {
		return err
	}
	err := c.Client.Get(ctx, key, obj, opts...)
	if node, is := obj.(*corev1.Node); is && err == nil {
		c.a.trap(node)
	}
	return err
}

// held is how often the machine was read off since the proof.
func (w *world) held() int32 {
	if w.rack != nil {
		return w.rack.held()
	}
	if action := w.action(); action != nil && action.Status.Power != nil {
		return action.Status.Power.Held
	}
	return 0
}

// trap has somebody switch the machine on when a controller has just read what the taint depends on,
// and is slow from then on.
func (a *actor) trap(node *corev1.Node) {
	if a.events == 0 || a.on || v1alpha1.IsOutOfService(node) || a.held() < 2 || a.rand.IntN(15) > 0 {
		return
	}
	a.note("%s has read the node, and is slow", a.name)
	a.switchOn("by somebody, just now")
	a.kubelet = a.now.Add(time.Duration(5+a.rand.IntN(4)) * time.Second)
	a.sleep(time.Duration(4+a.rand.IntN(11)) * time.Second)
	a.reached("trapped")
}

func (c apiOf) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if err := c.a.call(); err != nil {
		return err
	}
	return c.Client.Delete(ctx, obj, opts...)
}

// Status returns the client of the status.
func (c apiOf) Status() client.SubResourceWriter { return statusOf{c.Client.Status(), c.a} }

type statusOf struct {
	client.SubResourceWriter
	a *actor
}

func (s statusOf) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if err := s.a.call(); err != nil {
		return err
	}
	return s.SubResourceWriter.Patch(ctx, obj, patch, opts...)
}

func (c apiOf) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.a.call(); err != nil {
		return err
	}
	return c.Client.List(ctx, list, opts...)
}

func (c apiOf) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	sent := c.a.now
	if err := c.a.call(); err != nil {
		return err
	}
	if c.a.now.Sub(sent) > 5*time.Second { // its context has ended
		return context.DeadlineExceeded
	}
	before := c.a.node()
	err := c.Client.Patch(ctx, obj, patch, opts...)
	if err != nil && strings.Contains(err.Error(), "testing") {
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), obj.GetName(), nil)
	}
	if after := c.a.node(); err == nil && before != nil && after != nil {
		c.a.look(before, after, c.a.name)
	}
	return err
}

// controller is a process of the controller that believes to lead.
func controller(ctx context.Context, a *actor) {
	api := apiOf{a.Client, a}
	r := &outofservice.Reconciler{
		Client: api, Live: api, Steady: func() time.Time { return a.now }, Now: func() time.Time { return a.now }, Events: events.NewFakeRecorder(10000),
		Pods: func(ctx context.Context, node string) ([]corev1.Pod, error) {
			var list corev1.PodList
			err := api.List(ctx, &list)
			return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.Spec.NodeName != node }), err
		},
	}
	r.Loop()
	for !a.dead {
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: nodeName}})
		wait := result.RequeueAfter
		if wait == 0 || err != nil || wait > 2*time.Second {
			wait = time.Duration(300+a.rand.IntN(2500)) * time.Millisecond // its events
		}
		if a.rack != nil && result.RequeueAfter == 0 && err == nil { // nothing to do, for hours
			wait *= 4
		}
		a.sleep(wait)
	}
}

// outside is what a process of the remote runner has to do with the world, by this switch.
func (a *actor) outside(by switches.Switch) runner.Outside {
	return runner.Outside{
		RunnerID: a.name, Switch: func(*corev1.Node) (switches.Switch, error) { return by, nil },
		Needed: func(node *corev1.Node) (*corev1.Node, error) {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, nil
		},
		Clock: clockOf{a: a}, ServerClock: serverclock.New(clockOf{a: a}), Events: record.NewFakeRecorder(10000),
	}
}

// remoteRunner is a process of the remote runner that leads.
func remoteRunner(ctx context.Context, a *actor) {
	w, err := runner.NewRemoteWorker(runner.RemoteWorkerOptions{
		Outside: a.outside(bmc{a}), API: remoteAPI{a}, Registry: prometheus.NewRegistry(),
	})
	a.must(err)
	for !a.dead {
		_ = w.Work(ctx, "action")
		a.sleep(time.Second)
	}
}

// clockOf lets who waits hand the turn back.
type clockOf struct {
	clock.WithTicker
	a *actor
}

func (c clockOf) Now() time.Time                  { return c.a.now }
func (c clockOf) Since(t time.Time) time.Duration { return c.a.now.Sub(t) }
func (c clockOf) NewTimer(d time.Duration) clock.Timer {
	c.a.sleep(d)
	fired := make(chan time.Time, 1)
	fired <- c.a.now
	return timer{c: fired}
}

type timer struct {
	clock.Timer
	c chan time.Time
}

func (t timer) C() <-chan time.Time { return t.c }
func (t timer) Stop() bool          { return false }

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{
		T: t, rand: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // the same each time
		now: start, yield: make(chan struct{}), on: true, boot: 1, hung: true, podsOf: 1, heard: start.Add(-10 * time.Minute), seen: map[string]int{}, events: 14,
	}
	machine, err := switches.ParseUUID(machineUUID)
	w.must(err)
	w.guid = switches.GUID(machine)
	scheme := runtime.NewScheme()
	w.must(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	step := v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle, OutOfService: true}, Timeout: v1alpha1.Duration{Duration: 20 * time.Minute}}
	hash, err := step.Hash()
	w.must(err)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "node-1"}}
	node.Spec.Unschedulable = true
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	node.Status.NodeInfo.BootID, node.Status.NodeInfo.SystemUUID = bootID(1), machineUUID
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.NodeAction{}).
		WithIndex(&v1alpha1.NodeAction{}, index.ActionsByNode, func(o client.Object) []string { return []string{o.(*v1alpha1.NodeAction).Spec.NodeName} }).
		WithIndex(&v1alpha1.NodeMaintenance{}, index.MaintenancesByNode, func(o client.Object) []string { return []string{o.(*v1alpha1.NodeMaintenance).Spec.NodeName} }).
		WithObjects(node,
			&v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "node-dead", UID: "policy-1"}, Spec: v1alpha1.RemedyPolicySpec{
				Match: []v1alpha1.ConditionMatch{{Type: "Ready", Status: corev1.ConditionUnknown}}, Steps: []v1alpha1.Step{step},
			}},
			&v1alpha1.Remediation{
				ObjectMeta: metav1.ObjectMeta{Name: "incident", UID: "remediation-1"},
				Spec:       v1alpha1.RemediationSpec{NodeName: nodeName, NodeUID: "node-1", Steps: []v1alpha1.Step{step}},
				Status:     v1alpha1.RemediationStatus{Action: "action"},
			},
			&v1alpha1.NodeAction{
				ObjectMeta: metav1.ObjectMeta{Name: "action", UID: "action-1", Finalizers: []string{v1alpha1.PowerFinalizer}},
				Spec: v1alpha1.NodeActionSpec{
					NodeName: nodeName, NodeUID: "node-1", Executor: v1alpha1.ExecutorRemote, Remediation: "incident", RemediationUID: "remediation-1",
					Policy: v1alpha1.PolicyReference{Name: "node-dead", UID: "policy-1"}, StepHash: hash, Step: 1, Attempt: 1,
					Timeout: step.Timeout, ExpiresAt: metav1.NewTime(start.Add(time.Minute)),
				},
			},
		).WithObjects(podAndVolume()...).Build()
	return w
}

// podAndVolume are a pod that writes to a volume, on the node.
func podAndVolume() []client.Object {
	return []client.Object{
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db-0"}, Spec: corev1.PodSpec{NodeName: nodeName}},
		&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: volumeName}, Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "driver", NodeName: nodeName, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv-1")},
		}},
	}
}
