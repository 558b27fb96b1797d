package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// fenced is a node with a BMC, an API server that has it, and the process that asks the BMC.
type fenced struct {
	*testing.T
	clock  *clocktesting.FakePassiveClock
	worker *FenceWorker
	node   *corev1.Node

	// The BMC.
	guid  power.GUID
	state power.State
	// reported: it is what another program has read.
	reported bool
	err      error
	reads    int

	// What people and the API server do.
	noSwitch error
	busy     bool
	refused  error // of writes
	writes   int
	reRead   func() // happens before the node is read again
}

func newFenced(t *testing.T) *fenced {
	t.Helper()
	machine, err := power.ParseUUID(machineUUID)
	must(t, err)
	f := &fenced{T: t, clock: clocktesting.NewFakePassiveClock(testNow), state: power.On, guid: power.GUID(machine)}
	f.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", UID: "node-1", Annotations: map[string]string{}}}
	f.node.Status.NodeInfo.SystemUUID = machineUUID
	f.ready(corev1.ConditionTrue)
	f.restart()
	return f
}

func (f *fenced) ready(status corev1.ConditionStatus) {
	f.node.Status.Conditions = append(f.node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: status})
}

// restart lets another process go on.
func (f *fenced) restart() {
	f.Helper()
	worker, err := NewFenceWorker(FenceWorkerOptions{
		API: f, Busy: func(string) bool { return f.busy }, ServerClock: serverclock.New(f.clock), Registry: prometheus.NewRegistry(),
		Switch: func(*corev1.Node) (power.Switch, error) { return playedSwitch{f}, f.noSwitch },
	})
	must(f.T, err)
	f.worker = worker
	f.keep(f.node)
}

// keep has the informer see a node.
func (f *fenced) keep(node *corev1.Node) {
	f.Helper()
	kept, err := nodeNeeded(node.DeepCopy())
	must(f.T, err)
	must(f.T, f.worker.nodes.Add(kept))
}

// ask has a person ask for a check.
func (f *fenced) ask(value string) {
	f.Helper()
	f.node.Annotations[v1alpha1.FenceCheckAnnotation] = value
	f.keep(f.node)
	_, err := f.worker.Work(f.Context(), f.node.Name)
	must(f.T, err)
}

// run lets time pass.
func (f *fenced) run(d time.Duration) {
	f.Helper()
	for end := f.clock.Now().Add(d); ; {
		again, err := f.worker.Work(f.Context(), f.node.Name)
		must(f.T, err)
		left := end.Sub(f.clock.Now())
		if again <= 0 || again >= left {
			f.clock.SetTime(end)
			return
		}
		f.clock.SetTime(f.clock.Now().Add(again))
	}
}

func (f *fenced) condition() corev1.NodeCondition {
	if c := v1alpha1.FindNodeCondition(f.node, v1alpha1.NodeFenceable); c != nil {
		return *c
	}
	return corev1.NodeCondition{}
}

// Node implements FenceAPI.
func (f *fenced) Node(context.Context, string) (*corev1.Node, error) {
	node := f.node.DeepCopy()
	if f.reRead != nil {
		defer f.reRead()
	}
	return node, nil
}

// WriteCondition implements FenceAPI.
func (f *fenced) WriteCondition(_ context.Context, node *corev1.Node, c corev1.NodeCondition) error {
	f.writes++
	if f.refused != nil {
		return f.refused
	}
	if node.UID != f.node.UID {
		return errors.New("it is another node")
	}
	is := &f.node.Status
	is.Conditions = slices.DeleteFunc(is.Conditions, func(other corev1.NodeCondition) bool { return other.Type == c.Type })
	is.Conditions = append(is.Conditions, c)
	f.keep(f.node)
	return nil
}

// playedSwitch is the BMC. It breaks the test when it is to switch anything.
type playedSwitch struct{ f *fenced }

func (s playedSwitch) Read(context.Context, power.UUID) (power.Reading, error) {
	s.f.reads++
	if s.f.err != nil {
		return power.Reading{}, s.f.err
	}
	return power.Reading{GUID: s.f.guid, Power: s.f.state, Reported: s.f.reported}, nil
}

