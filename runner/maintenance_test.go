package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
	"github.com/nodemend/nodemend/internal/serverclock"
)

// rack is a machine with a lamp, its BMC, and an API server with maintenances of its node. It is the
// clock, too: who waits lets the time pass. It breaks the test when power is cut that must not be.
type rack struct {
	*testing.T
	now time.Time

	// The machine.
	on        bool
	boot      int       // that which runs, or ran last
	listens   bool      // its operating system heeds the power button
	offAt     time.Time // when it has shut down
	upAt      time.Time // when a boot answers
	heard     time.Time // when it has answered last
	lit       bool
	litUntil  time.Time // zero: for ever
	dark      bool      // the lamp went out by itself
	stops     []int     // the calls that asked it to shut down, or cut it
	shutdowns []int     // the boots that were asked to shut down
	cuts      []int     // the boots that were cut
	ons       int
	events    []string

	// The BMC.
	guid        power.GUID
	readErr     error
	blank       time.Time // until then it has restarted, and says off, whatever is so
	reported    bool      // what it says another program has read
	identifyErr error
	lampTime    time.Duration // how long the last call had
	shutdownErr error
	lasts       time.Duration
	deaf        bool // it acknowledges off, and does nothing

	// What the API server has.
	all         []v1alpha1.NodeMaintenance
	said        int // the boot that the node has said last
	nodeGone    bool
	systemUUID  string
	excluded    bool
	uncordoned  bool
	mark        string // of the taint out-of-service
	twin        string
	pause       *v1alpha1.RemediationBudget
	budgets     []v1alpha1.RemediationBudget
	actions     []v1alpha1.NodeAction
	remediation *v1alpha1.Remediation
	policy      *v1alpha1.RemedyPolicy
	frozen      bool // no controller lets maintenances go

	// slow reports whether a write takes longer than anybody waits for its answer. onItsWay is that one. Nil: none does.
	slow     func(*v1alpha1.NodeMaintenance) bool
	onItsWay *v1alpha1.NodeMaintenance

	// changed is told when something may have been written, and all calls take their time, if it is there: see live.
	changed func()

	calls   int
	reads   int   // of the power
	effects []int // those of the calls that write or switch
	happens func(call int)
	died    bool // every call of this process fails, without an effect
	lost    bool // only its answer is
	kill    context.CancelFunc
	allowed bool // by the flag
	dryRun  bool
}

const racked = "worker-1"

func newRack(t *testing.T, wanted ...func(*v1alpha1.NodeMaintenance)) *rack {
	t.Helper()
	machine, err := power.ParseUUID(machineUUID)
	must(t, err)
	r := &rack{
		T: t, now: testNow, on: true, boot: 1, said: 1, listens: true, systemUUID: machineUUID, allowed: true,
		guid: power.GUID(power.GUID(machine).In(power.SMBIOS)),
	}
	r.start("repair", wanted...)
	return r
}

// start has a person take the node out; it is drained at once.
func (r *rack) start(name string, wanted ...func(*v1alpha1.NodeMaintenance)) {
	r.Helper()
	m := v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(r.now), Finalizers: []string{v1alpha1.MaintenanceFinalizer, v1alpha1.PowerFinalizer},
		},
		Spec:   v1alpha1.NodeMaintenanceSpec{NodeName: racked, Reason: "new DIMM", Drain: &v1alpha1.Drain{}},
		Status: v1alpha1.NodeMaintenanceStatus{NodeUID: "node-1", Conditions: []metav1.Condition{{Type: v1alpha1.MaintenanceDrained, Status: metav1.ConditionTrue}}},
	}
	for _, change := range wanted {
		change(&m)
	}
	r.all = append(r.all, m)
}

// freed has pods and volumes freed.
func freed(m *v1alpha1.NodeMaintenance) { m.Spec.OutOfService = true }

func identified(m *v1alpha1.NodeMaintenance) { m.Spec.Identify = true }

