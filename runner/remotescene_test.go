package runner

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
	"github.com/nodemend/nodemend/internal/serverclock"
)

const machineUUID = "4c4c4544-0032-3810-8052-b4c04f4a5731"

// deadNode is a machine that hangs, its BMC, and an API server with an action for it. It is the
// clock, too: who waits lets the time pass. It breaks the test when power is cut against I11.
type deadNode struct {
	*testing.T
	now time.Time
	// holder is who goes on with the action, since takenAt.
	holder  string
	takenAt time.Time

	// twin is another node of the same systemUUID.
	twin string

	// The machine.
	on     bool
	boot   int         // that which runs, or ran last
	hung   bool        // the boot does not answer
	upAt   time.Time   // when a boot answers
	wokeAt time.Time   // since when it does
	cutAt  time.Time   // when an off takes effect that has reached the BMC
	late   []time.Time // when offs reach it that are on their way
	ours   int         // the boot that was begun by an on
	offs   int
	ons    int
	cuts   []int // the boots that were cut
	events []string

	// The BMC.
	guid     power.GUID
	readErr  error
	offErr   error
	onErr    error         // it has no effect, either
	deaf     bool          // it acknowledges, and does nothing
	lies     bool          // it says off of what is on
	onTheWay time.Duration // how long an off takes to reach it
	delay    time.Duration // of an off
	bootTime time.Duration // 0: it never boots

	// What the API server has. Of the node and its Lease it has what the machine has said.
	action      *v1alpha1.NodeAction
	remediation *v1alpha1.Remediation
	policy      *v1alpha1.RemedyPolicy
	pause       *v1alpha1.RemediationBudget
	// asked is what has asked for the remediation.
	asked    *v1alpha1.NodemendRemediation
	holds    Holds
	nodeGone bool
	nodeUID  types.UID
	said     int // the boot that it said last
	heard    time.Time
	taints   []corev1.Taint
	mark     string // of the taint out-of-service

	// slow returns why nobody is told what became of a write; nil: it arrives. The first such one is onItsWay.
	slow     func(*v1alpha1.NodeAction) error
	onItsWay *v1alpha1.NodeAction

	// happens is called before each call, and may change anything.
	calls   int
	happens func(call int)
	// mayCut says what forbids to cut the power now; "": nothing. Nil: nothing ever does.
	mayCut func() string
	// died: every call of this process fails, without an effect; lost: only its answer is.
	died bool
	lost bool
	kill context.CancelFunc // ends the process that runs
}

var errDied = errors.New("the runner has died")

func newDeadNode(t *testing.T) *deadNode {
	t.Helper()
	d := &deadNode{T: t, now: testNow, on: true, boot: 1, said: 1, hung: true, heard: testNow.Add(-10 * time.Minute), bootTime: 30 * time.Second, nodeUID: "node-1"}
	machine, err := power.ParseUUID(machineUUID)
	must(t, err)
	d.guid = power.GUID(power.GUID(machine).In(power.SMBIOS))
	d.policy = &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "node-dead", UID: "policy-1"},
		Spec: v1alpha1.RemedyPolicySpec{
			Match: []v1alpha1.ConditionMatch{{Type: "Ready", Status: corev1.ConditionUnknown}},
			Steps: []v1alpha1.Step{{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}, Timeout: v1alpha1.Duration{Duration: 15 * time.Minute}}},
		},
	}
	d.remediation = &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: "incident", UID: "remediation-1"},
		Spec:       v1alpha1.RemediationSpec{Steps: d.policy.Spec.Steps},
		Status:     v1alpha1.RemediationStatus{Action: "action"},
	}
	d.action = &v1alpha1.NodeAction{
		ObjectMeta: metav1.ObjectMeta{Name: "action", UID: "action-1", ResourceVersion: "1", Finalizers: []string{v1alpha1.PowerFinalizer}},
		Spec: v1alpha1.NodeActionSpec{
			NodeName: "worker-1", NodeUID: "node-1", Executor: v1alpha1.ExecutorRemote,
			Remediation: "incident", RemediationUID: "remediation-1", Step: 1, Attempt: 1,
			Policy:   v1alpha1.PolicyReference{Name: "node-dead", UID: "policy-1"},
			StepHash: hashOf(t, &d.policy.Spec.Steps[0]), Timeout: v1alpha1.Duration{Duration: 15 * time.Minute},
			ExpiresAt: metav1.NewTime(testNow.Add(time.Minute)),
		},
	}
	return d
}

