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

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
)

func TestAMachineIsShutDownForAMaintenanceAndComesBack(t *testing.T) {
	r := newRack(t, switchedOff, identified)
	r.run(2 * time.Minute)
	r.power(v1alpha1.PowerOff, "")
	r.light("repair", v1alpha1.LightOn, "")
	if r.on || len(r.cuts) > 0 || !slices.Equal(r.shutdowns, []int{1}) || !r.lit {
		t.Errorf("on: %t, cut were %v, asked were %v\n%s", r.on, r.cuts, r.shutdowns, r.story())
	}
	r.run(48 * time.Hour)
	if r.on || r.ons > 0 {
		t.Errorf("it is on\n%s", r.story())
	}
	r.end("repair")
	r.run(time.Minute)
	r.power(v1alpha1.PowerRestoring, "is to boot") // until the node is back nobody takes it for dead
	r.run(3 * time.Minute)
	if !r.on || r.said != 2 || r.ons != 1 || r.of("repair") != nil {
		t.Errorf("on: %t, %d ons, boot %d, %+v\n%s", r.on, r.ons, r.said, r.of("repair"), r.story())
	}
}

// A BMC that has restarted says off until it has found its machine, which runs.
func TestNobodysHandsAreLetInByABMCThatHasRestarted(t *testing.T) {
	const believed = "believed when it was read so for 2m0s"
	// restarts has the BMC of r restart after a while: it does not answer, and then says off.
	restarts := func(r *rack, after, dumb, blank time.Duration) {
		r.happens = func(int) {
			begun := r.now.Sub(testNow) - after
			r.readErr, r.blank = nil, testNow.Add(after+dumb+blank)
			if begun < 0 {
				r.blank = time.Time{}
			} else if begun < dumb {
				r.readErr = power.ErrNoAnswer
			}
		}
	}
	t.Run("before anything was switched", func(t *testing.T) {
		r := newRack(t, switchedOff)
		restarts(r, 0, 0, 110*time.Second)
		r.run(100 * time.Second)
		r.power(v1alpha1.PowerWaiting, believed)
		r.run(3 * time.Minute)
		r.power(v1alpha1.PowerOff, "")
		if !slices.Equal(r.shutdowns, []int{1}) {
			t.Errorf("asked were %v\n%s", r.shutdowns, r.story())
		}
	})
	t.Run("while it is to shut down", func(t *testing.T) {
		r := newRack(t, switchedOff)
		r.listens = false
		restarts(r, time.Minute, 20*time.Second, 110*time.Second)
		r.run(3 * time.Minute)
		r.power(v1alpha1.PowerShuttingDown, believed)
		r.run(5 * time.Minute)
		r.power(v1alpha1.PowerShuttingDown, "")
	})
	t.Run("while it is cut, in vain", func(t *testing.T) {
		r := newRack(t, switchedOff)
		r.listens, r.deaf = false, true
		restarts(r, shutdownTime+time.Minute, 20*time.Second, 110*time.Second)
		w := r.worker("runner-0")
		r.goOn(w, shutdownTime+3*time.Minute)
		r.power(v1alpha1.PowerCutting, believed)
		r.goOn(w, 2*time.Minute)
		r.power(v1alpha1.PowerStillOn, "it says On")
	})
	t.Run("one that is off for two minutes is", func(t *testing.T) {
		r := newRack(t, switchedOff)
		r.listens = false
		restarts(r, shutdownTime+10*time.Second, time.Minute, 0)
		r.run(shutdownTime + 3*time.Minute + 30*time.Second)
		r.power(v1alpha1.PowerOff, "its power was cut")
	})
}

// goOn goes on with a process for this long, as it wants to.
func (r *rack) goOn(w *MaintenanceWorker, long time.Duration) {
	r.Helper()
	for end := r.now.Add(long); r.now.Before(end); {
		again, err := w.Work(r.Context(), racked)
		if err != nil || again == 0 {
			again = time.Second
		}
		r.pass(again)
	}
}

