package runner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/serverclock"
)

const (
	deadBoot = "00000000-0000-4000-8000-00000000000a"
	thisBoot = "00000000-0000-4000-8000-00000000000b"
)

// leftAPI has an action that has ended, and its policy.
type leftAPI struct {
	API
	action  *v1alpha1.NodeAction
	policy  *v1alpha1.RemedyPolicy
	node    *corev1.Node
	refuses error

	written *v1alpha1.Aftermath
}

func (a *leftAPI) Action(context.Context, string) (*v1alpha1.NodeAction, error) {
	return a.action.DeepCopy(), nil
}

func (a *leftAPI) Policy(context.Context, string) (*v1alpha1.RemedyPolicy, error) {
	return a.policy.DeepCopy(), nil
}

func (a *leftAPI) Node(context.Context, string) (*corev1.Node, error) { return a.node.DeepCopy(), nil }

func (a *leftAPI) UpdateStatus(_ context.Context, action *v1alpha1.NodeAction) error {
	if a.refuses == nil {
		a.written = action.Status.Aftermath
	}
	return a.refuses
}

// rebooted is an action that has ended a boot an hour ago, for the remote runner, with its policy.
func rebooted() *leftAPI {
	a := &leftAPI{action: &v1alpha1.NodeAction{}, policy: &v1alpha1.RemedyPolicy{}, node: &corev1.Node{}}
	a.node.UID, a.node.Status.NodeInfo.SystemUUID, a.action.Spec.NodeUID = "n", machineUUID, "n"
	a.action.Name, a.action.Spec.Executor = "worker-1-1", v1alpha1.ExecutorRemote
	a.policy.Name, a.policy.UID = "node-dead", "p"
	a.action.Spec.Policy = v1alpha1.PolicyReference{Name: a.policy.Name, UID: a.policy.UID}
	a.action.Status.Claim = &v1alpha1.Claim{BootID: deadBoot, Remedy: v1alpha1.RemedyReboot, Time: metav1.NewTime(testNow.Add(-time.Hour))}
	a.action.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded}}
	return a
}

