package runner

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power/proof"
)

// freesPods has the step free pods and volumes.
func (d *deadNode) freesPods() *deadNode {
	d.Helper()
	step := &d.policy.Spec.Steps[0]
	step.Reboot.OutOfService, step.Timeout.Duration = true, 20*time.Minute
	d.remediation.Spec.Steps = d.policy.Spec.Steps
	d.action.Spec.StepHash, d.action.Spec.Timeout.Duration = hashOf(d.T, step), 20*time.Minute
	return d
}

// taint is what the controller does.
func (d *deadNode) taint(mark v1alpha1.OutOfServiceMark) {
	d.taints, d.mark = []corev1.Taint{mark.Taint()}, mark.String()
	d.note("the node is tainted: %s", mark)
}

func (d *deadNode) held() int32 {
	if d.action == nil || d.action.Status.Power == nil {
		return 0
	}
	return d.action.Status.Power.Held
}

var ourMark = v1alpha1.OutOfServiceMark{BootID: "boot-1", Action: "action"}

func TestTheMachineIsKeptOffUntilItsPodsHaveMoved(t *testing.T) {
	d := newDeadNode(t).freesPods()
	var tainted, movedAt time.Time
	d.happens = func(int) {
		switch {
		case tainted.IsZero() && d.held() >= 3:
			tainted = d.now
			d.taint(ourMark)
		case !tainted.IsZero() && movedAt.IsZero() && d.now.Sub(tainted) > 40*time.Second:
			if d.ons > 0 {
				t.Errorf("it was switched on before its pods had moved\n%s", d.story())
			}
			movedAt = d.now
			moved := ourMark
			moved.Moved = true
			d.taint(moved)
		}
	}
	d.work()
	d.ended(v1alpha1.ReasonSucceeded, "boot-1 -> boot-2")
	if movedAt.IsZero() || d.ons != 1 || d.held() > 6 {
		t.Errorf("moved at %s, %d ons, held %d\n%s", movedAt, d.ons, d.held(), d.story())
	}
}

func TestAMachineComesBackThoughNothingIsFreed(t *testing.T) {
	for name, test := range map[string]struct {
		happens     func(d *deadNode)
		least, most time.Duration // from the proof to the power
	}{
		"no controller":        {func(*deadNode) {}, 2 * time.Minute, 130 * time.Second},
		"pods that do not end": {func(d *deadNode) { d.taint(ourMark) }, 5 * time.Minute, 310 * time.Second},
		"a taint of somebody else": {func(d *deadNode) {
			d.taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown"}}
		}, 0, 5 * time.Second},
		"a taint for another action":    {func(d *deadNode) { d.taint(v1alpha1.OutOfServiceMark{BootID: "boot-1", Action: "other"}) }, 2 * time.Minute, 130 * time.Second},
		"a paused cluster":              {func(d *deadNode) { d.pause = clusterPause() }, 0, 5 * time.Second},
		"a paused policy":               {func(d *deadNode) { d.policy.Spec.Paused = true }, 0, 5 * time.Second},
		"a maintenance of a person":     {func(d *deadNode) { d.holds.Maintenances = maintenances("") }, 0, 5 * time.Second},
		"a remediation that is deleted": {func(d *deadNode) { d.remediation = nil }, 0, 5 * time.Second},
		"a policy without outOfService": {func(d *deadNode) { d.policy.Spec.Steps = newDeadNode(t).policy.Spec.Steps }, 0, 5 * time.Second},
		"a node that is gone":           {func(d *deadNode) { d.nodeGone = true }, 0, 5 * time.Second},
		"an action that is being deleted": {func(d *deadNode) {
			if d.action.DeletionTimestamp == nil {
				d.deleteAction()
			}
		}, 0, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeadNode(t).freesPods()
			var offAt, onAt time.Time
			d.happens = func(int) {
				if p := d.action; p != nil && p.Status.Power != nil && p.Status.Power.Phase == string(proof.ProvedOff) {
					if offAt.IsZero() {
						offAt = d.now
					}
					test.happens(d)
				}
				if d.ons > 0 && onAt.IsZero() {
					onAt = d.now
				}
			}
			d.work()
			if took := onAt.Sub(offAt); offAt.IsZero() || onAt.IsZero() || took < test.least || took > test.most {
				t.Errorf("the power came back after %s, want %s to %s\n%s", took, test.least, test.most, d.story())
			}
			if !slices.Equal(d.cuts, []int{1}) || !d.on {
				t.Errorf("cut were %v, it is on: %t", d.cuts, d.on)
			}
		})
	}
}

