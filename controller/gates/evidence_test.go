package gates

import (
	"testing"

	"github.com/nodemend/nodemend/controller/evidence"
)

func TestEvidence(t *testing.T) {
	found := func(states ...evidence.State) Input {
		return input(func(in *Input) {
			in.Findings = nil
			for _, state := range states {
				in.Findings = append(in.Findings, evidence.Finding{State: state, Why: "nobody has looked"})
			}
		})
	}
	runGate(t, Evidence, []gateTest{
		{name: "faulty", in: found(evidence.Faulty)},
		{name: "one of two is faulty", in: found(evidence.Unconfirmed, evidence.Faulty)},
		{name: "nothing is known", in: found(evidence.Unconfirmed, evidence.Clear), reason: "NoEvidence", recheck: EvidenceRecheck,
			messages: []string{"nobody has looked"}},
	})
}