// worker is a remote runner in a process of its own.
func (d *deadNode) worker(id string) *RemoteWorker {
	d.Helper()
	w, err := NewRemoteWorker(RemoteWorkerOptions{
		API: d, Registry: prometheus.NewRegistry(), Outside: Outside{RunnerID: id, Switch: func(node *corev1.Node) (power.Switch, error) {
			if node.Name != "worker-1" || node.Labels["rack"] != "7" || len(node.Labels) != 1 {
				return nil, fmt.Errorf("no switch of %s with %v", node.Name, node.Labels)
			}
			return bmcOf{d, id}, nil
		},
			Needed: func(node *corev1.Node) (*corev1.Node, error) {
				return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: map[string]string{"rack": node.Labels["rack"]}}}, nil
			},
			Clock: fakeClock{deadNode: d}, ServerClock: serverclock.New(fakeClock{deadNode: d}),
			Events: record.NewFakeRecorder(1000),
		},
	})
	must(d.T, err)
	return w
}

// run has a process work on the action until it is done, or dies.
func (d *deadNode) run(w *RemoteWorker) error {
	ctx, kill := context.WithCancel(d.Context())
	outer := d.kill
	d.kill = kill
	defer func() {
		kill()
		d.kill = outer
	}()
	return w.Work(ctx, "action")
}

// outcome is the reason of the end of the action.
func (d *deadNode) outcome() string {
	if d.action == nil {
		return "deleted"
	}
	if f := d.action.Finished(); f != nil {
		return f.Reason
	}
	return ""
}

// work has processes work on the action until it has ended, one after the other: each goes on
// until it dies, or waits for nothing but another try.
func (d *deadNode) work() {
	d.Helper()
	w := d.worker("runner-0")
	for tries := 0; d.outcome() == ""; tries++ {
		if tries > 50 {
			d.Fatalf("it does not end: %+v", d.action.Status)
		}
		err := d.run(w)
		if d.died {
			d.died = false
			d.note("the runner has died")
			w = d.worker("runner-" + strconv.Itoa(tries+1))
		}
		if err != nil {
			d.pass(time.Second)
		}
	}
}

