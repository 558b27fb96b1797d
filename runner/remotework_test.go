package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
)

// ended wants an outcome, whose message says something.
func (d *deadNode) ended(reason, says string) {
	d.Helper()
	f := d.action.Finished()
	if f == nil || f.Reason != reason || !strings.Contains(f.Message, says) {
		d.Errorf("it has ended as %+v, want %s: %s\n%s", f, reason, says, d.story())
	}
}

func TestADeadNodeIsSwitchedOffAndOnWithAProof(t *testing.T) {
	d := newDeadNode(t)
	d.work()
	d.ended(v1alpha1.ReasonSucceeded, "the node has booted: boot ID boot-1 -> boot-2")
	status := d.action.Status
	if status.Claim.RunnerID != "runner-0" || status.Claim.BootID != "boot-1" || status.Claim.Remedy != v1alpha1.RemedyReboot {
		t.Errorf("the claim is %+v", status.Claim)
	}
	if r := status.Result; r == nil || r.Execution != v1alpha1.ExecutionPowerCycle || r.BootIDAfter != "boot-2" || !r.FinishedAt.After(r.StartedAt.Time) {
		t.Errorf("the result is %+v", r)
	}
	if p := status.Power; p == nil || p.Phase != "Ended" || p.Outcome != "PowerCycled" || p.Proof == nil || p.Proof.BootID != "boot-1" ||
		p.Proof.Machine != machineUUID || p.Proof.Reader != "runner-0" || p.Proof.Apart.Duration < proof.MinGap || p.Proof.First.Order != "SMBIOS" {
		t.Errorf("kept is %+v", p)
	}
	if d.offs != 1 || d.ons != 1 || !slices.Equal(d.cuts, []int{1}) {
		t.Errorf("%d offs, %d ons, cut were %v", d.offs, d.ons, d.cuts)
	}
}

// Each call may be the last one of a process, before it has had its effect or after.
func TestARunnerThatDiesAnywhereIsFollowedByOneThatGoesOn(t *testing.T) {
	whole := newDeadNode(t)
	whole.work()
	for call := 1; call <= whole.calls; call++ {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d, after its effect: %t", call, lost), func(t *testing.T) {
				d := newDeadNode(t)
				d.happens = func(now int) {
					if now == call {
						d.died, d.lost = true, lost
					}
				}
				d.work()
				d.ended(v1alpha1.ReasonSucceeded, "boot-1 -> boot-2")
				if d.offs > 2 || !slices.Equal(d.cuts, []int{1}) {
					t.Errorf("%d offs, cut were %v\n%s", d.offs, d.cuts, d.story())
				}
			})
		}
	}
}

func TestTwoDeathsDoNotCutTheNextBoot(t *testing.T) {
	whole := newDeadNode(t)
	whole.work()
	for first := 1; first <= whole.calls; first += 3 {
		for second := first + 1; second <= whole.calls+40; second += 7 {
			d := newDeadNode(t)
			d.happens = func(now int) { d.died, d.lost = d.died || now == first || now == second, now == first }
			d.work()
			d.ended(v1alpha1.ReasonSucceeded, "boot-1 -> boot-2")
			if !slices.Equal(d.cuts, []int{1}) {
				t.Fatalf("deaths at %d and %d: cut were %v\n%s", first, second, d.cuts, d.story())
			}
		}
	}
}

func TestANodeThatAnswersAgainKeepsItsPower(t *testing.T) {
	whole := newDeadNode(t)
	whole.work()
	outcomes := map[string]int{}
	for call := 1; call <= whole.calls; call++ {
		d := newDeadNode(t)
		offsBefore := 0
		d.happens = func(now int) {
			if now == call && d.on && d.boot == 1 {
				offsBefore = d.offs
				d.wake()
				d.said, d.heard = d.boot, d.now
			}
		}
		d.work()
		outcomes[d.outcome()]++
		if offsBefore == 0 && d.offs > 0 && d.outcome() == v1alpha1.ReasonNotNeeded {
			t.Errorf("call %d: %d offs, and it has ended as NotNeeded\n%s", call, d.offs, d.story())
		}
		if slices.ContainsFunc(d.cuts, func(boot int) bool { return boot != 1 }) {
			t.Errorf("call %d: cut were %v\n%s", call, d.cuts, d.story())
		}
	}
	if outcomes[v1alpha1.ReasonNotNeeded] < 5 || outcomes[v1alpha1.ReasonSucceeded] < 5 {
		t.Errorf("they have ended as %v", outcomes)
	}
}