func (s playedSwitch) switched() error {
	s.f.Error("a check switches something")
	return nil
}

func (s playedSwitch) Off(context.Context, power.UUID, power.Still) error      { return s.switched() }
func (s playedSwitch) On(context.Context, power.UUID, power.Still) error       { return s.switched() }
func (s playedSwitch) Shutdown(context.Context, power.UUID, power.Still) error { return s.switched() }
func (s playedSwitch) Identify(context.Context, power.UUID, bool) (time.Duration, error) {
	return 0, s.switched()
}
func (s playedSwitch) String() string { return "ipmi://10.0.0.1:623" }

func TestWhatASwitchSaysStandsOnTheNode(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(f *fenced)
		status  corev1.ConditionStatus
		reason  string
		says    string
		doubted bool // it has to be seen more than once
	}{
		"it would do":                   {func(*fenced) {}, "True", v1alpha1.FenceAnswers, "ipmi://10.0.0.1:623 answers", false},
		"nothing switches it":           {func(f *fenced) { f.noSwitch = fmt.Errorf("remote.yaml: %w", power.ErrNoSwitch) }, "False", v1alpha1.FenceNoSwitch, "no entry", false},
		"remote.yaml is wrong":          {func(f *fenced) { f.noSwitch = errors.New("switches.0.ipmi.port: -1 is no UDP port") }, "False", v1alpha1.FenceCheckFailed, "switches.0.ipmi.port", true},
		"no answer":                     {func(f *fenced) { f.err = fmt.Errorf("ipmi://10.0.0.1:623: %w", power.ErrNoAnswer) }, "False", v1alpha1.FenceNoAnswer, "no answer", true},
		"no answer in time":             {func(f *fenced) { f.err = context.DeadlineExceeded }, "False", v1alpha1.FenceNoAnswer, "deadline", true},
		"no login":                      {func(f *fenced) { f.err = power.ErrLogin }, "False", v1alpha1.FenceLoginRefused, "login refused", false},
		"the node reports another's":    {func(f *fenced) { f.noSwitch = fmt.Errorf("its annotation: %w", power.ErrOtherMachine) }, "False", v1alpha1.FenceOtherMachine, "its annotation", false},
		"it says that it is another's":  {func(f *fenced) { f.err = power.ErrOtherMachine }, "False", v1alpha1.FenceOtherMachine, "another machine", false},
		"its GUID is another machine's": {func(f *fenced) { f.guid[3]++ }, "False", v1alpha1.FenceOtherMachine, "its GUID is", false},
		"it does not say whose it is":   {func(f *fenced) { f.err = power.ErrNoIdentity }, "False", v1alpha1.FenceMachineUnknown, "does not say", false},
		"a password that can't be read": {func(f *fenced) { f.err = errors.New("reading a secret: no such file") }, "False", v1alpha1.FenceCheckFailed, "secret", true},
		"a UUID of many machines": {func(f *fenced) {
			f.node.Status.NodeInfo.SystemUUID = "03000200-0400-0500-0006-000700080009"
		}, "False", v1alpha1.FenceMachineUnknown, "systemUUID", false},
		"another node of this machine": {func(f *fenced) {
			twin := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-2"}}
			machine, err := power.ParseUUID(machineUUID)
			must(f.T, err)
			twin.Status.NodeInfo.SystemUUID = power.GUID(machine).In(power.SMBIOS).String() // in another order
			f.keep(twin)
		}, "False", v1alpha1.FenceMachineUnknown, "node worker-2 has the systemUUID", false},
		"it reads off, and the node is Ready": {func(f *fenced) { f.state = power.Off }, "False", v1alpha1.FenceReadsOff, "does not tell the truth", true},
		"neither on nor off":                  {func(f *fenced) { f.state = power.Changing }, "False", v1alpha1.FenceReadsOff, "power is Changing", true},
		"neither, and the node is not Ready": {func(f *fenced) {
			f.state, f.node.Status.Conditions = power.Changing, nil
		}, "False", v1alpha1.FenceReadsOff, "power is Changing", true},
		"what another program has read": {func(f *fenced) { f.reported = true }, "True", v1alpha1.FenceAnswers, "frees no pods and volumes", false},
		"it reads off, and the node is not Ready": {func(f *fenced) {
			f.state, f.node.Status.Conditions = power.Off, nil
		}, "True", v1alpha1.FenceAnswersOff, "", true},
		"it was shut down a moment ago": {func(f *fenced) {
			f.state = power.Off
			f.reRead = func() { f.node.Status.Conditions = nil }
		}, "True", v1alpha1.FenceAnswersOff, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFenced(t)
			test.change(f)
			f.keep(f.node)
			_, err := f.worker.Work(t.Context(), f.node.Name)
			must(t, err)
			if test.doubted != (f.condition().Type == "") {
				t.Errorf("after one check: %+v", f.condition())
			}
			f.run(10 * time.Minute)
			c := f.condition()
			if c.Status != test.status || c.Reason != test.reason || !strings.Contains(c.Message, test.says) || c.LastHeartbeatTime.IsZero() {
				t.Errorf("got %+v", c)
			}
		})
	}
}

