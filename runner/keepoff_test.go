package runner

import (
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
)

// held is how often the machine was read off since the proof.
func (r *rack) held() int32 { return r.of("repair").Status.Power.Held }

func (r *rack) proved() bool {
	p, err := proof.OfMaintenance(r.of("repair"))
	return err == nil && p.Proves(racked, "boot-1")
}

func TestAMachineThatIsOffForAMaintenanceIsProvedToBeOff(t *testing.T) {
	r := newRack(t, switchedOff, freed)
	r.run(time.Minute)
	r.power(v1alpha1.PowerOff, "Ready of the node is not Unknown yet")
	r.run(2 * time.Minute)
	r.power(v1alpha1.PowerOff, "read off for 2m0s")
	if r.proved() || r.held() != 0 {
		t.Fatalf("it is proved too early\n%s", r.story())
	}
	r.run(3 * time.Minute) // by another process, which begins anew
	r.power(v1alpha1.PowerOff, "are to be freed")
	p := r.of("repair").Status.Power.Proof
	if !r.proved() || r.held() < 3 || p.Apart.Duration < 2*time.Minute || p.Machine != machineUUID {
		t.Fatalf("it is not proved, or not read off again and again: %+v\n%s", r.of("repair").Status.Power, r.story())
	}
	r.mark = "boot-1 maintenance/repair"
	r.run(time.Minute)
	r.power(v1alpha1.PowerOff, "are freed by the taint")
	held := r.held()
	r.run(time.Hour)
	if r.held() != held || r.on {
		t.Errorf("%d readings, then %d\n%s", held, r.held(), r.story())
	}
	r.end("repair")
	r.run(20 * time.Second)
	r.power(v1alpha1.PowerRestoring, "")
	if !r.proved() {
		t.Error("the proof is lost")
	}
}

// If the controller may not free anything, the BMC is left alone after a while.
func TestAMachineIsNotReadForEverIfNobodyFreesItsPods(t *testing.T) {
	r := newRack(t, switchedOff, freed)
	r.run(time.Hour)
	r.power(v1alpha1.PowerOff, "set remoteRunner.outOfService of the chart")
	if r.held() != maxHeld {
		t.Errorf("it was read off %d times", r.held())
	}
}

// Whoever goes on needs readings of its own for a proof, and none of what is proved.
func TestAProofOfAMaintenanceOutlivesTheRunner(t *testing.T) {
	r := newRack(t, switchedOff, freed)
	r.run(3 * time.Minute)
	r.run(time.Minute) // by another process
	if r.proved() {
		t.Fatalf("it is proved by two readings of two processes\n%s", r.story())
	}
	r.run(3 * time.Minute)
	held := r.held()
	if !r.proved() || held == 0 {
		t.Fatalf("it is not proved\n%s", r.story())
	}
	was := r.of("repair").Status.Power.Proof.Second.Time
	r.run(110 * time.Second) // another process does not know whether the BMC has restarted
	if r.held() != held {
		t.Errorf("%d readings, then %d\n%s", held, r.held(), r.story())
	}
	r.run(150 * time.Second) // and another one
	if r.held() <= held || r.of("repair").Status.Power.Proof.Second.Time != was {
		t.Errorf("%d readings, then %d: %+v\n%s", held, r.held(), r.of("repair").Status.Power.Proof, r.story())
	}
}

// A BMC that has restarted says off until it has found its machine, which somebody may have switched on.
func TestAMachineWhoseBMCHasRestartedIsSaidToBeOffLater(t *testing.T) {
	r := newRack(t, switchedOff, freed)
	var fails, last time.Time
	held := int32(0)
	r.happens = func(int) {
		r.readErr = nil
		switch {
		case fails.IsZero() && r.proved() && r.held() > 3:
			fails, held = r.now, r.held()
		case fails.IsZero():
		case r.now.Sub(fails) < 20*time.Second:
			r.readErr, held = power.ErrNoAnswer, r.held()
		case r.held() > held && last.IsZero():
			last = r.now
		}
	}
	r.run(10 * time.Minute)
	if took := last.Sub(fails); last.IsZero() || took < 140*time.Second || took > 160*time.Second {
		t.Errorf("it is said to be off again %s after its BMC did not answer\n%s", took, r.story())
	}
}