func TestAMachineThatIsOffIsSaidToBe(t *testing.T) {
	t.Run("switched off by hand, when it may not be cut", func(t *testing.T) {
		r := newRack(t, switchedOff)
		r.listens = false
		w := r.worker("runner-0")
		r.goOn(w, 9*time.Minute)
		r.excluded = true
		r.goOn(w, 2*time.Minute)
		r.on = false
		r.goOn(w, 4*time.Minute)
		r.power(v1alpha1.PowerOff, "")
		if len(r.cuts) > 0 {
			t.Errorf("cut were %v\n%s", r.cuts, r.story())
		}
	})
	t.Run("read long after it was cut", func(t *testing.T) {
		r := newRack(t, switchedOff)
		r.listens = false
		for w := r.worker("runner-0"); len(r.cuts) == 0; {
			r.goOn(w, time.Second)
		}
		r.pass(6 * time.Minute)
		r.goOn(r.worker("runner-1"), 150*time.Second)
		r.power(v1alpha1.PowerOff, "its power was cut")
	})
	t.Run("beside a lamp that hangs", func(t *testing.T) {
		r := newRack(t, switchedOff, identified)
		r.on = false
		w := r.worker("runner-0")
		w.Switch = func(*corev1.Node) (power.Switch, error) { return hungLamp{rackBMC{r, "runner-0"}}, nil }
		r.goOn(w, 5*time.Minute)
		r.power(v1alpha1.PowerWasOff, "")
	})
	t.Run("it is asked, and was doubted before", func(t *testing.T) {
		r := newRack(t, switchedOff)
		r.listens = false
		w := r.worker("runner-0")
		r.goOn(w, time.Minute)
		r.readErr = power.ErrNoAnswer
		r.goOn(w, 20*time.Second)
		r.readErr, r.blank = nil, r.now.Add(time.Minute)
		r.goOn(w, 30*time.Second)
		r.power(v1alpha1.PowerShuttingDown, "may have restarted")
		r.goOn(w, time.Minute)
		r.power(v1alpha1.PowerShuttingDown, "was asked to shut down")
	})
}

// hungLamp is a BMC whose lamp takes all the time that there is.
type hungLamp struct{ rackBMC }

func (h hungLamp) Identify(ctx context.Context, _ power.UUID, _ bool) (time.Duration, error) {
	if end, is := ctx.Deadline(); is {
		h.pass(time.Until(end))
	}
	return 0, power.ErrNoAnswer
}

// An off that nobody answers may be the last that the BMC heard before it restarted.
func TestAnOffThatNobodyAnswersIsNoProofOfOff(t *testing.T) {
	r := newRack(t, switchedOff)
	r.listens = false
	w := r.worker("runner-0")
	w.Switch = func(*corev1.Node) (power.Switch, error) { return restartsAtOff{rackBMC{r, "runner-0"}}, nil }
	r.goOn(w, shutdownTime+time.Minute)
	r.power(v1alpha1.PowerCutting, "may have restarted")
	r.goOn(w, 5*time.Minute)
	r.power(v1alpha1.PowerStillOn, "it says On")
}

// slowLogin is a BMC that takes long to be logged in to for an order. Meanwhile something happens.
type slowLogin struct {
	rackBMC
	meanwhile func()
}

func (s slowLogin) wait() {
	s.pass(15 * time.Second)
	s.meanwhile()
}

func (s slowLogin) Shutdown(ctx context.Context, machine power.UUID, still power.Still) error {
	s.wait()
	return s.rackBMC.Shutdown(ctx, machine, still)
}

func (s slowLogin) Off(ctx context.Context, machine power.UUID, still power.Still) error {
	s.wait()
	return s.rackBMC.Off(ctx, machine, still)
}

func (s slowLogin) On(ctx context.Context, machine power.UUID, still power.Still) error {
	s.wait()
	return s.rackBMC.On(ctx, machine, still)
}