func switchedOff(m *v1alpha1.NodeMaintenance) { m.Spec.Power = v1alpha1.PowerRequestOff }

// byPolicy makes it the step of a remediation.
func byPolicy(m *v1alpha1.NodeMaintenance) {
	m.Spec.NodeUID = "node-1"
	m.Spec.Remediation = &v1alpha1.RemediationReference{Name: "incident", UID: "remediation-1"}
}

// withPolicy has the policy and the remediation that the maintenance is a step of.
func (r *rack) withPolicy() *rack {
	step := v1alpha1.Step{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "broken", Drain: &v1alpha1.Drain{}, Power: v1alpha1.PowerRequestOff}}
	match := []v1alpha1.ConditionMatch{{Type: "HardwareFailure", Status: corev1.ConditionTrue}}
	r.policy = &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "hardware", UID: "policy-1"}, Spec: v1alpha1.RemedyPolicySpec{Match: match, Steps: []v1alpha1.Step{step}}}
	r.remediation = &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: "incident", UID: "remediation-1"},
		Spec:       v1alpha1.RemediationSpec{Policy: v1alpha1.PolicyReference{Name: "hardware", UID: "policy-1"}, Steps: []v1alpha1.Step{step}},
		Status:     v1alpha1.RemediationStatus{Step: 1, Maintenance: "repair"},
	}
	return r
}

// of returns a maintenance, nil if it is gone.
func (r *rack) of(name string) *v1alpha1.NodeMaintenance {
	for i := range r.all {
		if r.all[i].Name == name {
			return &r.all[i]
		}
	}
	return nil
}

// end is how people end a maintenance: it stays for as long as the controller lets it.
func (r *rack) end(name string) {
	if m := r.of(name); m != nil && m.DeletionTimestamp == nil {
		m.DeletionTimestamp = &metav1.Time{Time: r.now}
		m.ResourceVersion += "d"
	}
}

func (r *rack) note(format string, args ...any) {
	r.events = append(r.events, r.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

func (r *rack) story() string { return strings.Join(r.events, "\n") }

// pass lets time pass.
func (r *rack) pass(by time.Duration) {
	r.now = r.now.Add(by)
	if r.changed != nil {
		time.Sleep(by) //nolint:forbidigo // the time of a bubble
		defer r.changed()
	}
	if r.lit && !r.litUntil.IsZero() && !r.now.Before(r.litUntil) {
		r.lit, r.dark = false, true
		r.note("the lamp goes out by itself")
	}
	if r.on && !r.offAt.IsZero() && !r.now.Before(r.offAt) {
		r.on, r.offAt = false, time.Time{}
		r.note("boot %d has shut down", r.boot)
	}
	if r.on && !r.upAt.IsZero() && !r.now.Before(r.upAt) {
		r.said, r.upAt = r.boot, time.Time{}
		r.note("boot %d answers", r.boot)
	}
	if r.on && r.upAt.IsZero() {
		r.heard = r.now
	}
	// The controller.
	r.all = slices.DeleteFunc(r.all, func(m v1alpha1.NodeMaintenance) bool {
		return m.DeletionTimestamp != nil && !r.frozen && !m.MayShine() && (!m.MayBeOff() || r.now.After(deadline.GivenBack(&m)))
	})
}

func (r *rack) switchOn() {
	if !r.on {
		r.on, r.boot, r.upAt = true, r.boot+1, r.now.Add(2*time.Minute)
		r.note("the power is on, boot %d", r.boot)
	}
}

func (r *rack) worker(id string) *MaintenanceWorker {
	return NewMaintenanceWorker(MaintenanceWorkerOptions{
		API: r, Take: func(string) bool { return true }, Give: func(string) {}, Power: r.allowed, Outside: Outside{
			RunnerID: id, Clock: rackClock{rack: r}, ServerClock: serverclock.New(rackClock{rack: r}), Events: record.NewFakeRecorder(10000), DryRun: r.dryRun,
			Switch: func(node *corev1.Node) (power.Switch, error) {
				if node.Name != racked || node.Labels["rack"] != "7" || len(node.Labels) != 1 {
					return nil, fmt.Errorf("no switch of %s with %v", node.Name, node.Labels)
				}
				return rackBMC{r, id}, nil
			},
			Needed: func(node *corev1.Node) (*corev1.Node, error) {
				return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: map[string]string{"rack": node.Labels["rack"]}}}, nil
			},
		},
	})
}