// A lamp that hangs must not keep the readings so far apart that they prove nothing.
func TestALampHasLittleTimeWhileItsMachineIsToBeProvedToBeOff(t *testing.T) {
	r := newRack(t, switchedOff, identified, freed)
	r.identifyErr = power.ErrNoAnswer
	r.run(20 * time.Second)
	if before := r.lampTime; before <= lampTime {
		t.Errorf("it has %s", before)
	}
	r.run(6 * time.Minute)
	if !r.proved() || r.lampTime > lampTime {
		t.Errorf("it has %s; proved: %t\n%s", r.lampTime, r.proved(), r.story())
	}
}

func TestNothingIsFreedForAMaintenanceAsLongAsSomethingForbidsIt(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *rack)
		says   string
	}{
		"the flag is taken away":  {func(r *rack) { r.allowed = false }, "remoteRunner.maintenancePower"},
		"it is a dry run by now":  {func(r *rack) { r.dryRun = true }, "dry run"},
		"the cluster is paused":   {func(r *rack) { r.pause = clusterPause() }, "paused"},
		"the node is excluded":    {func(r *rack) { r.excluded = true }, v1alpha1.ExcludeLabel},
		"it was uncordoned":       {func(r *rack) { r.uncordoned = true }, "not cordoned"},
		"another one takes it":    {func(r *rack) { r.start("firmware") }, "firmware"},
		"the node is gone":        {func(r *rack) { r.nodeGone = true }, "there is no node"},
		"it is another machine":   {func(r *rack) { r.systemUUID = "5" + machineUUID[1:] }, "another machine"},
		"it answers":              {func(r *rack) { r.heard = r.now.Add(24 * time.Hour) }, "is not Unknown yet"},
		"somebody has freed them": {func(r *rack) { r.mark = "boot-1 action" }, "is set"},
		"the BMC does not answer": {func(r *rack) { r.readErr = power.ErrNoAnswer }, "no answer"},
		"another program read it": {func(r *rack) { r.reported = true }, "what another program has read"},
		"it is another's BMC":     {func(r *rack) { r.guid[5]++ }, "GUID"},
		"somebody switches it on": {func(r *rack) { r.switchOn(); r.upAt = r.now.Add(24 * time.Hour) }, "says On"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, after := range []time.Duration{2 * time.Minute, 4 * time.Minute} { // before the proof, and after
				r := newRack(t, switchedOff, freed)
				r.run(after)
				held, proved := r.held(), r.proved()
				test.change(r)
				r.run(10 * time.Minute)
				r.power(v1alpha1.PowerOff, test.says)
				if r.held() != held || r.proved() != proved || proved != (after == 4*time.Minute) {
					t.Errorf("after %s: %d readings, then %d; proved %t, then %t\n%s", after, held, r.held(), proved, r.proved(), r.story())
				}
			}
		})
	}
	t.Run("the maintenance does not say it", func(t *testing.T) {
		r := newRack(t, switchedOff)
		r.run(10 * time.Minute)
		r.power(v1alpha1.PowerOff, "")
		if r.proved() || strings.Contains(r.of("repair").Status.Power.Message, "freed") {
			t.Error(r.story())
		}
	})
	t.Run("the policy does not say it", func(t *testing.T) {
		r := newRack(t, switchedOff, freed, byPolicy).withPolicy()
		r.run(10 * time.Minute)
		r.power(v1alpha1.PowerOff, "does not say outOfService")
		if r.proved() {
			t.Error(r.story())
		}
	})
	t.Run("the policy says it", func(t *testing.T) {
		r := newRack(t, switchedOff, freed, byPolicy).withPolicy()
		r.policy.Spec.Steps[0].Maintenance.OutOfService = true // the remediation shares the step
		r.run(10 * time.Minute)
		if !r.proved() {
			t.Error(r.story())
		}
	})
}