func TestWhatTheBMCSaysDecides(t *testing.T) {
	for name, test := range map[string]struct {
		change       func(d *deadNode)
		reason, says string
		offs         bool
	}{
		"it is off already":             {func(d *deadNode) { d.on = false }, v1alpha1.ReasonPowerWasOff, "was off already", false},
		"another node says to be it":    {func(d *deadNode) { d.twin = "worker-2" }, v1alpha1.ReasonRefused, "node worker-2 has the systemUUID", false},
		"it is of another machine":      {func(d *deadNode) { d.guid[5]++ }, v1alpha1.ReasonRefused, "another machine", false},
		"it does not say whose":         {func(d *deadNode) { d.guid = power.GUID{} }, v1alpha1.ReasonRefused, "does not say which machine", false},
		"it does not answer":            {func(d *deadNode) { d.readErr = power.ErrNoAnswer }, v1alpha1.ReasonStartFailed, "no answer", false},
		"the login is refused":          {func(d *deadNode) { d.readErr = power.ErrLogin }, v1alpha1.ReasonStartFailed, "login refused", false},
		"it acknowledges and goes on":   {func(d *deadNode) { d.deaf = true }, v1alpha1.ReasonPowerStillOn, "says On. Nothing was freed", true},
		"it is slow":                    {func(d *deadNode) { d.delay = 40 * time.Second }, v1alpha1.ReasonSucceeded, "boot-2", true},
		"it loses the session":          {func(d *deadNode) { d.offErr = errors.New("lost") }, v1alpha1.ReasonSucceeded, "boot-2", true},
		"the machine does not boot":     {func(d *deadNode) { d.bootTime = 0 }, v1alpha1.ReasonNotBack, "15m0s after the claim the node is not back", true},
		"the machine boots very slowly": {func(d *deadNode) { d.bootTime = 10 * time.Minute }, v1alpha1.ReasonSucceeded, "boot-2", true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeadNode(t)
			test.change(d)
			d.work()
			d.ended(test.reason, test.says)
			if (d.offs > 0) != test.offs {
				t.Errorf("%d offs\n%s", d.offs, d.story())
			}
			if proved := d.action.Status.Power != nil && d.action.Status.Power.Proof != nil; proved != (test.reason == v1alpha1.ReasonSucceeded || test.reason == v1alpha1.ReasonNotBack || test.reason == v1alpha1.ReasonPowerWasOff) {
				t.Errorf("there is a proof: %t", proved)
			}
		})
	}
}

func TestWhatPeopleSayMeanwhileHoldsTheCut(t *testing.T) {
	whole := newDeadNode(t)
	cutAt := 0
	whole.happens = func(now int) {
		if cutAt == 0 && whole.action.Status.Power != nil {
			cutAt = now // Cutting is kept
		}
	}
	whole.work()
	for name, test := range map[string]struct {
		say    func(d *deadNode)
		reason string
	}{
		"the cluster is paused":   {func(d *deadNode) { d.pause = clusterPause() }, v1alpha1.ReasonRefused},
		"the policy is paused":    {func(d *deadNode) { d.policy.Spec.Paused = true }, v1alpha1.ReasonRefused},
		"the policy is deleted":   {func(d *deadNode) { d.policy = nil }, v1alpha1.ReasonSuperseded},
		"the remediation is gone": {func(d *deadNode) { d.remediation = nil }, v1alpha1.ReasonSuperseded},
		"a budget is paused":      {func(d *deadNode) { d.holds.Budgets = pausedBudgets() }, v1alpha1.ReasonRefused},
		"a maintenance begins":    {func(d *deadNode) { d.holds.Maintenances = maintenances("") }, v1alpha1.ReasonRefused},
	} {
		t.Run(name, func(t *testing.T) {
			for call := 1; call <= whole.calls; call++ {
				d := newDeadNode(t)
				said := 0
				d.happens = func(now int) {
					if now == call {
						said = d.offs
						test.say(d)
					}
				}
				d.work()
				switch {
				case call < cutAt-14 && (d.offs > 0 || d.outcome() != test.reason):
					t.Errorf("call %d of %d: %d offs, and it has ended as %s\n%s", call, cutAt, d.offs, d.outcome(), d.story())
				case d.offs > said+1:
					t.Errorf("call %d: another off\n%s", call, d.story())
				case len(d.cuts) > 0 && (!d.on || d.outcome() != v1alpha1.ReasonSucceeded):
					t.Errorf("call %d: what was cut is not on again, on: %t, %s\n%s", call, d.on, d.outcome(), d.story())
				}
			}
		})
	}
}