func TestWhatABootHasLeftIsCollectedOnceInTheBootAfterIt(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*leftAPI)
		want   bool
	}{
		"power was cut":             {func(*leftAPI) {}, true},
		"rebooted by this runner":   {func(a *leftAPI) { a.action.Spec.Executor = "" }, true},
		"it came back late":         {func(a *leftAPI) { a.action.Status.Conditions[0].Reason = v1alpha1.ReasonNotBack }, true},
		"it was off when they came": {func(a *leftAPI) { a.action.Status.Conditions[0].Reason = v1alpha1.ReasonPowerWasOff }, true},
		"it has kept its power":     {func(a *leftAPI) { a.action.Status.Conditions[0].Reason = v1alpha1.ReasonNotNeeded }, false},
		"another remedy":            {func(a *leftAPI) { a.action.Status.Claim.Remedy = v1alpha1.RemedyCommand }, false},
		"still in that boot":        {func(a *leftAPI) { a.action.Status.Claim.BootID = thisBoot }, false},
		"not claimed":               {func(a *leftAPI) { a.action.Status.Claim = nil }, false},
		"not finished":              {func(a *leftAPI) { a.action.Status.Conditions = nil }, false},
		"collected":                 {func(a *leftAPI) { a.action.Status.Aftermath = &v1alpha1.Aftermath{BootID: thisBoot} }, false},
		"a day before the boot":     {func(a *leftAPI) { a.action.Status.Claim.Time = metav1.NewTime(testNow.Add(-25 * time.Hour)) }, false},
		"almost a day before it": {func(a *leftAPI) {
			a.action.Status.Claim.Time = metav1.NewTime(testNow.Add(-24*time.Hour - 5*time.Minute))
		}, true},
		"the policy is gone":         {func(a *leftAPI) { a.policy = nil }, false},
		"another policy of the name": {func(a *leftAPI) { a.policy.UID = "q" }, false},
		"another node of the name":   {func(a *leftAPI) { a.node.UID = "m" }, false},
		"another machine of the name": {func(a *leftAPI) {
			a.node.UID, a.action.Status.Power = "m", &v1alpha1.PowerCycleStatus{Machine: "4c4c4544-0032-3810-8052-b4c04f4a5732"}
		}, false},
		"the machine, registered anew": {func(a *leftAPI) {
			a.node.UID, a.action.Status.Power = "m", &v1alpha1.PowerCycleStatus{Machine: machineUUID}
		}, true},
		"nothing is to be kept": {func(a *leftAPI) { a.policy.Spec.Output = &v1alpha1.OutputPolicy{Keep: v1alpha1.OutputNone} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			api := rebooted()
			test.change(api)
			clock := serverclock.New(clocktesting.NewFakeClock(testNow))
			a := &aftermath{
				api: api, bootID: thisBoot, clock: clock, uptime: func() time.Duration { return 10 * time.Minute }, unwritten: map[string]*v1alpha1.Aftermath{},
				sources: []leftovers{{v1alpha1.LeftoverJournal, func(_ context.Context, of endedBoot) (string, bool, error) {
					return "boot " + of.bootID + "\n", true, nil
				}}},
			}
			must(t, a.work(t.Context(), "worker-1-1"))
			if (api.written != nil) != test.want {
				t.Fatalf("written: %+v", api.written)
			}
			if !test.want {
				return
			}
			want := &v1alpha1.Aftermath{BootID: thisBoot, Left: []v1alpha1.Leftover{
				{Source: v1alpha1.LeftoverJournal, Text: "boot " + deadBoot, Truncated: true},
			}}
			if diff := cmp.Diff(want, api.written); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatOneSourceCanNotTellCostsNoOther(t *testing.T) {
	api := rebooted()
	a := &aftermath{
		api: api, bootID: thisBoot, clock: serverclock.New(clocktesting.NewFakeClock(testNow)), uptime: func() time.Duration { return 0 }, unwritten: map[string]*v1alpha1.Aftermath{},
		sources: []leftovers{
			{v1alpha1.LeftoverJournal, func(context.Context, endedBoot) (string, bool, error) {
				return "", false, errors.New(strings.Repeat("a long story ", 1000))
			}},
			{v1alpha1.LeftoverPstore, func(context.Context, endedBoot) (string, bool, error) { return "Kernel panic", false, nil }},
			{v1alpha1.LeftoverEventLog, func(context.Context, endedBoot) (string, bool, error) { return "", false, nil }},
		},
	}
	must(t, a.work(t.Context(), "worker-1-1"))
	left := api.written.Left
	if len(left) != 3 || left[0].Problem == "" || len(left[0].Problem) > maxMessage || left[1].Text != "Kernel panic" || left[2].Text+left[2].Problem != "" {
		t.Errorf("got %+v", left)
	}
}

func TestABootWithoutANameIsNotAskedFor(t *testing.T) {
	api := rebooted()
	api.action.Status.Claim.BootID = "--vacuum-size=1"
	a := &aftermath{
		api: api, bootID: thisBoot, clock: serverclock.New(clocktesting.NewFakeClock(testNow)), uptime: func() time.Duration { return 0 }, unwritten: map[string]*v1alpha1.Aftermath{},
		sources: []leftovers{{v1alpha1.LeftoverJournal, func(context.Context, endedBoot) (string, bool, error) {
			t.Error("it was asked for")
			return "", false, nil
		}}},
	}
	must(t, a.work(t.Context(), "worker-1-1"))
	if !strings.Contains(api.written.Left[0].Problem, `"--vacuum-size=1"`) {
		t.Errorf("got %+v", api.written)
	}
}

func TestWhatABootHasLeftWaitsForTheNode(t *testing.T) {
	api := rebooted()
	node := api.node
	api.node = nil
	a := &aftermath{
		api: api, bootID: thisBoot, clock: serverclock.New(clocktesting.NewFakeClock(testNow)), uptime: func() time.Duration { return 0 }, unwritten: map[string]*v1alpha1.Aftermath{},
	}
	if after, known := Again(a.work(t.Context(), "worker-1-1")); !known || after != time.Minute || api.written != nil {
		t.Errorf("looked at again after %s, %t; written: %+v", after, known, api.written)
	}
	api.node = node
	must(t, a.work(t.Context(), "worker-1-1"))
	if api.written == nil {
		t.Error("nothing is written")
	}
}

func TestAClockThatWasSetBackHidesNothing(t *testing.T) {
	api := rebooted()
	api.action.Status.Claim.Time = metav1.NewTime(testNow.Add(time.Hour))
	var since time.Duration
	a := &aftermath{
		api: api, bootID: thisBoot, clock: serverclock.New(clocktesting.NewFakeClock(testNow)), uptime: func() time.Duration { return 10 * time.Minute }, unwritten: map[string]*v1alpha1.Aftermath{},
		sources: []leftovers{{v1alpha1.LeftoverEventLog, func(_ context.Context, of endedBoot) (string, bool, error) {
			since = of.since
			return "", false, nil
		}}},
	}
	must(t, a.work(t.Context(), "worker-1-1"))
	if since != 10*time.Minute {
		t.Errorf("it is looked for what is at most %s old", since)
	}
}

func TestNobodyIsAskedAgainSinceTheAPIServerDoesNotAnswer(t *testing.T) {
	api := rebooted()
	asked := 0
	a := &aftermath{
		api: api, bootID: thisBoot, clock: serverclock.New(clocktesting.NewFakeClock(testNow)), uptime: func() time.Duration { return 0 }, unwritten: map[string]*v1alpha1.Aftermath{},
		sources: []leftovers{{v1alpha1.LeftoverEventLog, func(context.Context, endedBoot) (string, bool, error) {
			asked++
			return "told", false, nil
		}}},
	}
	api.refuses = errors.New("etcdserver: mvcc: database space exceeded")
	for range 3 {
		if err := a.work(t.Context(), "worker-1-1"); !errors.Is(err, api.refuses) {
			t.Fatal(err)
		}
	}
	api.refuses = nil
	must(t, a.work(t.Context(), "worker-1-1"))
	if asked != 1 || api.written == nil || api.written.Left[0].Text != "told" || len(a.unwritten) > 0 {
		t.Errorf("asked %d times, written: %+v, kept: %v", asked, api.written, a.unwritten)
	}
}

func TestWhatCouldNotBeCollectedToItsEndIsNotWritten(t *testing.T) {
	api := rebooted()
	ctx, stop := context.WithCancel(t.Context())
	a := &aftermath{
		api: api, bootID: thisBoot, clock: serverclock.New(clocktesting.NewFakeClock(testNow)), uptime: func() time.Duration { return 0 }, unwritten: map[string]*v1alpha1.Aftermath{},
		sources: []leftovers{{v1alpha1.LeftoverJournal, func(context.Context, endedBoot) (string, bool, error) {
			stop()
			return "", false, context.Canceled
		}}},
	}
	if err := a.work(ctx, "worker-1-1"); !errors.Is(err, context.Canceled) || api.written != nil {
		t.Errorf("got %v, written: %+v", err, api.written)
	}
}

func TestAnActionThatHasEndedIsLookedAtOnlyForWhatItsBootHasLeft(t *testing.T) {
	api := rebooted()
	slim, err := onlyWhatIsQueued(api.action)
	must(t, err)
	a := &aftermath{bootID: thisBoot}
	if !a.wants(slim.(*v1alpha1.NodeAction)) {
		t.Error("the informer does not keep what tells that something is to be collected")
	}
	api.action.Status.Aftermath = &v1alpha1.Aftermath{BootID: thisBoot}
	if slim, err = onlyWhatIsQueued(api.action); err != nil || a.wants(slim.(*v1alpha1.NodeAction)) {
		t.Errorf("it is collected again: %v", err)
	}
}