// Each call may be the last one of a process: the next one keeps the machine off, and counts on.
func TestARunnerThatDiesWhileItKeepsAMachineOffIsFollowed(t *testing.T) {
	free := func(d *deadNode) {
		switch {
		case d.mark == "" && d.held() >= 3:
			d.taint(ourMark)
		case d.mark == ourMark.String() && d.calls%7 == 0:
			moved := ourMark
			moved.Moved = true
			d.taint(moved)
		}
	}
	whole := newDeadNode(t).freesPods()
	whole.happens = func(int) { free(whole) }
	whole.work()
	for call := 1; call <= whole.calls; call++ {
		for _, lost := range []bool{false, true} {
			d := newDeadNode(t).freesPods()
			last := int32(0)
			d.happens = func(now int) {
				if now == call {
					d.died, d.lost = true, lost
				}
				free(d)
				if d.held() < last {
					t.Errorf("call %d: it was read off %d times, then %d times\n%s", call, last, d.held(), d.story())
				}
				last = d.held()
				if d.ons > 0 && d.mark == "" {
					t.Errorf("call %d: it is switched on, and nothing is freed\n%s", call, d.story())
				}
			}
			d.work()
			d.ended(v1alpha1.ReasonSucceeded, "boot-1 -> boot-2")
		}
	}
}

func TestFrees(t *testing.T) {
	good := func() input {
		in := goodRemoteInput(t)
		in.policy.Spec.Steps[1].Reboot.OutOfService = true
		in.action.Spec.StepHash, in.action.Spec.Timeout.Duration = hashOf(t, &in.policy.Spec.Steps[1]), 20*time.Minute
		in.action.Status.Claim = claimBy("me", "boot-1")
		in.action.Status.Claim.Time.Time = testNow.Add(-8 * time.Minute) // too late to begin
		in.bootID = in.node.Status.NodeInfo.BootID
		return in
	}
	mark := func(in *input, m v1alpha1.OutOfServiceMark) {
		metav1.SetMetaDataAnnotation(&in.node.ObjectMeta, v1alpha1.OutOfServiceAnnotation, m.String())
		in.node.Spec.Taints = append(in.node.Spec.Taints, m.Taint())
	}
	own := v1alpha1.OutOfServiceMark{BootID: "boot-1", Action: good().action.Name}
	moved := own
	moved.Moved = true
	for name, test := range map[string]struct {
		change      func(*input)
		hold, await bool
	}{
		"nobody has begun":         {func(*input) {}, true, true},
		"somebody has":             {func(in *input) { mark(in, own) }, true, false},
		"and people hold it since": {func(in *input) { mark(in, own); in.pause = clusterPause() }, true, false},
		"all is freed":             {func(in *input) { mark(in, moved) }, false, false},
		"a mark without the taint": {func(in *input) { mark(in, moved); in.node.Spec.Taints = nil }, true, true},
		"the taint without a mark": {func(in *input) { in.node.Spec.Taints = []corev1.Taint{own.Taint()} }, false, false},
		"a person's taint besides": {func(in *input) {
			mark(in, own)
			in.node.Spec.Taints = append(in.node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoSchedule})
		}, false, false},
		"another taint": {func(in *input) {
			in.node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
		}, true, true},
		"a step that does not want it": {func(in *input) {
			in.policy.Spec.Steps[1].Reboot.OutOfService = false
			in.action.Spec.StepHash = hashOf(t, &in.policy.Spec.Steps[1])
		}, false, false},
		"no claim":                        {func(in *input) { in.action.Status.Claim = nil }, false, false},
		"no node":                         {func(in *input) { in.node = nil }, false, false},
		"a node that was registered anew": {func(in *input) { in.node.UID = "node-2" }, false, false},
		"a newer boot":                    {func(in *input) { in.bootID = "boot-2" }, false, false},
		"the time for the boot":           {func(in *input) { in.action.Status.Claim.Time.Time = testNow.Add(-14*time.Minute - time.Second) }, false, false},
		"a node that is Ready":            {func(in *input) { in.node.Status.Conditions[0].Status = corev1.ConditionTrue }, false, false},
		"a Lease that is renewed":         {func(in *input) { in.lease = leaseOf(time.Second) }, false, false},
		"a paused budget":                 {func(in *input) { in.holds.Budgets = pausedBudgets() }, false, false},
		"an approval that is withdrawn":   {func(in *input) { in.remediation.Spec.Steps[1].RequireApproval = true }, false, false},
		"a remediation that has gone on":  {func(in *input) { in.remediation.Status.Action = "another" }, false, false},
		"an excluded node":                {func(in *input) { in.node.Labels[v1alpha1.ExcludeLabel] = "true" }, false, false},
	} {
		in := good()
		test.change(&in)
		if hold, await := frees(in); hold != test.hold || await != test.await {
			t.Errorf("%s: hold %t, await %t", name, hold, await)
		}
	}
}

func TestWhatFreesPodsIsBegunEarlier(t *testing.T) {
	in := goodRemoteInput(t)
	step := &in.policy.Spec.Steps[1]
	step.Reboot.OutOfService = true
	in.action.Spec.StepHash, in.action.Spec.Timeout.Duration = hashOf(t, step), 20*time.Minute
	in.action.Status.Claim = claimBy("me", "boot-1")
	in.action.Status.Claim.Time.Time = testNow.Add(-4 * time.Minute)
	if d := decideRemote(in); d.verb != execute {
		t.Errorf("got %+v", d)
	}
	in.action.Status.Claim.Time.Time = testNow.Add(-4*time.Minute - time.Second)
	if d := decideRemote(in); d.outcome.Reason != v1alpha1.ReasonNotStarted {
		t.Errorf("got %+v", d)
	}
}

