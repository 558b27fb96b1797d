package unit

import (
	"testing"

	"github.com/nodemend/nodemend/internal/deadline"
)

// After the timeout come the grace of a killed unit, a call to find its job and one to cancel
// it, and a last look.
func TestARestartIsGivenUpWithinTheGrace(t *testing.T) {
	if latest := killGrace + 2*answerTime + settleTime + pollInterval; latest > deadline.EndGrace {
		t.Errorf("an outcome may come %s after the timeout", latest)
	}
}
