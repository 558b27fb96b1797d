//go:build e2e

package machine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

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
	*testing.T
	ctx   context.Context
	plane *plane
}

// begin begins a scenario, beside others.
func begin(t *testing.T) *scenario {
	t.Helper()
	t.Parallel()
	return &scenario{T: t, ctx: t.Context(), plane: sharedPlane(t)}
}

func (s *scenario) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// proved is a line of the report.
func (s *scenario) proved(format string, args ...any) {
	s.Helper()
	s.Attr("proved", strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
}

// until waits until done returns true, and tells how long it took. What done returns
// besides is shown if it never does.
func (s *scenario) until(limit time.Duration, what string, done func() (bool, string)) {
	s.Helper()
	began := time.Now()
	last := "nothing"
	err := wait.PollUntilContextTimeout(s.ctx, poll, limit, true, func(context.Context) (ok bool, err error) {
		ok, last = done()
		return ok, nil
	})
	if err != nil {
		s.Fatalf("waited %.0f s, of at most %.0f, in vain until %s; seen last: %s", time.Since(began).Seconds(), limit.Seconds(), what, last)
	}
	s.Logf("%5.1f s until %s (at most %.0f s)", time.Since(began).Seconds(), what, limit.Seconds())
}