// switchesOn has the step switch on what was off already.
func (d *deadNode) switchesOn() *deadNode {
	d.freesPods()
	d.on = false
	d.policy.Spec.Steps[0].Reboot.IfOff = v1alpha1.IfOffSwitchOn
	d.remediation.Spec.Steps = d.policy.Spec.Steps
	d.action.Spec.StepHash = hashOf(d.T, &d.policy.Spec.Steps[0])
	return d
}

func TestAMachineThatWasOffIsTakenForCutIfThePolicySaysSo(t *testing.T) {
	for name, test := range map[string]struct {
		tainted func(d *deadNode) // when its pods are being freed
		reason  string
		says    string
		ons     int
	}{
		"its pods move, and it is switched on": {func(d *deadNode) {
			moved := ourMark
			moved.Moved = true
			d.taint(moved)
		}, v1alpha1.ReasonSucceeded, "boot-1 -> boot-2", 1},
		"its pods do not move":          {func(*deadNode) {}, v1alpha1.ReasonSucceeded, "boot-1 -> boot-2", 1},
		"a person works on it by now":   {func(d *deadNode) { d.holds.Maintenances = maintenances("") }, v1alpha1.ReasonPowerWasOff, "something holds the node by now", 0},
		"the cluster is paused":         {func(d *deadNode) { d.pause = clusterPause() }, v1alpha1.ReasonPowerWasOff, "something holds the node by now", 0},
		"the remediation is deleted":    {func(d *deadNode) { d.remediation = nil }, v1alpha1.ReasonPowerWasOff, "something holds the node by now", 0},
		"the policy has another step":   {func(d *deadNode) { d.policy.Spec.Steps = newDeadNode(d.T).policy.Spec.Steps }, v1alpha1.ReasonPowerWasOff, "something holds the node by now", 0},
		"somebody switches it on first": {func(d *deadNode) { d.switchOn() }, v1alpha1.ReasonSucceeded, "boot-1 -> boot-2", 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeadNode(t).switchesOn()
			done := false
			d.happens = func(int) {
				switch {
				case d.held() >= 3 && d.mark == "":
					d.taint(ourMark)
				case d.mark != "" && !done:
					done = true
					test.tainted(d)
				}
			}
			d.work()
			d.ended(test.reason, test.says)
			if proved := d.action.Status.Power.Proof; proved == nil || proved.Apart.Duration < proof.DefaultPlan().Settled || !done {
				t.Errorf("tainted: %t, the proof is %+v\n%s", done, proved, d.story())
			}
			if d.offs != 0 || d.ons != test.ons {
				t.Errorf("%d offs, %d ons\n%s", d.offs, d.ons, d.story())
			}
		})
	}
}

func TestNobodyIsToldThatAMachineWasCutThatWasOff(t *testing.T) {
	for phase, test := range map[proof.Phase]struct{ reason, says string }{
		proof.ProvedOff: {v1alpha1.ReasonPowerWasOff, "nothing was switched: the power was off already, and nobody went on"},
		proof.Restoring: {v1alpha1.ReasonNotBack, "the power was off already, may have been switched on, and nobody went on"},
	} {
		d := newDeadNode(t).switchesOn()
		d.happens = func(int) {
			p := d.action.Status.Power
			d.died = d.died || p != nil && p.Phase == string(phase)
		}
		_ = d.run(d.worker("former"))
		d.died, d.happens = false, nil
		d.pass(3 * time.Hour)
		d.work()
		d.ended(test.reason, test.says)
		if d.offs+d.ons > 0 {
			t.Errorf("%s: %d offs, %d ons\n%s", phase, d.offs, d.ons, d.story())
		}
	}
}

func TestWhoeverDiesAMachineThatWasOffIsSwitchedOnUnlessPeopleHoldIt(t *testing.T) {
	whole := newDeadNode(t).switchesOn()
	whole.work()
	ended := map[string]int{}
	for call := 1; call <= whole.calls; call += 5 {
		d := newDeadNode(t).switchesOn()
		if call%2 == 0 {
			d.happens = func(now int) { d.died, d.lost = d.died || now == call, call%4 == 0 }
		} else {
			d.happens = func(now int) {
				if now == call {
					d.pause = clusterPause()
					ended["ons before it was held"] += d.ons
				}
			}
		}
		d.work()
		ended[d.outcome()]++
		held, again := d.pause != nil, d.outcome() == v1alpha1.ReasonNotStarted && d.ons == 0 // too late for another proof
		if d.offs != 0 || !held && !again && (d.outcome() != v1alpha1.ReasonSucceeded || d.ons == 0) || held && d.ons == 0 && d.on {
			t.Errorf("call %d: %d offs, %d ons, it has ended as %s\n%s", call, d.offs, d.ons, d.outcome(), d.story())
		}
	}
	if ended[v1alpha1.ReasonPowerWasOff] < 3 || ended[v1alpha1.ReasonSucceeded] < 3 {
		t.Errorf("they have ended as %v", ended)
	}
}