// run has processes work, one after the other, for this long: each goes on until it dies.
func (r *rack) run(long time.Duration) {
	r.Helper()
	w := r.worker("runner-0")
	for tries, end := 1, r.now.Add(long); r.now.Before(end); tries++ {
		ctx, kill := context.WithCancel(r.Context())
		r.kill = kill
		again, err := w.Work(ctx, racked)
		kill()
		if r.died {
			r.died = false
			r.note("the runner has died")
			w = r.worker("runner-" + strconv.Itoa(tries))
		}
		if err != nil || again == 0 || again > 20*time.Second { // somebody may change something
			again = time.Second
			if err == nil {
				again = 20 * time.Second
			}
		}
		r.pass(again)
	}
}

func (r *rack) call() error {
	r.pass(20 * time.Millisecond)
	r.calls++
	r.lost = false
	if r.happens != nil {
		r.happens(r.calls)
	}
	if r.died && r.kill != nil {
		r.kill()
	}
	if r.died && !r.lost {
		return errDied
	}
	return nil
}

// effect is call, for one that is to write or switch something.
func (r *rack) effect() error {
	r.effects = append(r.effects, r.calls+1)
	return r.call()
}

func (r *rack) answer() error {
	if r.died {
		return errDied
	}
	return nil
}

func (r *rack) look() error { return errors.Join(r.call(), r.answer()) }

// Node implements MaintenanceAPI.
func (r *rack) Node(context.Context, string) (*corev1.Node, error) {
	if err := r.look(); err != nil || r.nodeGone {
		return nil, err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: racked, UID: "node-1", Labels: map[string]string{"rack": "7", "other": "label"}}}
	if r.excluded {
		node.Labels[v1alpha1.ExcludeLabel] = "true"
	}
	node.Spec.Unschedulable = !r.uncordoned
	node.Status.Conditions = []corev1.NodeCondition{{Type: "HardwareFailure", Status: corev1.ConditionTrue}}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	if r.now.Sub(r.heard) > 50*time.Second {
		ready.Status = corev1.ConditionUnknown
	}
	node.Status.Conditions = append(node.Status.Conditions, ready)
	if r.mark != "" {
		node.Annotations = map[string]string{v1alpha1.OutOfServiceAnnotation: r.mark}
	}
	node.Status.NodeInfo.BootID, node.Status.NodeInfo.SystemUUID = fmt.Sprintf("boot-%d", r.said), r.systemUUID
	return node, nil
}

// Remediation implements MaintenanceAPI.
func (r *rack) Remediation(context.Context, string) (*v1alpha1.Remediation, error) {
	return r.remediation.DeepCopy(), r.look()
}

// Policy implements MaintenanceAPI.
func (r *rack) Policy(context.Context, string) (*v1alpha1.RemedyPolicy, error) {
	return r.policy.DeepCopy(), r.look()
}

// Budget implements MaintenanceAPI.
func (r *rack) Budget(context.Context, string) (*v1alpha1.RemediationBudget, error) {
	return r.pause.DeepCopy(), r.look()
}

// Request implements MaintenanceAPI.
func (r *rack) Request(context.Context, *v1alpha1.Request) (*v1alpha1.NodemendRemediation, error) {
	return nil, r.look()
}

// Actions implements MaintenanceAPI.
func (r *rack) Actions(context.Context, string) ([]v1alpha1.NodeAction, error) {
	return r.actions, r.look()
}

// Twin implements MaintenanceAPI.
func (r *rack) Twin(context.Context, string, power.UUID) (string, error) { return r.twin, r.look() }