// What has ended is reported, whatever has become of the switch since.
func TestAnEndIsReportedThoughTheSwitchIsUnknownByThen(t *testing.T) {
	d := newDeadNode(t)
	d.happens = func(int) {
		d.died = d.died || d.action.Status.Power != nil && d.action.Status.Power.Phase == string(proof.Ended)
	}
	if err := d.run(d.worker("former")); err == nil || d.outcome() != "" {
		t.Fatalf("got %v, %s", err, d.outcome())
	}
	d.died, d.happens = false, nil
	w := d.worker("next")
	w.Switch = func(*corev1.Node) (power.Switch, error) { return nil, errors.New("the file is gone") }
	if err := d.run(w); err != nil {
		t.Error(err)
	}
	d.ended(v1alpha1.ReasonSucceeded, "boot-2")
}

// hostOf is a BMC behind a BareMetalHost.
type hostOf struct{ bmcOf }

// Host is what it is found by again.
func (hostOf) Host() v1alpha1.BareMetalHostReference {
	return v1alpha1.BareMetalHostReference{Namespace: "hosts", Name: "bmh-7"}
}

func TestWhatABareMetalHostKeepsOffIsSwitchedOnByIt(t *testing.T) {
	for _, phase := range []proof.Phase{proof.Cutting, proof.Restoring} {
		for name, configured := range map[string]func(*corev1.Node) (power.Switch, error){
			"no switch":      func(*corev1.Node) (power.Switch, error) { return nil, power.ErrNoSwitch },
			"another switch": func(*corev1.Node) (power.Switch, error) { return bmcOf{}, nil }, // which answers nothing
		} {
			t.Run(string(phase)+", now configured: "+name, func(t *testing.T) {
				d := newDeadNode(t)
				former := d.worker("former")
				former.Switch = func(*corev1.Node) (power.Switch, error) { return hostOf{bmcOf{d, "former"}}, nil }
				d.happens = func(int) {
					d.died = d.died || d.action.Status.Power != nil && d.action.Status.Power.Phase == string(phase)
				}
				if err := d.run(former); err == nil || d.outcome() != "" {
					t.Fatalf("got %v, %s", err, d.outcome())
				}
				d.died, d.happens = false, nil
				next := d.worker("next")
				next.Switch = configured
				next.Host = func(host v1alpha1.BareMetalHostReference) (power.Switch, error) {
					if host != (hostOf{}).Host() {
						t.Errorf("got %+v", host)
					}
					return hostOf{bmcOf{d, "next"}}, nil
				}
				if err := d.run(next); err != nil {
					t.Error(err)
				}
				d.ended(v1alpha1.ReasonSucceeded, "boot-2")
			})
		}
	}
}

// pausedBudgets are one of other nodes, and one of this.
func pausedBudgets() []v1alpha1.RemediationBudget {
	others := v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "others"}}
	others.Spec.Paused, others.Spec.NodeSelector = true, &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "8"}}
	return []v1alpha1.RemediationBudget{others, {ObjectMeta: metav1.ObjectMeta{Name: "rack-7"}, Spec: v1alpha1.RemediationBudgetSpec{Paused: true}}}
}

// maintenances are one of this node: of the remediation of this UID, or else of a person.
func maintenances(of types.UID) []v1alpha1.NodeMaintenance {
	m := v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: "worker-1", Reason: "new DIMM"}}
	if of != "" {
		m.Spec.Remediation = &v1alpha1.RemediationReference{Name: "incident", UID: of}
	}
	return []v1alpha1.NodeMaintenance{m}
}

func TestTheMaintenanceOfItsOwnRemediationDoesNotHoldTheCut(t *testing.T) {
	d := newDeadNode(t)
	d.holds.Maintenances = maintenances("remediation-1")
	d.work()
	d.ended(v1alpha1.ReasonSucceeded, "boot-2")
}