func TestWhatHappensWhileTheBMCIsLoggedInToIsHeeded(t *testing.T) {
	// logins returns a process that takes long to log in. Meanwhile this happens.
	logins := func(r *rack, meanwhile func()) *MaintenanceWorker {
		w := r.worker("runner-0")
		w.Switch = func(*corev1.Node) (power.Switch, error) { return slowLogin{rackBMC{r, "runner-0"}, meanwhile}, nil }
		return w
	}
	t.Run("nothing", func(t *testing.T) {
		r := newRack(t, switchedOff)
		r.listens = false
		w := logins(r, func() {})
		r.goOn(w, shutdownTime+3*time.Minute)
		r.power(v1alpha1.PowerOff, "its power was cut")
		r.end("repair")
		r.goOn(w, 4*time.Minute)
		if !slices.Equal(r.shutdowns, []int{1}) || !slices.Equal(r.cuts, []int{1}) || !r.on {
			t.Errorf("asked were %v, cut were %v, on: %t\n%s", r.shutdowns, r.cuts, r.on, r.story())
		}
	})
	t.Run("the node is excluded before it is asked to shut down", func(t *testing.T) {
		r := newRack(t, switchedOff)
		r.goOn(logins(r, func() { r.excluded = true }), 2*time.Minute)
		r.power(v1alpha1.PowerShuttingDown, v1alpha1.ExcludeLabel)
		if len(r.shutdowns) > 0 {
			t.Errorf("asked were %v\n%s", r.shutdowns, r.story())
		}
	})
	t.Run("the node is excluded before it is cut", func(t *testing.T) {
		r := newRack(t, switchedOff)
		r.listens = false
		w := logins(r, func() { r.excluded = r.now.Sub(testNow) > shutdownTime })
		r.goOn(w, shutdownTime+5*time.Minute)
		r.power(v1alpha1.PowerShuttingDown, v1alpha1.ExcludeLabel)
		if len(r.shutdowns) != 1 || len(r.cuts) > 0 {
			t.Errorf("asked were %v, cut were %v\n%s", r.shutdowns, r.cuts, r.story())
		}
	})
	t.Run("somebody holds the node before it is switched on", func(t *testing.T) {
		r := newRack(t, switchedOff)
		ended := false
		w := logins(r, func() {
			if ended && len(r.all) == 1 {
				r.start("theirs")
			}
		})
		r.goOn(w, 2*time.Minute)
		r.end("repair")
		ended = true
		r.goOn(w, 2*time.Minute)
		if r.on || r.ons > 0 || r.of("theirs") == nil {
			t.Errorf("on: %t, %d ons\n%s", r.on, r.ons, r.story())
		}
	})
}

type restartsAtOff struct{ rackBMC }

func (b restartsAtOff) Off(context.Context, power.UUID, power.Still) error {
	b.blank = b.now.Add(100 * time.Second)
	return power.ErrNoAnswer
}

func TestWhatDoesNotShutDownIsCut(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *rack)
		phase  v1alpha1.PowerPhase
		says   string
		cuts   []int
	}{
		"it hangs":                {func(r *rack) { r.listens = false }, v1alpha1.PowerOff, "its power was cut", []int{1}},
		"nobody can ask it":       {func(r *rack) { r.shutdownErr = power.ErrUnsupported }, v1alpha1.PowerOff, "its power was cut", []int{1}},
		"it can't be cut, either": {func(r *rack) { r.listens, r.deaf = false, true }, v1alpha1.PowerStillOn, "it says On", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, switchedOff)
			test.change(r)
			r.run(9 * time.Minute)
			r.power(v1alpha1.PowerShuttingDown, "")
			if len(r.cuts) > 0 {
				t.Errorf("cut were %v\n%s", r.cuts, r.story())
			}
			r.run(20 * time.Minute)
			r.power(test.phase, test.says)
			if !slices.Equal(r.cuts, test.cuts) {
				t.Errorf("cut were %v\n%s", r.cuts, r.story())
			}
			r.end("repair")
			r.run(20 * time.Minute)
			if !r.on || r.of("repair") != nil {
				t.Errorf("on: %t, %+v\n%s", r.on, r.of("repair"), r.story())
			}
		})
	}
}

// Each call that writes or switches may be the last one of a process, before it has had its effect
// or after; and each that reads, before the first of them.
func TestAMachineComesBackWhereverTheRunnerDies(t *testing.T) {
	for name, listens := range map[string]bool{"it shuts down": true, "it is cut": false} {
		story := func(r *rack) {
			r.listens = listens
			r.run(25 * time.Minute) // the next one asks again
			if r.on || r.of("repair") == nil || r.of("repair").Status.Power.Phase != v1alpha1.PowerOff {
				r.Errorf("on: %t\n%s", r.on, r.story())
			}
			r.end("repair")
			r.run(10 * time.Minute)
			if !r.on || r.said != 2 || r.of("repair") != nil {
				r.Errorf("on: %t, boot %d, %+v\n%s", r.on, r.said, r.of("repair"), r.story())
			}
			if len(r.cuts) > 1 || listens && len(r.cuts) > 0 {
				r.Errorf("cut were %v\n%s", r.cuts, r.story())
			}
		}
		whole := newRack(t, switchedOff)
		story(whole)
		calls := slices.Clone(whole.effects)
		for call := range whole.effects[0] {
			calls = append(calls, call+1)
		}
		for _, call := range calls {
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, call %d, after its effect: %t", name, call, lost), func(t *testing.T) {
					r := newRack(t, switchedOff)
					r.happens = func(now int) {
						if now == call {
							r.died, r.lost = true, lost
						}
					}
					story(r)
				})
			}
		}
	}
}