// Holds implements MaintenanceAPI.
func (r *rack) Holds(context.Context, string) (Holds, error) {
	err := r.look()
	var all []v1alpha1.NodeMaintenance
	for i := range r.all {
		all = append(all, *r.all[i].DeepCopy())
	}
	return Holds{Budgets: r.budgets, Maintenances: all}, err
}

// UpdateMaintenance implements MaintenanceAPI.
func (r *rack) UpdateMaintenance(_ context.Context, m *v1alpha1.NodeMaintenance) error {
	if err := r.effect(); err != nil {
		return err
	}
	if r.slow != nil && r.slow(m) {
		r.note("on its way: %+v", m.Status.Power)
		r.onItsWay = m.DeepCopy()
		return context.DeadlineExceeded
	}
	is := r.of(m.Name)
	switch {
	case is == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodemaintenances"}, m.Name)
	case is.ResourceVersion != m.ResourceVersion:
		return apierrors.NewConflict(schema.GroupResource{Resource: "nodemaintenances"}, m.Name, errors.New("it has changed"))
	}
	is.Status = *m.Status.DeepCopy()
	is.ResourceVersion += "1"
	if r.changed != nil {
		r.changed()
	}
	if p := is.Status.Power; p != nil {
		r.note("%s: %s by %s: %s", m.Name, p.Phase, p.RunnerID, p.Message)
	}
	if l := is.Status.Identify; l != nil {
		r.note("%s: the light is %s: %s", m.Name, l.State, l.Message)
	}
	if err := r.answer(); err != nil {
		return err
	}
	*m = *is.DeepCopy()
	return nil
}

// rackBMC is the BMC, as one of the processes asks it.
type rackBMC struct {
	*rack
	id string
}

func (b rackBMC) Read(_ context.Context, machine power.UUID) (reading power.Reading, err error) {
	b.reads++
	if err := b.look(); err != nil {
		return reading, err
	}
	if b.readErr != nil {
		return power.Reading{Reported: b.reported}, b.readErr
	}
	reading = power.Reading{GUID: b.guid, Power: power.Off, Reported: b.reported}
	if b.on && !b.now.Before(b.blank) {
		reading.Power = power.On
	}
	return reading, power.Check(b.guid, machine)
}

// mayStop breaks the test if nobody has said before that the machine would be stopped in this phase,
// or people hold it.
func (b rackBMC) mayStop(phase v1alpha1.PowerPhase) {
	b.stops = append(b.stops, b.calls)
	i := slices.IndexFunc(b.all, func(m v1alpha1.NodeMaintenance) bool {
		p := m.Status.Power
		return p != nil && p.Phase == phase && p.RunnerID == b.id && m.DeletionTimestamp == nil && m.Spec.Power == v1alpha1.PowerRequestOff && m.Drained() && m.Status.Machine.UUID == machineUUID
	})
	b.mayAct()
	if i < 0 {
		b.Errorf("%s stops the machine, and nobody has said so before\n%s", b.id, b.story())
	}
	if b.on && b.boot != 1 {
		b.Errorf("boot %d is stopped\n%s", b.boot, b.story())
	}
}

// mayAct breaks the test if a write may still arrive that forbids what is done.
func (b rackBMC) mayAct() {
	if late := b.onItsWay; late != nil && b.of(late.Name) != nil && late.ResourceVersion == b.of(late.Name).ResourceVersion {
		b.Errorf("%s switches the machine, and a write is on its way that forbids it\n%s", b.id, b.story())
	}
}

func (b rackBMC) Shutdown(ctx context.Context, machine power.UUID, still power.Still) error {
	if err := b.effect(); err != nil {
		return err
	}
	if err := power.Check(b.guid, machine); err != nil {
		return err
	}
	if b.shutdownErr != nil {
		return b.shutdownErr
	}
	if err := still.Holds(ctx); err != nil {
		return err
	}
	b.mayStop(v1alpha1.PowerShuttingDown)
	b.note("asked to shut down, by %s", b.id)
	b.shutdowns = append(b.shutdowns, b.boot)
	if b.on && b.listens && b.offAt.IsZero() {
		b.offAt = b.now.Add(40 * time.Second)
	}
	return b.answer()
}

