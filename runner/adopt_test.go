package runner

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/serverclock"
	"github.com/nodemend/nodemend/runner/ledger"
	"github.com/nodemend/nodemend/runner/remedy"
)

// adopter is a remedy that is told when an order that it adopts was made.
type adopter struct {
	keeper
	startedAt time.Time
}

func (a *adopter) Adopt(_ context.Context, order remedy.Order) *remedy.Outcome {
	a.startedAt = order.StartedAt
	return &remedy.Outcome{Reason: v1alpha1.ReasonInterrupted}
}

func TestAnAdoptedOrderBeganSoLongAgoWhateverBecameOfTheClock(t *testing.T) {
	const up = time.Hour // of the node, when the order was made 10 minutes ago
	for name, test := range map[string]struct {
		set    time.Duration // by how much the clock was set since
		uptime time.Duration // in the order
		bootID string
		want   time.Duration // from the start that the order tells
	}{
		"nobody has set it":           {uptime: up, bootID: "boot-1"},
		"it ticks a bit slower":       {set: -time.Second, uptime: up, bootID: "boot-1"},
		"it was set back":             {set: -2 * time.Hour, uptime: up, bootID: "boot-1", want: -2 * time.Hour},
		"it was set forward":          {set: time.Hour, uptime: up, bootID: "boot-1", want: time.Hour},
		"an earlier version made it":  {set: -time.Hour, bootID: "boot-1"},
		"it was made in another boot": {set: -time.Hour, uptime: up, bootID: "boot-0"},
	} {
		t.Run(name, func(t *testing.T) {
			book, err := ledger.Open(t.TempDir())
			must(t, err)
			must(t, book.Begin(remedy.Order{
				Action: "action", UID: "uid", BootID: test.bootID, StartedAt: testNow, Uptime: test.uptime,
				Step: v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{}},
			}))
			clock := clocktesting.NewFakeClock(testNow.Add(10*time.Minute + test.set))
			kind := &adopter{}
			w, err := NewWorker(WorkerOptions{
				NodeName: "worker-1", BootID: "boot-1", Ledger: book,
				Clock: clock, ServerClock: serverclock.New(clock), Uptime: func() time.Duration { return up + 10*time.Minute },
				Remedies: map[string]remedy.Remedy{v1alpha1.RemedyReboot: kind},
				Events:   record.NewFakeRecorder(8), Registry: prometheus.NewRegistry(),
			})
			must(t, err)
			w.Adopt(t.Context())
			if want := testNow.Add(test.want); !kind.startedAt.Equal(want) {
				t.Errorf("it is adopted as of %s, want %s", kind.startedAt, want)
			}
		})
	}
}