// Who comes back when people were told to look at it long ago leaves the machine as it is: it is on,
// and somebody has switched it off again, or works on it.
func TestALateRunnerLeavesTheMachineToPeople(t *testing.T) {
	for name, test := range map[string]struct {
		phase  proof.Phase
		after  time.Duration
		change func(d *deadNode)
		reason string
		on     bool
	}{
		"it has booted":                        {proof.Restoring, 24 * time.Hour, func(d *deadNode) { d.said, d.boot = 2, 2 }, v1alpha1.ReasonSucceeded, false},
		"it has booted, and has a new Node":    {proof.Restoring, 24 * time.Hour, func(d *deadNode) { d.said, d.boot, d.nodeUID = 2, 2, "node-2" }, v1alpha1.ReasonSucceeded, false},
		"days later":                           {proof.Restoring, 24 * time.Hour, nil, v1alpha1.ReasonNotBack, false},
		"days later, and nobody has proved it": {proof.Cutting, 24 * time.Hour, nil, v1alpha1.ReasonPowerStillOn, false},
		"days later, and the node is gone":     {proof.Restoring, 24 * time.Hour, func(d *deadNode) { d.nodeGone = true }, v1alpha1.ReasonNotBack, false},
		"soon after":                           {proof.Restoring, 30 * time.Minute, nil, v1alpha1.ReasonNotBack, true},
		"in time, and paused":                  {proof.Restoring, 5 * time.Minute, func(d *deadNode) { d.pause = clusterPause() }, v1alpha1.ReasonSucceeded, true},
		"soon after, and in maintenance":       {proof.Restoring, 30 * time.Minute, func(d *deadNode) { d.holds.Maintenances = maintenances("") }, v1alpha1.ReasonNotBack, false},
		"soon after, and paused":               {proof.Restoring, 30 * time.Minute, func(d *deadNode) { d.pause = clusterPause() }, v1alpha1.ReasonNotBack, false},
		"soon after, budget paused, no node": {proof.Restoring, 30 * time.Minute, func(d *deadNode) {
			d.nodeGone, d.holds.Budgets = true, pausedBudgets()
		}, v1alpha1.ReasonNotBack, false},
	} {
		for _, same := range []bool{false, true} { // by the next process, or by one that was stopped
			if same && test.on && test.after > 15*time.Minute {
				continue // it gives up
			}
			t.Run(fmt.Sprintf("%s, same process: %t", name, same), func(t *testing.T) {
				d := newDeadNode(t)
				seen := 0
				if same { // it is stopped when its first on was in vain
					d.onErr = power.ErrNoAnswer
				}
				d.happens = func(int) {
					if d.on || d.action.Status.Power.Phase != string(test.phase) {
						return
					}
					seen++
					switch {
					case !same:
						d.happens, d.died = nil, true
					case seen == 3:
						d.happens, d.onErr = nil, nil
						d.pass(test.after)
						if test.change != nil {
							test.change(d)
						}
					}
				}
				w := d.worker("former")
				_ = d.run(w)
				if !same {
					d.died = false
					d.pass(test.after)
					if test.change != nil {
						test.change(d)
					}
					w = d.worker("next")
				}
				for tries := 0; d.outcome() == "" && tries < 20; tries++ {
					_ = d.run(w)
				}
				d.ended(test.reason, "")
				if test.on != d.on || test.on != (d.ons > 0) {
					t.Errorf("on %t, %d ons\n%s", d.on, d.ons, d.story())
				}
			})
		}
	}
}

// Whatever is deleted meanwhile, and whoever dies then: what we have switched off is on again.
func TestWhatWasCutComesBackWhateverIsDeletedMeanwhile(t *testing.T) {
	whole := newDeadNode(t)
	whole.work()
	for name, deletes := range map[string]func(d *deadNode){
		"the Node":                        func(d *deadNode) { d.nodeGone = true },
		"the Node, which is created anew": func(d *deadNode) { d.nodeUID = "node-2" },
		"the action":                      (*deadNode).deleteAction,
		"the Remediation":                 func(d *deadNode) { d.remediation = nil },
		"all of them":                     func(d *deadNode) { d.deleteAction(); d.nodeGone, d.remediation, d.policy = true, nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			for call := 1; call <= whole.calls; call++ {
				for _, after := range []int{0, 7} { // calls, after which it dies
					d := newDeadNode(t)
					d.happens = func(now int) {
						if now == call {
							deletes(d)
						}
						d.died = d.died || now == call+after
					}
					_ = d.run(d.worker("former"))
					d.died, d.happens = false, nil
					for tries := range 10 {
						_ = d.run(d.worker(fmt.Sprint("next-", tries)))
					}
					if !d.on {
						t.Fatalf("call %d, +%d: the machine is left off\n%s", call, after, d.story())
					}
					if d.action != nil && d.outcome() == "" {
						t.Fatalf("call %d, +%d: it does not end\n%s", call, after, d.story())
					}
				}
			}
		})
	}
}

