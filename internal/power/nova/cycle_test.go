package nova

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/internal/power/proof"
	played "github.com/nodemend/nodemend/test/openstack"
)

// passing is a clock by which time passes for who waits.
type passing struct{ *clocktesting.FakeClock }

// NewTimer implements clock.Clock.
func (c passing) NewTimer(d time.Duration) clock.Timer {
	timer := c.FakeClock.NewTimer(d)
	c.Step(d)
	return timer
}

// A power cycle by Nova has the proofs of all others: Nova asks the operating system first, for a
// minute, and a compute service that is dead does nothing of what Nova has accepted.
func TestAServerIsPowerCycledOnProof(t *testing.T) {
	for name, test := range map[string]struct {
		// stops is how long after os-stop the server is SHUTOFF; 0: never.
		stops   time.Duration
		outcome proof.Outcome
		proved  bool
		calls   []string
	}{
		"its operating system hangs":       {time.Minute, proof.PowerCycled, true, []string{"os-stop worker-1", "os-start worker-1"}},
		"it stops at once":                 {time.Second, proof.PowerCycled, true, []string{"os-stop worker-1", "os-start worker-1"}},
		"its host is dead":                 {0, proof.PowerStillOn, false, []string{"os-stop worker-1"}},
		"its host is dead for a long time": {5 * time.Minute, proof.WentOffLate, false, []string{"os-stop worker-1", "os-start worker-1"}},
		// Nova's compute service does then what it was told before.
		"its host is back after ten minutes": {10 * time.Minute, proof.WentOffLate, false, []string{"os-stop worker-1", "os-start worker-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := played.Start(t, played.Active(one, "worker-1"))
			cloud.Sleepy = true
			c := passing{clocktesting.NewFakeClock(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))}
			var asked time.Time
			cloud.Before = func(string) int {
				cloud.Lock()
				defer cloud.Unlock()
				switch server := cloud.Servers[one]; {
				case server.TaskState == "powering-on":
					server.Started()
				case server.TaskState == "powering-off" && asked.IsZero():
					asked = c.Now()
				case server.TaskState == "powering-off" && test.stops > 0 && c.Since(asked) >= test.stops:
					server.Stopped()
				}
				return 0
			}
			s := New(of(cloud))
			plan := proof.DefaultPlan()
			plan.Node, plan.BootID, plan.Machine, plan.Reader, plan.Switch = "worker-1", "1", machine(t, one), "the test", s.String()
			began := c.Now()
			got, err := proof.Runner{
				Clock: c, Switch: s,
				Facts: func(context.Context) (proof.Facts, error) {
					return proof.Facts{Confirmed: true, BootID: "1", Restore: true, Over: c.Since(began) > time.Hour}, nil
				},
				Keep: func(context.Context, proof.Progress) error { return nil },
			}.Run(t.Context(), plan, proof.Progress{})
			if err != nil || got.Outcome != test.outcome || test.proved != (got.Proof != nil && got.Proof.Proves("worker-1", "1")) {
				t.Errorf("got %+v, %v, want %s", got, err, test.outcome)
			}
			if calls := cloud.Calls(); !slices.Equal(calls, test.calls) {
				t.Errorf("got %s", strings.Join(calls, ", "))
			}
		})
	}
}