func (d *deadNode) note(format string, args ...any) {
	d.events = append(d.events, d.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

// pass lets time pass.
func (d *deadNode) pass(by time.Duration) {
	end := d.now.Add(by)
	if !d.cutAt.IsZero() && !end.Before(d.cutAt) {
		d.now, d.cutAt = d.cutAt, time.Time{}
		d.cut()
	}
	for len(d.late) > 0 && !end.Before(d.late[0]) {
		d.now, d.late = d.late[0], d.late[1:]
		d.cut()
	}
	d.now = end
	if d.on && !d.upAt.IsZero() && !d.now.Before(d.upAt) {
		d.wake()
	}
	if d.on && !d.hung {
		d.said, d.heard = d.boot, d.now
	}
}

func (d *deadNode) cut() {
	if d.on && d.boot == d.ours {
		d.Errorf("the boot that was begun by switching on is cut\n%s", d.story())
	}
	if d.on {
		d.cuts = append(d.cuts, d.boot)
	}
	d.on, d.upAt = false, time.Time{}
	d.note("the power is off")
}

func (d *deadNode) switchOn() {
	if d.on {
		return
	}
	d.on, d.hung, d.boot = true, true, d.boot+1
	if d.bootTime > 0 {
		d.upAt = d.now.Add(d.bootTime)
	}
	d.note("the power is on, boot %d", d.boot)
}

// call is the beginning of each call of the process.
func (d *deadNode) call() error {
	d.pass(20 * time.Millisecond)
	d.calls++
	d.lost = false
	if d.happens != nil {
		d.happens(d.calls)
	}
	if d.died && d.kill != nil {
		d.kill()
	}
	if d.died && !d.lost {
		return errDied
	}
	return nil
}

// answer is the end of a call that has had its effect.
func (d *deadNode) answer() error {
	if d.died {
		return errDied
	}
	return nil
}

// look is a call that reads.
func look[T any](d *deadNode, object *T, there bool, deepCopy func(*T) *T) (*T, error) {
	if err := errors.Join(d.call(), d.answer()); err != nil {
		return nil, err
	}
	if !there {
		return nil, nil
	}
	return deepCopy(object), nil
}

// Action implements API.
func (d *deadNode) Action(context.Context, string) (*v1alpha1.NodeAction, error) {
	if err := errors.Join(d.call(), d.answer()); err != nil || d.action == nil {
		return nil, err
	}
	return d.action.DeepCopy(), nil
}

// Remediation implements API.
func (d *deadNode) Remediation(context.Context, string) (*v1alpha1.Remediation, error) {
	return look(d, d.remediation, d.remediation != nil, (*v1alpha1.Remediation).DeepCopy)
}

// Policy implements API.
func (d *deadNode) Policy(context.Context, string) (*v1alpha1.RemedyPolicy, error) {
	return look(d, d.policy, d.policy != nil, (*v1alpha1.RemedyPolicy).DeepCopy)
}

// Budget implements API.
func (d *deadNode) Budget(context.Context, string) (*v1alpha1.RemediationBudget, error) {
	return look(d, d.pause, d.pause != nil, (*v1alpha1.RemediationBudget).DeepCopy)
}

// Request implements API.
func (d *deadNode) Request(context.Context, *v1alpha1.Request) (*v1alpha1.NodemendRemediation, error) {
	return look(d, d.asked, d.asked != nil, (*v1alpha1.NodemendRemediation).DeepCopy)
}

// Node implements API.
func (d *deadNode) Node(context.Context, string) (*corev1.Node, error) {
	if err := errors.Join(d.call(), d.answer()); err != nil || d.nodeGone {
		return nil, err
	}
	status := corev1.ConditionTrue
	if d.now.Sub(d.heard) > v1alpha1.Silence {
		status = corev1.ConditionUnknown
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", UID: d.nodeUID, Labels: map[string]string{"rack": "7", "other": "label"}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	node.Spec.Taints, node.Spec.Unschedulable = d.taints, true
	if d.mark != "" {
		node.Annotations = map[string]string{v1alpha1.OutOfServiceAnnotation: d.mark}
	}
	node.Status.NodeInfo.BootID, node.Status.NodeInfo.SystemUUID = fmt.Sprintf("boot-%d", d.said), machineUUID
	return node, nil
}

// Holds implements RemoteAPI.
func (d *deadNode) Holds(context.Context, string) (Holds, error) {
	return d.holds, errors.Join(d.call(), d.answer())
}

// deleteAction is how somebody deletes it: as long as a machine is off by it, its finalizer keeps it.
func (d *deadNode) deleteAction() {
	if d.action == nil || !deadline.MayBeOff(d.action, d.now) {
		d.action = nil
		return
	}
	version, err := strconv.Atoi(d.action.ResourceVersion)
	must(d.T, err)
	d.action.DeletionTimestamp, d.action.ResourceVersion = &metav1.Time{Time: d.now}, strconv.Itoa(version+1)
}

// Twin implements RemoteAPI.
func (d *deadNode) Twin(context.Context, string, power.UUID) (string, error) {
	return d.twin, errors.Join(d.call(), d.answer())
}

// Ready implements RemoteAPI.
func (d *deadNode) Ready(context.Context, []string, types.UID) (int32, error) {
	return 0, errors.Join(d.call(), d.answer())
}

// Lease implements RemoteAPI.
func (d *deadNode) Lease(context.Context, string) (*coordinationv1.Lease, error) {
	if err := errors.Join(d.call(), d.answer()); err != nil {
		return nil, err
	}
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: d.heard}}}}}, nil
}

// UpdateStatus implements API.
func (d *deadNode) UpdateStatus(_ context.Context, action *v1alpha1.NodeAction) error {
	if err := d.call(); err != nil {
		return err
	}
	if d.slow != nil {
		first := d.onItsWay == nil
		if err := d.slow(action); err != nil {
			d.note("%v: %+v", err, action.Status)
			if first {
				d.onItsWay = action.DeepCopy()
			}
			d.pass(requestTimeout)
			return err
		}
	}
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodeactions"}, action.Name, errors.New("it has changed"))
	switch {
	case d.action == nil || d.action.UID != action.UID:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodeactions"}, action.Name)
	case d.action.ResourceVersion != action.ResourceVersion:
		return conflict
	}
	version, err := strconv.Atoi(d.action.ResourceVersion)
	must(d.T, err)
	d.action = action.DeepCopy()
	d.action.ResourceVersion = strconv.Itoa(version + 1)
	if p := d.action.Status.Power; p != nil {
		if d.holder != p.RunnerID {
			d.holder, d.takenAt = p.RunnerID, d.now
		}
		d.note("kept by %s: %s %s %d", p.RunnerID, p.Phase, p.Outcome, p.Held)
	}
	if err := d.answer(); err != nil {
		return err
	}
	action.ResourceVersion = d.action.ResourceVersion
	return nil
}

// bmcOf is the BMC, as one of the processes asks it.
type bmcOf struct {
	d  *deadNode
	id string
}

