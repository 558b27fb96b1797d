package gates

import (
	"time"

	"github.com/nodemend/nodemend/controller/evidence"
)

// ReasonNoEvidence says that the fault is not confirmed.
const ReasonNoEvidence = "NoEvidence"

// EvidenceRecheck is for evidence that wakes nobody: the kubelet's Lease.
const EvidenceRecheck = 30 * time.Second

// Evidence holds an action as long as no check has confirmed the fault
// recently, and since the last action.
func Evidence(in Input) Verdict {
	if evidence.AnyFaulty(in.Findings) {
		return Verdict{}
	}
	return Verdict{Reason: ReasonNoEvidence, Message: evidence.Why(in.Findings), Recheck: EvidenceRecheck}
}
