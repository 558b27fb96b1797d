//go:build e2e

package machine

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/vm/vmtest"
)

// Limits of waits. Usual are a few hundredths of them; others may be busy on this machine.
const (
	// moment is for what is a matter of seconds.
	moment = 2 * time.Minute
	// round is for a remediation to go on to its next state: checks have to run several
	// times, perhaps after a restart.
	round = 4 * time.Minute
	// boot is for a machine to boot.
	boot = vmtest.BootTime

	// outage is how long a machine has no cable, once in each scenario.
	outage = 3 * time.Minute

	poll = 500 * time.Millisecond
)

// scenario is a test that says what it has proved.
type scenario struct {
	*story.Story
	plane *plane
}

// begin begins a scenario, beside others.
func begin(t *testing.T) *scenario {
	t.Helper()
	t.Parallel()
	return &scenario{Story: &story.Story{T: t, Ctx: t.Context(), Poll: poll}, plane: sharedPlane(t)}
}