func TestWhatForbidsAShutdownIsSaid(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *rack)
		says   string
	}{
		"the flag":                {func(r *rack) { r.allowed = false }, "remoteRunner.maintenancePower"},
		"it is not drained":       {func(r *rack) { r.all[0].Status.Conditions = nil }, "not drained yet"},
		"drained was another":     {func(r *rack) { r.all[0].Status.NodeUID = "node-0" }, "not drained yet"},
		"it is not cordoned":      {func(r *rack) { r.uncordoned = true }, "not cordoned"},
		"the cluster is paused":   {func(r *rack) { r.pause = clusterPause() }, "the cluster is paused"},
		"the node is excluded":    {func(r *rack) { r.excluded = true }, "nodemend.dev/exclude"},
		"somebody else has it":    {func(r *rack) { r.start("firmware") }, "maintenance firmware (new DIMM) holds the node, too"},
		"an action is under way":  {func(r *rack) { r.actions = []v1alpha1.NodeAction{claimedNow(r)} }, "NodeAction action is under way"},
		"another node says to be": {func(r *rack) { r.twin = "worker-2" }, "node worker-2 has the systemUUID"},
		"a UUID of many":          {func(r *rack) { r.systemUUID = "03000200-0400-0500-0006-000700080009" }, "systemUUID"},
		"another machine's BMC":   {func(r *rack) { r.guid[5]++ }, "another machine"},
		"it does not answer":      {func(r *rack) { r.readErr = power.ErrNoAnswer }, "no answer"},
		"another program's word":  {func(r *rack) { r.reported = true }, "what another program has read some time ago"},
		"a dry run":               {func(r *rack) { r.dryRun = true }, "dry run: this runner would shut the machine down by ipmi://"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, switchedOff)
			test.change(r)
			r.run(30 * time.Minute)
			r.power(v1alpha1.PowerWaiting, test.says)
			if !r.on || len(r.shutdowns)+len(r.cuts) > 0 {
				t.Errorf("on: %t\n%s", r.on, r.story())
			}
			r.end("repair")
			r.run(time.Minute)
			if r.of("repair") != nil {
				t.Errorf("it stays: %+v\n%s", r.of("repair").Status, r.story())
			}
		})
	}
}

// claimedNow is an action that may run.
func claimedNow(r *rack) v1alpha1.NodeAction {
	a := v1alpha1.NodeAction{ObjectMeta: metav1.ObjectMeta{Name: "action"}, Spec: v1alpha1.NodeActionSpec{NodeName: racked, ExpiresAt: metav1.NewTime(r.now), Timeout: v1alpha1.Duration{Duration: time.Hour}}}
	a.Status.Claim = &v1alpha1.Claim{Time: metav1.NewTime(r.now)}
	return a
}

// remote.yaml is read anew each time, and its entry for the node may be another one by then.
func TestNobodysHandsAreLetInOnAnotherProgramsWordWhenItHasBegun(t *testing.T) {
	for name, test := range map[string]struct {
		begun time.Duration
		phase v1alpha1.PowerPhase
		fails error
	}{
		"while it is to shut down":                      {time.Minute, v1alpha1.PowerShuttingDown, nil},
		"while it is cut":                               {10*time.Minute + 20*time.Second, v1alpha1.PowerCutting, nil},
		"while it is to shut down, and nothing is read": {time.Minute, v1alpha1.PowerShuttingDown, power.ErrNoAnswer},
		"while it is cut, and nothing is read":          {10*time.Minute + 20*time.Second, v1alpha1.PowerCutting, power.ErrNoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, switchedOff)
			r.listens, r.deaf = false, true
			r.run(test.begun)
			r.power(test.phase, "")
			r.reported, r.deaf, r.readErr = true, false, test.fails
			r.run(time.Hour)
			r.power(test.phase, "what another program has read some time ago")
			if !r.on || len(r.cuts) > 0 {
				t.Errorf("on: %t, cut were %v\n%s", r.on, r.cuts, r.story())
			}
		})
	}
}