func TestADryRunBringsBackWhatWasCut(t *testing.T) {
	for _, phase := range []proof.Phase{proof.Cutting, proof.Restoring} {
		d := newDeadNode(t)
		d.happens = func(int) { d.died = d.died || !d.on && d.action.Status.Power.Phase == string(phase) }
		_ = d.run(d.worker("former"))
		d.died, d.happens = false, nil
		w := d.worker("next")
		w.DryRun = true
		if err := d.run(w); err != nil {
			t.Error(err)
		}
		d.ended(v1alpha1.ReasonSucceeded, "boot-1 -> boot-2")
		if d.offs != 1 {
			t.Errorf("%d offs", d.offs)
		}
	}
}

func TestWhatGoesOffLateIsSwitchedOnAgain(t *testing.T) {
	d := newDeadNode(t)
	d.delay = 4 * time.Minute
	d.work()
	d.ended(v1alpha1.ReasonSucceeded, "boot-1 -> boot-2")
	if p := d.action.Status.Power; p.Proof != nil || p.Outcome != string(proof.NewBoot) || !slices.Equal(d.cuts, []int{1}) {
		t.Errorf("kept is %+v, cut were %v\n%s", p, d.cuts, d.story())
	}
}

func TestABMCThatHangsWhenThePowerIsOffIsWaitedFor(t *testing.T) {
	d := newDeadNode(t)
	since := time.Time{}
	d.happens = func(int) {
		if !d.on && since.IsZero() && d.action.Status.Power.Phase == string(proof.Restoring) {
			since, d.readErr, d.onErr = d.now, power.ErrNoAnswer, power.ErrNoAnswer
		}
		if !since.IsZero() && d.now.Sub(since) > 8*time.Minute {
			d.readErr, d.onErr = nil, nil
		}
	}
	d.work()
	d.ended(v1alpha1.ReasonSucceeded, "boot-1 -> boot-2")
}

func TestNothingIsCutUnderAnActionThatCouldVanish(t *testing.T) {
	d := newDeadNode(t)
	d.action.Finalizers = nil
	d.work()
	d.ended(v1alpha1.ReasonRefused, "has no finalizer nodemend.dev/power")
	d = newDeadNode(t)
	d.happens = func(int) {
		if d.action.Status.Claim != nil && d.action.Status.Power == nil {
			d.action.DeletionTimestamp = &metav1.Time{Time: d.now}
		}
	}
	d.work()
	d.ended(v1alpha1.ReasonCancelled, "deleted")
	if d.offs > 0 {
		t.Errorf("%d offs", d.offs)
	}
}

func TestPowerThatWasCutComesBackThoughTheActionIsDeleted(t *testing.T) {
	whole := newDeadNode(t)
	whole.work()
	for call := 1; call <= whole.calls; call++ {
		d := newDeadNode(t)
		d.happens = func(now int) {
			if now == call {
				d.action = nil
			}
		}
		w := d.worker("runner-0")
		for range 3 {
			_ = d.run(w)
		}
		if !d.on {
			t.Errorf("call %d: the machine is left off\n%s", call, d.story())
		}
	}
}

// losing loses the answer to one write of a status.
type losing struct {
	*deadNode
	lose *bool
}

func (l losing) UpdateStatus(ctx context.Context, action *v1alpha1.NodeAction) error {
	err := l.deadNode.UpdateStatus(ctx, action)
	if err == nil && *l.lose {
		*l.lose = false
		return errors.New("the answer is lost")
	}
	return err
}

// One that was cut off and still believes to lead, in the middle of an off, does not cut the boot
// that another one has begun; nor if that other one was not told that it goes on.
func TestTheOffOfAFormerLeaderDoesNotCutTheNextBoot(t *testing.T) {
	for _, onTheWay := range []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, proof.CallTimeout} {
		for _, lose := range []bool{false, true} {
			d := newDeadNode(t)
			d.onTheWay = onTheWay
			former := d.worker("former")
			d.happens = func(int) { d.died = d.offs == 1 }
			if err := d.run(former); err == nil || d.offs != 1 {
				t.Fatalf("%d offs, %v", d.offs, err)
			}
			d.died, d.happens, d.onTheWay = false, nil, 0
			w := d.worker("next")
			w.API = losing{d, &lose}
			for d.outcome() == "" {
				_ = d.run(w)
			}
			if !slices.Equal(d.cuts, []int{1}) {
				t.Errorf("an off that was %s on its way: cut were %v\n%s", onTheWay, d.cuts, d.story())
			}
		}
	}
}

