//go:build e2e

package machine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodemend/nodemend/test/vm/vmtest"
)

// Limits of waits. Usual are a tenth of them; others may be busy on this machine.
const (
	// moment is for what is a matter of seconds.
	moment = time.Minute
	// round is for a remediation to go on to its next state: checks have to run several
	// times, perhaps after a restart.
	round = 2 * time.Minute
	// boot is for a machine to boot.
	boot = vmtest.BootTime

	poll = 200 * time.Millisecond
)

// scenario is a test that keeps account of what it has proved.
type scenario struct {
	*testing.T
	ctx    context.Context
	plane  *plane
	began  time.Time
	proofs []string
}

func begin(t *testing.T) *scenario {
	t.Helper()
	s := &scenario{T: t, ctx: t.Context(), plane: sharedPlane(t)}
	s.began = time.Now()
	t.Cleanup(func() {
		outcome := "ok"
		switch {
		case t.Failed():
			outcome = "FAIL"
		case t.Skipped():
			outcome = "skip"
		}
		shared.Lock()
		defer shared.Unlock()
		shared.report.Add(t.Name(), outcome, time.Since(s.began), s.proofs)
	})
	return s
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
	s.proofs = append(s.proofs, fmt.Sprintf(format, args...))
}

// until waits until done returns true, and tells how long it took. What done returns
// besides is shown if it never does.
func (s *scenario) until(limit time.Duration, what string, done func() (bool, string)) {
	s.Helper()
	began := time.Now()
	var last string
	err := wait.PollUntilContextTimeout(s.ctx, poll, limit, true, func(context.Context) (ok bool, err error) {
		ok, last = done()
		return ok, nil
	})
	if err != nil {
		s.Fatalf("waited %s in vain until %s; seen: %s", limit, what, last)
	}
	s.Logf("%5.1f s until %s (at most %.0f s)", time.Since(began).Seconds(), what, limit.Seconds())
}
