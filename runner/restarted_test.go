package runner

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/serverclock"
	"github.com/nodemend/nodemend/runner/ledger"
	"github.com/nodemend/nodemend/runner/remedy"
)

func TestARunnerThatWasRestartedKnowsWhenTheLastActionEnded(t *testing.T) {
	const up, ended = time.Hour, 50 * time.Minute // so it ended 10 minutes ago
	for name, test := range map[string]struct {
		seen   time.Duration // ago
		bootID string        // of the action that has ended
		want   string
	}{
		"the fault was seen after it":      {seen: 9 * time.Minute, bootID: "boot-1", want: v1alpha1.ReasonSucceeded},
		"the fault was seen before it":     {seen: 11 * time.Minute, bootID: "boot-1", want: v1alpha1.ReasonNotNeeded},
		"it ended before the node booted":  {seen: 11 * time.Minute, bootID: "boot-0", want: v1alpha1.ReasonSucceeded},
		"the fault was seen before a boot": {seen: 61 * time.Minute, bootID: "boot-0", want: v1alpha1.ReasonNotNeeded},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			earlier, err := ledger.Open(dir)
			must(t, err)
			must(t, earlier.Begin(remedy.Order{Action: "earlier", UID: "earlier", BootID: test.bootID, StartedAt: testNow.Add(-time.Hour)}))
			must(t, earlier.End("earlier", remedy.Outcome{Reason: v1alpha1.ReasonFailed}, ended))
			must(t, earlier.Reported("earlier"))

			book, err := ledger.Open(dir)
			must(t, err)
			nothing := func(int) {}
			api := &slowAPI{input: goodInput(t), clock: clocktesting.NewFakeClock(testNow), read: nothing, claimed: func() {}}
			api.takes = func(int) time.Duration { return 0 }
			api.node.Status.Conditions[1].LastHeartbeatTime = metav1.NewTime(testNow.Add(-test.seen))
			w, err := NewWorker(WorkerOptions{
				NodeName: api.nodeName, BootID: api.bootID, API: api, Ledger: book,
				Clock: api.clock, ServerClock: serverclock.New(api.clock), Uptime: func() time.Duration { return up },
				Remedies: map[string]remedy.Remedy{v1alpha1.RemedyCommand: &keeper{}},
				Vetoed:   func(context.Context, remedy.Order) string { return "" },
				Recheck:  func(context.Context) error { return nil },
				Events:   record.NewFakeRecorder(8), Registry: prometheus.NewRegistry(),
			})
			must(t, err)
			must(t, w.Work(t.Context(), api.action.Name))
			if c := api.action.Finished(); c == nil || c.Reason != test.want {
				t.Errorf("it ended as %v, want %s", c, test.want)
			}
		})
	}
}