// A policy's maintenance is one only as long as the policy says so.
func TestAMachineIsShutDownForAPolicyThatSaysSo(t *testing.T) {
	r := newRack(t, switchedOff, byPolicy).withPolicy()
	r.run(2 * time.Minute)
	r.power(v1alpha1.PowerOff, "")
	for name, test := range map[string]struct {
		change func(r *rack)
		says   string
	}{
		"the remediation is gone":     {func(r *rack) { r.remediation = nil }, "is gone, or does not name it"},
		"it has taken it back":        {func(r *rack) { r.remediation.Status.Maintenance = "other" }, "is gone, or does not name it"},
		"it is at another step":       {func(r *rack) { r.remediation.Status.Step = 2 }, "step 2 of remediation incident"},
		"the step says nothing of it": {func(r *rack) { r.remediation.Spec.Steps[0].Maintenance.Power = "" }, "is no maintenance with power: Off"},
		"the policy is gone":          {func(r *rack) { r.policy = nil }, "has been deleted"},
		"the policy was edited":       {func(r *rack) { r.policy.Spec.Steps[0].Maintenance = &v1alpha1.MaintenanceRemedy{Reason: "other"} }, "has no step with hash"},
		"the policy is paused":        {func(r *rack) { r.policy.Spec.Paused = true }, "is paused"},
		"it is for other nodes": {func(r *rack) {
			r.policy.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "8"}}
		}, "does not select"},
		"a budget is paused": {func(r *rack) { r.budgets = pausedBudgets() }, "is paused"},
		"nobody has approved it": {func(r *rack) {
			r.remediation.Spec.Steps[0].RequireApproval, r.policy.Spec.Steps[0].RequireApproval = true, true
		}, "requires approval"},
		"the node is well": {func(r *rack) {
			r.policy.Spec.Match[0].Status, r.policy.Spec.Match[0].Type = corev1.ConditionFalse, "HardwareFailure"
		}, "HardwareFailure"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, switchedOff, byPolicy).withPolicy()
			r.policy = r.policy.DeepCopy()
			r.remediation = r.remediation.DeepCopy()
			test.change(r)
			r.run(30 * time.Minute)
			r.power(v1alpha1.PowerWaiting, test.says)
			if !r.on || len(r.shutdowns) > 0 {
				t.Errorf("on: %t\n%s", r.on, r.story())
			}
		})
	}
}

func TestWhatPeopleSayMeanwhileHoldsTheCutOfAMaintenance(t *testing.T) {
	for name, say := range map[string]func(r *rack){
		"the cluster is paused":  func(r *rack) { r.pause = clusterPause() },
		"the node is excluded":   func(r *rack) { r.excluded = true },
		"another one takes it":   func(r *rack) { r.start("firmware") },
		"it was uncordoned":      func(r *rack) { r.uncordoned = true },
		"the flag is taken away": func(r *rack) { r.allowed = false },
		"it is a dry run by now": func(r *rack) { r.dryRun = true },
		"a pod has come":         func(r *rack) { r.of("repair").Status.Conditions = nil },
		"it is not wanted off":   func(r *rack) { r.of("repair").Spec.Power = "" },
		"it ends":                func(r *rack) { r.end("repair") },
		"somebody has booted it": func(r *rack) { r.boot, r.said = 2, 2 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, switchedOff)
			r.listens = false
			r.run(9 * time.Minute)
			say(r)
			if r.of("repair") != nil {
				r.of("repair").ResourceVersion += "x"
			}
			r.run(30 * time.Minute)
			if len(r.cuts) > 0 || !r.on {
				t.Errorf("cut were %v\n%s", r.cuts, r.story())
			}
		})
	}
}

func TestWhatSomebodySwitchesIsTheirs(t *testing.T) {
	t.Run("off before", func(t *testing.T) {
		r := newRack(t, switchedOff)
		r.on = false
		r.run(5 * time.Minute)
		r.power(v1alpha1.PowerWasOff, "somebody has switched it off")
		r.end("repair")
		r.run(20 * time.Minute)
		if r.on || r.of("repair") != nil {
			t.Errorf("it was switched on\n%s", r.story())
		}
	})
	t.Run("on meanwhile", func(t *testing.T) {
		r := newRack(t, switchedOff)
		r.run(5 * time.Minute)
		r.switchOn()
		r.run(5 * time.Minute)
		r.power(v1alpha1.PowerOn, "boot-1 -> boot-2")
		r.run(time.Hour)
		if !r.on || len(r.cuts)+len(r.shutdowns) != 1 {
			t.Errorf("it was switched off again\n%s", r.story())
		}
	})
}