// A BMC that has restarted may say off of a machine that runs. Nobody may go by that who gives their word that it is off.
func TestASwitchThatSaysOffForAMomentIsNoNews(t *testing.T) {
	f := newFenced(t)
	f.node.Status.Conditions = nil
	f.run(2 * time.Minute)
	if c := f.condition(); c.Reason != v1alpha1.FenceAnswers {
		t.Fatalf("got %+v", c)
	}
	f.state = power.Off
	for before := f.reads; f.reads == before; {
		f.run(time.Second)
	}
	f.run(110 * time.Second)
	if c := f.condition(); c.Reason != v1alpha1.FenceAnswers {
		t.Errorf("after less than two minutes: %+v", c)
	}
	f.state = power.On
	f.run(time.Minute)
	reads := f.reads
	f.run(30 * time.Minute)
	if c := f.condition(); c.Reason != v1alpha1.FenceAnswers || f.reads != reads {
		t.Errorf("read %d times more: %+v", f.reads-reads, c)
	}
	f.state = power.Off
	f.run(2 * time.Hour)
	if c := f.condition(); c.Reason != v1alpha1.FenceAnswersOff {
		t.Errorf("for hours: %+v", c)
	}
	reads = f.reads
	f.run(30 * time.Minute)
	if more := f.reads - reads; more > 1 {
		t.Errorf("then it is read %d times in half an hour", more)
	}
}