func (b rackBMC) Off(ctx context.Context, machine power.UUID, still power.Still) error {
	if err := b.effect(); err != nil {
		return err
	}
	if err := power.Check(b.guid, machine); err != nil {
		return err
	}
	if err := still.Holds(ctx); err != nil {
		return err
	}
	b.mayStop(v1alpha1.PowerCutting)
	b.note("off, by %s", b.id)
	if b.on && !b.deaf {
		b.cuts = append(b.cuts, b.boot)
		b.on, b.offAt, b.upAt = false, time.Time{}, time.Time{}
	}
	return b.answer()
}

func (b rackBMC) On(ctx context.Context, machine power.UUID, still power.Still) error {
	if err := b.effect(); err != nil {
		return err
	}
	if err := power.Check(b.guid, machine); err != nil {
		return err
	}
	if err := still.Holds(ctx); err != nil {
		return err
	}
	for i := range b.all {
		if m := &b.all[i]; m.DeletionTimestamp == nil && !m.MayBeOff() && b.now.Sub(m.CreationTimestamp.Time) > factsAge {
			b.Errorf("%s switches the machine on, and %s holds the node\n%s", b.id, m.Name, b.story())
		}
	}
	b.mayAct()
	b.ons++
	b.note("on, by %s", b.id)
	b.switchOn()
	return b.answer()
}

func (b rackBMC) Identify(ctx context.Context, machine power.UUID, on bool) (time.Duration, error) {
	if end, is := ctx.Deadline(); is {
		b.lampTime = time.Until(end)
	}
	if err := b.effect(); err != nil {
		return 0, err
	}
	if err := power.Check(b.guid, machine); err != nil {
		return 0, err
	}
	if b.identifyErr != nil {
		return 0, b.identifyErr
	}
	if on && !slices.ContainsFunc(b.all, func(m v1alpha1.NodeMaintenance) bool { return m.MayShine() }) {
		b.Errorf("the lamp is lit, and nobody has said so before\n%s", b.story())
	}
	b.lit, b.litUntil = on, time.Time{}
	if on && b.lasts > 0 {
		b.litUntil = b.now.Add(b.lasts)
	}
	b.note("the lamp: %t", on)
	return b.lasts, b.answer()
}

func (b rackBMC) String() string { return "ipmi://10.0.0.1:623" }

type rackClock struct {
	clock.WithTicker
	*rack
}

func (c rackClock) Now() time.Time                  { return c.now }
func (c rackClock) Since(t time.Time) time.Duration { return c.now.Sub(t) }

func (c rackClock) NewTimer(d time.Duration) clock.Timer {
	c.pass(d)
	fired := make(chan time.Time, 1)
	fired <- c.now
	return firedTimer{c: fired}
}

// light wants the state of the lamp of a maintenance, and a message that says something.
func (r *rack) light(name string, state v1alpha1.LightState, says string) {
	r.Helper()
	m := r.of(name)
	if m == nil || m.Status.Identify == nil || m.Status.Identify.State != state || !strings.Contains(m.Status.Identify.Message, says) {
		r.Errorf("the light of %s is %+v, want %s: %s\n%s", name, m, state, says, r.story())
	}
}

// power wants a phase of the maintenance repair, and a message that says something.
func (r *rack) power(phase v1alpha1.PowerPhase, says string) {
	const name = "repair"
	r.Helper()
	m := r.of(name)
	if m == nil {
		r.Errorf("maintenance %s is gone, want %s\n%s", name, phase, r.story())
		return
	}
	if p := m.Status.Power; p == nil || p.Phase != phase || !strings.Contains(p.Message, says) {
		r.Errorf("the power of %s is %+v, want %s: %s\n%s", name, p, phase, says, r.story())
	}
}