// Read implements power.Switch.
func (b bmcOf) Read(_ context.Context, machine power.UUID) (r power.Reading, err error) {
	if err := errors.Join(b.d.call(), b.d.answer()); err != nil {
		return r, err
	}
	b.d.pass(50 * time.Millisecond)
	if b.d.readErr != nil {
		b.d.pass(proof.CallTimeout)
		return r, b.d.readErr
	}
	r = power.Reading{GUID: b.d.guid, Power: power.Off}
	if b.d.on && !b.d.lies {
		r.Power = power.On
	}
	return r, power.Check(r.GUID, machine)
}

// Off implements power.Switch.
func (b bmcOf) Off(ctx context.Context, machine power.UUID, still power.Still) error {
	d := b.d
	begun := d.now
	if err := d.call(); err != nil {
		return err
	}
	if err := still.Holds(ctx); err != nil {
		return err
	}
	switch {
	case d.now.Sub(begun) > proof.CallTimeout: // its context has ended
		return power.ErrNoAnswer
	case power.Check(d.guid, machine) != nil:
		return power.Check(d.guid, machine)
	case d.action != nil && (d.action.Status.Claim == nil || d.action.Status.Power == nil || d.action.Status.Power.Phase != string(proof.Cutting)):
		d.Errorf("power is cut, and nobody has said so before: %+v\n%s", d.action.Status, d.story())
	case d.holder != b.id && d.now.Sub(d.takenAt) > proof.Straggle:
		d.Errorf("power is cut by %s, and %s goes on with the action since %s\n%s", b.id, d.holder, d.takenAt, d.story())
	case d.on && !d.hung && d.now.Sub(d.wokeAt) > 6*time.Second: // what is older is not acted on
		d.Errorf("the power of a node is cut that answers since %s\n%s", d.wokeAt, d.story())
	}
	d.mayAct()
	if d.mayCut != nil && d.mayCut() != "" {
		d.Errorf("power is cut, and %s\n%s", d.mayCut(), d.story())
	}
	d.offs++
	d.note("off, by %s", b.id)
	switch {
	case d.onTheWay > 0:
		d.late = append(d.late, d.now.Add(d.onTheWay))
	case d.deaf, !d.cutAt.IsZero():
	case d.delay > 0:
		d.cutAt = d.now.Add(d.delay)
	default:
		d.cutAt = d.now.Add(100 * time.Millisecond)
	}
	return errors.Join(d.offErr, d.answer())
}

// mayAct breaks the test if a write may still arrive that forbids what is done.
func (d *deadNode) mayAct() {
	if d.onItsWay != nil && d.action != nil && d.onItsWay.ResourceVersion == d.action.ResourceVersion {
		d.Errorf("it acts, and a write is on its way that forbids it\n%s", d.story())
	}
}

// wake lets the node answer.
func (d *deadNode) wake() {
	d.hung, d.wokeAt, d.upAt = false, d.now, time.Time{}
	d.note("boot %d answers", d.boot)
}

// On implements power.Switch.
func (b bmcOf) On(_ context.Context, machine power.UUID, _ power.Still) error {
	if err := b.d.call(); err != nil {
		return err
	}
	if err := power.Check(b.d.guid, machine); err != nil {
		return err
	}
	if b.d.onErr != nil {
		return b.d.onErr
	}
	b.d.ons++
	if !b.d.on {
		b.d.ours = b.d.boot + 1
	}
	b.d.switchOn()
	return b.d.answer()
}

func (bmcOf) Shutdown(context.Context, power.UUID, power.Still) error { return power.ErrUnsupported }

func (bmcOf) Identify(context.Context, power.UUID, bool) (time.Duration, error) {
	return 0, power.ErrUnsupported
}

func (bmcOf) String() string { return "ipmi://10.0.0.1:623" }

func (d *deadNode) story() string {
	text := ""
	for _, event := range d.events {
		text += event + "\n"
	}
	return text
}

// fakeClock is that of the world: who waits lets the time pass.
type fakeClock struct {
	clock.WithTicker
	*deadNode
}

func (c fakeClock) Now() time.Time                  { return c.now }
func (c fakeClock) Since(t time.Time) time.Duration { return c.now.Sub(t) }

func (c fakeClock) NewTimer(d time.Duration) clock.Timer {
	c.pass(d)
	fired := make(chan time.Time, 1)
	fired <- c.now
	return firedTimer{c: fired}
}

type firedTimer struct {
	clock.Timer
	c chan time.Time
}

func (t firedTimer) C() <-chan time.Time { return t.c }
func (t firedTimer) Stop() bool          { return false }