// What people ask for is told at once, also if it says off first. And what can't be settled is no reason to ask for ever.
func TestHowLongItIsSettledWhetherASwitchSaysOff(t *testing.T) {
	off := func(t *testing.T) *fenced {
		t.Helper()
		f := newFenced(t)
		f.node.Status.Conditions = nil
		f.run(2 * time.Minute)
		f.state = power.Off
		return f
	}
	t.Run("people have asked, and it does not answer any more", func(t *testing.T) {
		f := off(t)
		f.run(2 * time.Minute) // since the last check
		f.ask("now")
		f.err = power.ErrNoAnswer
		f.run(10 * time.Second)
		if c := f.condition(); c.Reason != v1alpha1.FenceNoAnswer {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("many others say so, too", func(t *testing.T) {
		f := off(t)
		for i := range settlesAtOnce {
			f.worker.known[fmt.Sprint(i)] = fenceCheck{settling: f.clock.Now()}
		}
		f.ask("now")
		reads := f.reads
		f.run(3 * time.Minute)
		if f.reads > reads || f.condition().Reason != v1alpha1.FenceAnswers {
			t.Errorf("read %d times more: %+v", f.reads-reads, f.condition())
		}
		f.worker.known = map[string]fenceCheck{f.node.Name: f.worker.known[f.node.Name]}
		f.run(8 * time.Minute)
		if c := f.condition(); c.Reason != v1alpha1.FenceAnswersOff {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("it answers now and then", func(t *testing.T) {
		f := off(t)
		f.ask("now")
		reads := f.reads
		for range 120 { // each reading begins anew
			f.clock.SetTime(f.clock.Now().Add(proof.DefaultPlan().Repeat + 5*time.Second))
			_, err := f.worker.Work(t.Context(), f.node.Name)
			must(t, err)
		}
		if asked := f.reads - reads; asked > 100 { // of 120
			t.Errorf("it is asked %d times in %s", asked, 120*20*time.Second)
		}
	})
}

// A BMC restarts now and then.
func TestASwitchThatDoesNotAnswerOnceIsNoNews(t *testing.T) {
	f := newFenced(t)
	f.run(time.Minute)
	since := f.condition().LastTransitionTime
	f.err = power.ErrNoAnswer
	for f.reads == 1 {
		f.run(time.Minute)
	}
	f.err = nil
	f.run(time.Hour)
	if c := f.condition(); c.Status != corev1.ConditionTrue || c.LastTransitionTime != since || f.reads < 3 {
		t.Errorf("after %d checks: %+v", f.reads, c)
	}
	f.err = power.ErrNoAnswer
	f.run(2 * time.Hour)
	if c := f.condition(); c.Status != corev1.ConditionFalse || !c.LastTransitionTime.After(since.Time) {
		t.Errorf("it does not answer for hours: %+v", c)
	}
	f.err = nil
	f.run(2 * time.Hour)
	if c := f.condition(); c.Status != corev1.ConditionTrue {
		t.Errorf("it answers for hours: %+v", c)
	}
}

func TestHowOftenASwitchIsAsked(t *testing.T) {
	for name, test := range map[string]struct {
		err         error
		state       power.State
		least, most int // in a day
	}{
		"it would do":                {nil, power.On, 21, 28},
		"no answer":                  {power.ErrNoAnswer, power.On, 22, 35},
		"off, and the node is Ready": {nil, power.Off, 22, 35},
		"another machine's":          {power.ErrOtherMachine, power.On, 22, 35},
		"the login is refused":       {power.ErrLogin, power.On, 4, 7},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFenced(t)
			f.err, f.state = test.err, test.state
			for range 24 { // whoever leads
				f.run(time.Hour)
				f.restart()
			}
			if f.reads < test.least || f.reads > test.most || f.writes > f.reads {
				t.Errorf("it was asked %d times in a day, and told %d times: accepted are %d to %d", f.reads, f.writes, test.least, test.most)
			}
			if reads := f.reads; errors.Is(test.err, power.ErrLogin) {
				f.run(7 * 24 * time.Hour)
				if f.reads-reads > 9 {
					t.Errorf("it was asked %d times in the week after", f.reads-reads)
				}
			}
		})
	}
}

func TestARestartResetsNothing(t *testing.T) {
	f := newFenced(t)
	f.run(time.Minute)
	before, reads, writes := f.condition(), f.reads, f.writes
	for range 10 {
		f.restart()
		f.run(time.Minute)
	}
	if f.reads != reads || f.writes != writes || f.condition() != before {
		t.Errorf("asked %d times, told %d times: %+v", f.reads-reads, f.writes-writes, f.condition())
	}
	f.err = power.ErrNoAnswer
	f.run(2 * time.Hour)
	if c := f.condition(); c.Status != corev1.ConditionFalse {
		t.Errorf("got %+v", c)
	}
	before = f.condition()
	f.restart()
	f.run(time.Second)
	if f.condition() != before {
		t.Errorf("got %+v, before %+v", f.condition(), before)
	}
}

// The kubelet's rights are enough to write the condition.
func TestWhoSaysThatItWasCheckedInTheFutureIsChecked(t *testing.T) {
	f := newFenced(t)
	f.run(time.Minute)
	c := v1alpha1.FindNodeCondition(f.node, v1alpha1.NodeFenceable)
	c.LastHeartbeatTime = metav1.NewTime(f.clock.Now().Add(10 * 365 * 24 * time.Hour))
	f.restart()
	f.err = power.ErrOtherMachine
	f.run(time.Minute)
	if c := f.condition(); c.Reason != v1alpha1.FenceOtherMachine {
		t.Errorf("got %+v", c)
	}
}

// The kubelet's rights are enough to write the annotation, and the systemUUID.
func TestASwitchIsAskedWhenPeopleAskButNotOnAndOn(t *testing.T) {
	f := newFenced(t)
	f.run(30 * time.Minute)
	reads := f.reads
	f.err = power.ErrNoAnswer
	f.ask("1")
	if c := f.condition(); f.reads != reads+1 || c.Status != corev1.ConditionFalse || !c.LastHeartbeatTime.Time.Equal(f.clock.Now()) {
		t.Errorf("asked %d times: %+v", f.reads-reads, c)
	}
	f.err = nil
	f.run(2 * time.Minute)
	f.ask("2")
	f.run(30 * time.Minute)
	if c := f.condition(); f.reads != reads+2 || c.Status != corev1.ConditionTrue {
		t.Errorf("for two requests it was asked %d times: %+v", f.reads-reads, c)
	}
	hour := func(change func(i int)) int {
		reads := f.reads
		for i := range 3600 {
			change(i)
			f.clock.SetTime(f.clock.Now().Add(time.Second))
		}
		return f.reads - reads
	}
	asks := func(i int) { f.ask("x" + strconv.Itoa(i)) }
	if got := hour(asks); got < 50 || got > 70 {
		t.Errorf("in an hour in which somebody asks each second it was asked %d times", got)
	}
	machines := func(i int) {
		f.node.Status.NodeInfo.SystemUUID = fmt.Sprintf("4c4c4544-0032-3810-8052-%012d", i+1)
		f.keep(f.node)
		_, err := f.worker.Work(t.Context(), f.node.Name)
		must(t, err)
	}
	if got := hour(machines); got > 70 {
		t.Errorf("in an hour in which the machine is another one each second it was asked %d times", got)
	}
	f.err = power.ErrLogin
	f.run(2 * time.Hour)
	if got := hour(asks); got < 10 || got > 14 {
		t.Errorf("in an hour in which somebody asks each second it was asked %d times for a login that it refuses", got)
	}
}

func TestWhatPeopleHaveAskedForIsHeededOnceByWhoeverLeads(t *testing.T) {
	f := newFenced(t)
	f.run(30 * time.Minute)
	f.ask(f.clock.Now().Format(time.RFC3339Nano))
	reads := f.reads
	f.run(2 * time.Minute)
	f.restart()
	f.run(2 * time.Minute)
	if f.reads != reads {
		t.Errorf("after its answer was told it was heeded %d times more", f.reads-reads)
	}
	f.node.Annotations[v1alpha1.FenceCheckAnnotation] = f.clock.Now().Format(time.RFC3339Nano) // while nobody leads
	f.restart()
	f.run(10 * time.Second)
	if f.reads != reads+1 {
		t.Errorf("while nobody led somebody asked: it was heeded %d times", f.reads-reads)
	}
}

func TestANodeOfAnotherMachineIsCheckedAnew(t *testing.T) {
	f := newFenced(t)
	f.run(10 * time.Minute)
	reads := f.reads
	f.node.Status.NodeInfo.SystemUUID = "4c4c4544-0032-3810-8052-b4c04f4a5799"
	f.keep(f.node)
	f.run(time.Second)
	if c := f.condition(); f.reads != reads+1 || c.Reason != v1alpha1.FenceOtherMachine {
		t.Errorf("asked %d times: %+v", f.reads-reads, c)
	}
	f.node = f.node.DeepCopy() // registered anew
	f.node.UID, f.node.Status.Conditions = "node-2", nil
	f.keep(f.node)
	f.run(5 * time.Minute)
	if c := f.condition(); f.reads != reads+2 || c.Reason != v1alpha1.FenceOtherMachine {
		t.Errorf("asked %d times: %+v", f.reads-reads, c)
	}
	must(t, f.worker.nodes.Delete(f.node))
	if again, err := f.worker.Work(t.Context(), f.node.Name); again != 0 || err != nil || len(f.worker.known) != 0 {
		t.Errorf("of a node that is gone: %s, %v, %v", again, err, f.worker.known)
	}
}

func TestAMachineThatIsBeingSwitchedIsNotAsked(t *testing.T) {
	f := newFenced(t)
	f.busy = true
	f.run(2 * time.Hour)
	if f.reads > 0 || f.writes > 0 {
		t.Errorf("it was asked %d times", f.reads)
	}
	f.busy = false
	f.run(time.Minute)
	if f.reads != 1 {
		t.Errorf("it was asked %d times", f.reads)
	}
}

// Such as when the roles are those of an older version.
func TestASwitchIsNotAskedMoreOftenBecauseNobodyTakesTheAnswer(t *testing.T) {
	for _, err := range []error{nil, power.ErrLogin} {
		f := newFenced(t)
		f.err, f.refused = err, errors.New("forbidden")
		f.run(24 * time.Hour)
		if f.reads > 28 || f.reads == 0 {
			t.Errorf("%v: it was asked %d times in a day", err, f.reads)
		}
	}
}

// Or a node that was just checked would keep its power.
func TestACheckIsNoSignOfLife(t *testing.T) {
	node := &corev1.Node{}
	for manager, life := range map[string]bool{remoteManager: false, "kubelet": true} {
		at := metav1.NewTime(testNow.Add(-time.Second))
		node.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Time: &at}}
		if sign := signOfLife(node, nil, testNow); (sign != "") != life {
			t.Errorf("%s: %q", manager, sign)
		}
	}
}

func TestNodesAreAskedAtTimesOfTheirOwn(t *testing.T) {
	minutes := map[time.Duration]int{}
	for i := range 5000 {
		name := fmt.Sprintf("worker-%04d", i)
		at := spread(name, time.Minute, 11*time.Minute)
		if at != spread(name, time.Minute, 11*time.Minute) || at < time.Minute || at > 11*time.Minute {
			t.Errorf("%s at %s", name, at)
		}
		minutes[at/time.Minute]++
	}
	for minute := range time.Duration(10) {
		if n := minutes[minute+1]; n < 350 || n > 650 {
			t.Errorf("of 5000 in ten minutes %d are asked in minute %d", n, minute)
		}
	}
}

// rackOf is an API server with many nodes, whose BMCs take a while to answer.
type rackOf struct {
	nodes    map[string]*corev1.Node
	now, top atomic.Int32 // how many are asked
	reads    atomic.Int32
	worker   *FenceWorker
}

func newRackOf(n int) *rackOf {
	r := &rackOf{nodes: map[string]*corev1.Node{}}
	for i := range n {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("worker-%04d", i), UID: types.UID(strconv.Itoa(i))}}
		node.Status.NodeInfo.SystemUUID = fmt.Sprintf("4c4c4544-0032-3810-8052-%012d", i+1)
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		r.nodes[node.Name] = node
	}
	return r
}

