//go:build integration

package proof

import (
	"context"
	"testing"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/ipmilan"
	"github.com/nodemend/nodemend/test/ipmisim"
)

func TestARealBMCSwitchesAMachineOffAndOnWithAProof(t *testing.T) {
	sim := ipmisim.Start(t)
	host, port := sim.LAN()
	bmc := ipmilan.New(ipmilan.Options{Host: host, Port: port, User: ipmisim.Operator, Password: power.Secret{File: sim.PasswordFile()}})
	machine, err := power.ParseUUID(ipmisim.GUID)
	if err != nil {
		t.Fatal(err)
	}
	plan := DefaultPlan()
	plan.Node, plan.BootID, plan.Machine, plan.Reader, plan.Switch = "worker-1", "1", machine, "the test", bmc.String()
	plan.Gap, plan.Settled = MinGap, MinGap

	var phases []Phase
	runner := Runner{
		Clock: clock.RealClock{}, Switch: bmc,
		Facts: func(context.Context) (Facts, error) { return Facts{Confirmed: true, BootID: "1", Restore: true}, nil },
		Keep:  func(_ context.Context, p Progress) error { phases = append(phases, p.Phase); return nil },
	}
	got, err := runner.Run(t.Context(), plan, Progress{})
	if err != nil || got.Outcome != PowerCycled || got.Proof == nil || !got.Proof.Proves("worker-1", "1") {
		t.Fatalf("got %+v, %v", got, err)
	}
	t.Log(phases, got.Proof)
	if r, err := bmc.Read(t.Context(), machine); err != nil || r.Power != power.On {
		t.Errorf("got %+v, %v", r, err)
	}

	sim.PowerOff()
	got, err = runner.Run(t.Context(), plan, Progress{})
	if err != nil || got.Outcome != PowerWasOff || !got.Proof.Proves("worker-1", "1") {
		t.Errorf("got %+v, %v", got, err)
	}
	if r, err := bmc.Read(t.Context(), machine); err != nil || r.Power != power.Off {
		t.Errorf("power that was off was switched: %+v, %v", r, err)
	}

	plan.Machine = power.UUID{1, 2}
	got, err = runner.Run(t.Context(), plan, Progress{})
	if err != nil || got.Outcome != NotTheMachine || got.Proof != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}