func TestAMachineIsSwitchedOnAfterTheLastMaintenance(t *testing.T) {
	for name, wanted := range map[string][]func(*v1alpha1.NodeMaintenance){"that wants it off, too": {switchedOff}, "that does not": nil} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, switchedOff)
			r.run(5 * time.Minute)
			r.start("move", wanted...)
			r.run(time.Minute)
			r.end("repair")
			r.run(5 * time.Hour)
			r.power(v1alpha1.PowerOff, "maintenance move holds the node")
			if r.on {
				t.Errorf("it is on\n%s", r.story())
			}
			r.end("move")
			r.run(10 * time.Minute)
			if !r.on || len(r.all) > 0 || !slices.Equal(r.shutdowns, []int{1}) {
				t.Errorf("on: %t, %+v\n%s", r.on, r.all, r.story())
			}
		})
	}
}

func TestAMachineThatNobodyWasThereForIsLeftToPeople(t *testing.T) {
	r := newRack(t, switchedOff)
	r.run(5 * time.Minute)
	r.frozen = true
	r.end("repair")
	r.pass(2 * time.Hour)
	r.run(5 * time.Minute)
	r.power(v1alpha1.PowerLeftOff, "When nobody does, switch it on")
	if r.on {
		t.Errorf("it is on\n%s", r.story())
	}
	t.Run("and that of a node that was deleted", func(t *testing.T) {
		r := newRack(t, switchedOff, byPolicy).withPolicy()
		r.run(5 * time.Minute)
		r.frozen, r.nodeGone = true, true
		r.end("repair")
		r.run(5 * time.Minute)
		r.power(v1alpha1.PowerLeftOff, "node worker-1 was deleted")
		if r.on {
			t.Errorf("it is on\n%s", r.story())
		}
	})
	t.Run("but not that of a person, whose node's name stays", func(t *testing.T) {
		r := newRack(t, switchedOff)
		r.run(5 * time.Minute)
		r.nodeGone = true
		r.run(time.Hour)
		r.power(v1alpha1.PowerOff, "")
		r.end("repair")
		r.run(5 * time.Minute)
		if !r.on {
			t.Errorf("it is off\n%s", r.story())
		}
	})
}

// Whatever read of what is known takes long, the node may be excluded meanwhile.
func TestWhatWasReadLongAgoStopsNothing(t *testing.T) {
	whole := newRack(t, switchedOff)
	whole.listens = false
	whole.run(20 * time.Minute)
	if len(whole.stops) != 2 {
		t.Fatalf("it was asked and cut by %v\n%s", whole.stops, whole.story())
	}
	for i, stop := range whole.stops {
		for call := stop - 5; call < stop; call++ {
			t.Run(fmt.Sprintf("at call %d of %d", call, stop), func(t *testing.T) {
				r := newRack(t, switchedOff)
				r.listens = false
				r.happens = func(now int) {
					if now == call {
						r.pass(factsAge + time.Second)
						r.excluded = true
					}
				}
				r.run(20 * time.Minute)
				if len(r.stops) > i {
					t.Errorf("it was stopped by %v\n%s", r.stops, r.story())
				}
			})
		}
	}
}

// An off of the process before may still be on its way.
func TestWhoTakesOverWaitsBeforeItSwitchesOn(t *testing.T) {
	r := newRack(t, switchedOff)
	r.run(5 * time.Minute)
	r.end("repair")
	r.happens = func(int) { r.died, r.happens = true, nil }
	r.run(proof.Straggle - 2*time.Second)
	r.power(v1alpha1.PowerRestoring, "")
	if r.ons > 0 {
		t.Errorf("it was switched on at once\n%s", r.story())
	}
	r.run(time.Minute)
	if r.ons == 0 {
		t.Errorf("it was not switched on\n%s", r.story())
	}
}

// What holds a cut holds it for as long as it takes, and does not turn it into one that was in vain.
func TestACutThatPeopleHoldBeginsAnew(t *testing.T) {
	r := newRack(t, switchedOff)
	r.listens = false
	r.happens = func(int) {
		if p := r.of("repair").Status.Power; p != nil && p.Phase == v1alpha1.PowerCutting && len(r.cuts) == 0 && r.now.Sub(testNow) < 12*time.Minute {
			r.excluded = true
		}
	}
	r.run(30 * time.Minute)
	r.power(v1alpha1.PowerShuttingDown, "nodemend.dev/exclude")
	if len(r.cuts) > 0 {
		t.Errorf("cut were %v\n%s", r.cuts, r.story())
	}
	r.happens, r.excluded = nil, false
	r.run(15 * time.Minute)
	r.power(v1alpha1.PowerOff, "its power was cut")
}