// Node implements FenceAPI.
func (r *rackOf) Node(_ context.Context, name string) (*corev1.Node, error) {
	return r.nodes[name].DeepCopy(), nil // only its own check writes it
}

// WriteCondition implements FenceAPI.
func (r *rackOf) WriteCondition(_ context.Context, node *corev1.Node, c corev1.NodeCondition) error {
	is := r.nodes[node.Name]
	is.Status.Conditions = append(is.Status.Conditions[:1:1], c)
	kept, err := nodeNeeded(is)
	if err != nil {
		return err
	}
	return r.worker.nodes.Update(kept)
}

// slowSwitch is a BMC that takes half a second to answer; each tenth one does not answer.
type slowSwitch struct {
	power.Switch
	r    *rackOf
	node *corev1.Node
}

func (s slowSwitch) String() string { return "ipmi://" + s.node.Name + ":623" }

func (s slowSwitch) Read(ctx context.Context, machine power.UUID) (power.Reading, error) {
	s.r.reads.Add(1)
	now := s.r.now.Add(1)
	defer s.r.now.Add(-1)
	for top := s.r.top.Load(); now > top && !s.r.top.CompareAndSwap(top, now); top = s.r.top.Load() {
	}
	if strings.HasSuffix(s.node.Name, "7") {
		<-ctx.Done()
		return power.Reading{}, power.ErrNoAnswer
	}
	time.Sleep(500 * time.Millisecond) //nolint:forbidigo // the time of a bubble
	return power.Reading{GUID: power.GUID(machine), Power: power.On}, nil
}