// The former leader is stopped before one of its calls, the next one goes on for some calls and
// is stopped, and so on. What nobody may do, the BMC says.
func TestOfTwoLeadersOneGoesOn(t *testing.T) {
	whole := newDeadNode(t)
	whole.work()
	for call := 1; call <= whole.calls; call++ {
		for _, steps := range []int{1, 22, 45, 1000} {
			for _, deaf := range []bool{false, true} {
				d := newDeadNode(t)
				d.deaf = deaf
				former, next := d.worker("former"), d.worker("next")
				turn, left := 0, call
				d.happens = func(int) {
					left--
					if left > 0 {
						return
					}
					turn++
					switch turn {
					case 1: // the former one is stopped here, in the middle of its call
						left = steps
						_ = d.run(next)
						d.died, left = false, 1000
					case 2:
						d.died = true
					}
				}
				for range 5 {
					if d.outcome() == "" {
						_ = d.run(former)
					}
				}
				want := v1alpha1.ReasonSucceeded
				if deaf {
					want = v1alpha1.ReasonPowerStillOn
				}
				if d.outcome() != want || slices.ContainsFunc(d.cuts, func(boot int) bool { return boot != 1 }) {
					t.Errorf("call %d, %d steps, deaf: %t: ended as %q, cut were %v\n%s", call, steps, deaf, d.outcome(), d.cuts, d.story())
				}
			}
		}
	}
}

func TestPowerIsNotCutAgainOnceSomethingHoldsIt(t *testing.T) {
	for name, say := range map[string]func(d *deadNode){
		"the cluster is paused":     func(d *deadNode) { d.pause = clusterPause() },
		"the remediation is gone":   func(d *deadNode) { d.remediation = nil },
		"somebody deletes it":       func(d *deadNode) { d.action = nil },
		"the node answers again":    func(d *deadNode) { d.wake(); d.heard = d.now },
		"it has booted":             func(d *deadNode) { d.boot, d.said = 2, 2 },
		"the time for it has ended": func(d *deadNode) { d.now = d.now.Add(10 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeadNode(t)
			d.deaf = true
			said := 0
			d.happens = func(int) {
				if d.offs == 3 && said == 0 {
					said = d.offs
					say(d)
				}
			}
			w := d.worker("runner-0")
			for range 3 {
				_ = d.run(w)
			}
			if d.offs != 3 || d.ons > 0 && name != "it has booted" {
				t.Errorf("%d offs, %d ons\n%s", d.offs, d.ons, d.story())
			}
		})
	}
}

func TestABMCThatSaysOffOfANodeThatAnswersProvesNothing(t *testing.T) {
	d := newDeadNode(t)
	d.deaf = true
	d.happens = func(int) {
		if d.offs == 1 && !d.lies {
			d.lies = true
			d.wake()
			d.heard = d.now
		}
	}
	d.work()
	d.ended(v1alpha1.ReasonPowerStillOn, "says Off, but the node answers")
	if d.action.Status.Power.Proof != nil || d.ons > 0 {
		t.Errorf("got %+v, %d ons", d.action.Status.Power, d.ons)
	}
}

func TestWhatIsNotForTheRemoteRunnerIsLeftAlone(t *testing.T) {
	d := newDeadNode(t)
	d.action.Spec.Executor = ""
	if err := d.run(d.worker("remote")); err != nil || d.action.Status.Claim != nil || d.outcome() != "" {
		t.Errorf("got %v, %+v", err, d.action.Status)
	}
	w := d.worker("remote")
	w.DryRun = true
	d.action.Spec.Executor = v1alpha1.ExecutorRemote
	if err := d.run(w); err != nil {
		t.Error(err)
	}
	d.ended(v1alpha1.ReasonDryRun, "would switch the power of node worker-1 off and on by ipmi://10.0.0.1:623")
	if d.offs+d.ons > 0 {
		t.Error("it was switched")
	}
}

func TestOneThingAtATimeIsUnderWayOnANode(t *testing.T) {
	d := newDeadNode(t)
	w := d.worker("remote")
	var meanwhile error
	d.happens = func(now int) {
		if now == 5 {
			d.happens = nil
			meanwhile = d.run(w)
		}
	}
	if err := d.run(w); err != nil || !errors.Is(meanwhile, errBusy) {
		t.Errorf("got %v, and meanwhile %v", err, meanwhile)
	}
	d.ended(v1alpha1.ReasonSucceeded, "boot-2")
}
