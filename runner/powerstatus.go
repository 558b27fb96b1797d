package runner

import (
	"fmt"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power/proof"
)

// powerStatus is how an action keeps the progress of a power cycle.
func powerStatus(runnerID string, p proof.Progress) *v1alpha1.PowerCycleStatus {
	status := &v1alpha1.PowerCycleStatus{RunnerID: runnerID, Phase: string(p.Phase), Outcome: string(p.Outcome), Message: clip(p.Message), Held: p.Held}
	if p.Proof != nil {
		status.Proof = powerProof(*p.Proof)
	}
	return status
}

// powerProof is how a proof is kept.
func powerProof(p proof.Proof) *v1alpha1.PowerProof {
	r := p.Record()
	return &v1alpha1.PowerProof{
		Kind: r.Kind, BootID: r.BootID, Machine: r.Machine.String(), Reader: r.Reader, Switch: r.Switch,
		First: powerReading(r.First), Second: powerReading(r.Second), Apart: v1alpha1.Duration{Duration: r.Apart},
	}
}

func powerReading(r proof.ReadRecord) v1alpha1.PowerReading {
	return v1alpha1.PowerReading{Time: v1alpha1.NewMicroTime(r.Time), GUID: r.GUID.String(), Order: string(r.Order)}
}

// progressOf returns what an action has kept of the power cycle of the node. What is no proof,
// of this boot of this node, is left out: then it has to be proved anew.
func progressOf(action *v1alpha1.NodeAction) (proof.Progress, error) {
	status := action.Status.Power
	if status == nil {
		return proof.Progress{Phase: proof.Looking}, nil
	}
	p := proof.Progress{Phase: proof.Phase(status.Phase), Outcome: proof.Outcome(status.Outcome), Message: status.Message}
	if status.Proof == nil || status.Proof.BootID != action.Status.Claim.BootID {
		return p, nil
	}
	proved, err := proof.OfAction(action)
	if err != nil {
		return p, fmt.Errorf("status.power.proof of NodeAction %s: %w", action.Name, err)
	}
	p.Proof, p.Held = &proved, status.Held
	return p, nil
}