// The time is that of a bubble: six hours of 5,000 BMCs, of which 500 do not answer.
func TestOneProcessChecksFiveThousandBMCs(t *testing.T) {
	const nodes, hours = 5000, 6
	synctest.Test(t, func(t *testing.T) {
		r := newRackOf(nodes)
		worker, err := NewFenceWorker(FenceWorkerOptions{
			API: r, Busy: func(string) bool { return false }, ServerClock: serverclock.New(clock.RealClock{}), Registry: prometheus.NewRegistry(),
			Switch: func(node *corev1.Node) (power.Switch, error) { return slowSwitch{r: r, node: node}, nil },
		})
		must(t, err)
		r.worker = worker
		ctx, cancel := context.WithCancel(t.Context())
		q := newQueue()
		var all sync.WaitGroup
		for _, node := range r.nodes {
			kept, err := nodeNeeded(node)
			must(t, err)
			must(t, worker.nodes.Add(kept))
			q.AddAfter(node.Name, spread(node.Name, 0, fenceStart))
		}
		for range fencesAtOnce {
			all.Go(func() { eachAgain(ctx, q, worker.Work) })
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the time of a bubble
		if got := r.reads.Load(); got < nodes/20 || got > nodes/5 {
			t.Errorf("in the first minute %d of %d were asked: that is to take %s", got, nodes, fenceStart)
		}
		time.Sleep(hours*time.Hour - time.Minute) //nolint:forbidigo // the time of a bubble
		reads := r.reads.Load()
		cancel()
		q.ShutDown()
		all.Wait()
		synctest.Wait()
		bad := 0
		for _, node := range r.nodes {
			fence := v1alpha1.FenceOf(node, time.Now())
			switch dead := strings.HasSuffix(node.Name, "7"); {
			case dead && fence.Reason == v1alpha1.FenceNoAnswer:
				bad++
			case dead || !fence.Fenceable || time.Since(fence.Checked) > 2*time.Hour:
				t.Errorf("node %s: %+v", node.Name, fence)
			}
		}
		if each := float64(reads) / nodes / hours; bad != nodes/10 || each < 0.8 || each > 1.3 {
			t.Errorf("%d do not answer, and each was asked %.2f times an hour", bad, each)
		}
		t.Logf("%d checks of %d BMCs in %d h, %d at once at most", reads, nodes, hours, r.top.Load())
	})
}

// BenchmarkMemoryOfFiveThousandFences tells what one process keeps of 5,000 nodes.
func BenchmarkMemoryOfFiveThousandFences(b *testing.B) {
	const nodes = 5000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	r := newRackOf(nodes)
	for range b.N {
		r.worker = nil // that of the last time
		before := heap()
		worker, err := NewFenceWorker(FenceWorkerOptions{
			API: r, Busy: func(string) bool { return false }, ServerClock: serverclock.New(clock.RealClock{}), Registry: prometheus.NewRegistry(),
			Switch: func(node *corev1.Node) (power.Switch, error) { return quickSwitch{slowSwitch{r: r, node: node}}, nil },
		})
		if err != nil {
			b.Fatal(err)
		}
		r.worker = worker
		for _, node := range r.nodes {
			kept, err := nodeNeeded(node.DeepCopy())
			if err != nil {
				b.Fatal(err)
			}
			if err := worker.nodes.Add(kept); err != nil {
				b.Fatal(err)
			}
		}
		for name := range r.nodes {
			if _, err := worker.Work(b.Context(), name); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(int64(heap())-int64(before))/(1<<20), "MiB/5000-nodes") //nolint:gosec // far from the limits
		runtime.KeepAlive(worker)
	}
}

// quickSwitch answers at once.
type quickSwitch struct{ slowSwitch }

func (s quickSwitch) Read(_ context.Context, machine power.UUID) (power.Reading, error) {
	return power.Reading{GUID: power.GUID(machine), Power: power.On}, nil
}