func TestAMachineIsNotSwitchedOnThatSomebodyHasJustTaken(t *testing.T) {
	whole := newRack(t, switchedOff)
	whole.run(5 * time.Minute)
	whole.end("repair")
	before := whole.calls
	whole.run(time.Minute)
	for call := before + 1; call <= whole.calls; call++ {
		t.Run(fmt.Sprint("at call ", call), func(t *testing.T) {
			r := newRack(t, switchedOff)
			r.run(5 * time.Minute)
			r.end("repair")
			r.happens = func(now int) {
				if now == call {
					r.start("firmware")
				}
			}
			r.run(time.Minute) // the BMC says what is wrong
			if r.of("firmware") == nil {
				t.Errorf("call %d never came\n%s", call, r.story())
			}
		})
	}
}

func TestAMachineWhoseNodeIsOnAnotherOneByNowIsLeftToPeople(t *testing.T) {
	r := newRack(t, switchedOff)
	r.run(5 * time.Minute)
	r.systemUUID, r.frozen = "00112233-4455-6677-8899-aabbccddeeff", true
	r.run(5 * time.Minute)
	r.power(v1alpha1.PowerOff, "")
	r.end("repair")
	r.run(5 * time.Minute)
	r.power(v1alpha1.PowerLeftOff, "is on another one by now")
	if r.on {
		t.Errorf("it is on\n%s", r.story())
	}
}

func TestABMCThatIsAwayAtTheEndIsAskedUntilItAnswers(t *testing.T) {
	r := newRack(t, switchedOff)
	r.run(5 * time.Minute)
	r.end("repair")
	r.readErr = errors.New("lost")
	r.run(40 * time.Minute)
	r.power(v1alpha1.PowerRestoring, "lost")
	r.readErr = nil
	r.run(10 * time.Minute)
	if !r.on || r.of("repair") != nil {
		t.Errorf("on: %t, %+v\n%s", r.on, r.of("repair"), r.story())
	}
}

// What keeps everybody from asking is no time in which the operating system shuts down.
func TestTheTimeToShutDownBeginsWhenTheOperatingSystemIsAsked(t *testing.T) {
	for name, keeps := range map[string]func(r *rack, now bool){
		"people hold it":            func(r *rack, now bool) { r.excluded = now },
		"its BMC does not answer":   func(r *rack, now bool) { r.readErr = map[bool]error{true: power.ErrNoAnswer}[now] },
		"the API server is away":    func(r *rack, now bool) { r.died = now },
		"no remote runner is there": func(r *rack, now bool) { r.died = now },
		"its BMC refused, and then people hold it": func(r *rack, now bool) {
			r.shutdownErr = map[bool]error{true: power.ErrNoAnswer}[now]
			r.excluded = now && (r.excluded || strings.Contains(r.of("repair").Status.Power.Message, power.ErrNoAnswer.Error()))
		},
		"its BMC refused, and then is away": func(r *rack, now bool) {
			r.shutdownErr = map[bool]error{true: power.ErrNoAnswer}[now]
			r.readErr = map[bool]error{true: power.ErrNoAnswer}[now && (r.readErr != nil || strings.Contains(r.of("repair").Status.Power.Message, power.ErrNoAnswer.Error()))]
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, switchedOff)
			r.listens = false
			r.happens = func(int) {
				p := r.of("repair").Status.Power
				keeps(r, p != nil && p.Phase == v1alpha1.PowerShuttingDown && r.now.Sub(testNow) < 12*time.Minute)
			}
			w := r.worker("runner-0")
			r.goOn(w, 12*time.Minute)
			if name == "no remote runner is there" {
				w = r.worker("runner-1")
			}
			r.goOn(w, 90*time.Second)
			r.power(v1alpha1.PowerShuttingDown, "was asked to shut down")
			r.goOn(w, 8*time.Minute)
			if !slices.Equal(r.shutdowns, []int{1}) || len(r.cuts) > 0 {
				t.Errorf("asked were %v, cut were %v\n%s", r.shutdowns, r.cuts, r.story())
			}
			r.goOn(w, 3*time.Minute)
			r.power(v1alpha1.PowerOff, "its power was cut")
		})
	}
}

func TestABMCThatIsSilentBeforeItIsAskedNeedsAPerson(t *testing.T) {
	r := newRack(t, switchedOff)
	r.happens = func(int) {
		if p := r.of("repair").Status.Power; p != nil && p.Phase == v1alpha1.PowerShuttingDown {
			r.readErr = power.ErrNoAnswer
		}
	}
	w := r.worker("runner-0")
	r.goOn(w, unreadTime-time.Minute)
	r.power(v1alpha1.PowerShuttingDown, power.ErrNoAnswer.Error())
	r.goOn(w, 3*time.Minute)
	r.power(v1alpha1.PowerStillOn, "look at its BMC")
	if len(r.shutdowns)+len(r.cuts) > 0 {
		t.Errorf("asked were %v, cut were %v\n%s", r.shutdowns, r.cuts, r.story())
	}
}

func TestABMCThatIsSilentForAMomentIsWaitedForHoweverLongPeopleHeldItsMachine(t *testing.T) {
	r := newRack(t, switchedOff)
	r.happens = func(int) {
		p := r.of("repair").Status.Power
		r.excluded = p != nil && p.Phase == v1alpha1.PowerShuttingDown
		r.readErr = map[bool]error{true: power.ErrNoAnswer}[r.now.Sub(testNow) > unreadTime+5*time.Minute]
	}
	w := r.worker("runner-0")
	r.goOn(w, unreadTime+10*time.Minute)
	r.power(v1alpha1.PowerShuttingDown, power.ErrNoAnswer.Error())
}

// A power that nobody has cut can't be still on in spite of that.
func TestACutIsNotInVainThatNobodyHasSent(t *testing.T) {
	for name, goesOn := range map[string]string{"the API server is away": "runner-0", "no remote runner is there": "runner-1"} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, switchedOff)
			r.listens = false
			r.happens = func(int) {
				p := r.of("repair").Status.Power
				r.died = p != nil && p.Phase == v1alpha1.PowerCutting && r.now.Sub(testNow) < shutdownTime+5*time.Minute
			}
			w := r.worker("runner-0")
			r.goOn(w, shutdownTime+5*time.Minute)
			r.power(v1alpha1.PowerCutting, "it has not shut down")
			if goesOn != "runner-0" {
				w = r.worker(goesOn)
			}
			r.goOn(w, time.Minute)
			r.power(v1alpha1.PowerOff, "its power was cut")
			if !slices.Equal(r.cuts, []int{1}) {
				t.Errorf("cut were %v\n%s", r.cuts, r.story())
			}
		})
	}
	t.Run("who has sent one before is back", func(t *testing.T) {
		r := newRack(t, switchedOff)
		r.listens, r.deaf = false, true
		back, other := r.worker("runner-0"), r.worker("runner-1")
		r.goOn(back, shutdownTime+time.Minute)
		r.power(v1alpha1.PowerCutting, "was told to go off")
		r.excluded = true
		r.goOn(other, 20*time.Second)
		r.power(v1alpha1.PowerShuttingDown, v1alpha1.ExcludeLabel)
		r.excluded = false
		for r.of("repair").Status.Power.Phase == v1alpha1.PowerShuttingDown {
			r.goOn(other, time.Second)
		}
		r.deaf = false
		r.goOn(back, time.Minute)
		r.power(v1alpha1.PowerOff, "its power was cut")
	})
}

// A BMC that does not answer holds a worker for as long as it has: a rack of them must not hold all.
func TestABMCThatDoesNotAnswerIsAskedLessOftenUntilItDoes(t *testing.T) {
	for name, test := range map[string]struct {
		wanted []func(*v1alpha1.NodeMaintenance)
		before func(r *rack, w *MaintenanceWorker)
	}{
		"while it is to shut down":     {nil, func(r *rack, w *MaintenanceWorker) { r.listens = false; r.goOn(w, 10*time.Second) }},
		"while it is proved to be off": {[]func(*v1alpha1.NodeMaintenance){freed}, func(r *rack, w *MaintenanceWorker) { r.goOn(w, 3*time.Minute) }},
		"when it is to come back":      {nil, func(r *rack, w *MaintenanceWorker) { r.goOn(w, 3*time.Minute); r.end("repair"); r.goOn(w, time.Second) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, append(test.wanted, switchedOff)...)
			w := r.worker("runner-0")
			test.before(r, w)
			asked := func(long time.Duration) int {
				before := r.reads
				r.goOn(w, long)
				return r.reads - before
			}
			r.readErr = power.ErrNoAnswer
			if first, later := asked(20*time.Second), asked(6*time.Minute); first < 4 || later < 6 || later > 10 {
				t.Errorf("it was asked %d times in 20 seconds, and %d times in the 6 minutes after that\n%s", first, later, r.story())
			}
			r.readErr = nil
			r.goOn(w, time.Minute)
			r.readErr = power.ErrNoAnswer
			if again := asked(20 * time.Second); again < 4 {
				t.Errorf("it was asked %d times in 20 seconds, after it had answered\n%s", again, r.story())
			}
		})
	}
}
