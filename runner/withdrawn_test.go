package runner

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/serverclock"
	"github.com/nodemend/nodemend/runner/ledger"
	"github.com/nodemend/nodemend/runner/remedy"
)

// slowAPI is an API server by whose answers time passes.
type slowAPI struct {
	input
	clock *clocktesting.FakeClock
	// takes is how long a read takes that comes after so many others.
	takes func(reads int) time.Duration
	reads int
	// claimed and read are called when a claim and when a read has come to its end.
	claimed func()
	read    func(reads int)
}

func (a *slowAPI) answer() {
	a.clock.Step(a.takes(a.reads))
	a.reads++
	a.read(a.reads)
}

// Each answer is of when it was asked for, as far as is known.
func (a *slowAPI) Action(context.Context, string) (*v1alpha1.NodeAction, error) {
	return a.action, nil
}

func (a *slowAPI) Remediation(context.Context, string) (*v1alpha1.Remediation, error) {
	r := a.remediation
	a.answer()
	return r, nil
}

func (a *slowAPI) Policy(context.Context, string) (*v1alpha1.RemedyPolicy, error) {
	p := a.policy
	a.answer()
	return p, nil
}

func (a *slowAPI) Node(context.Context, string) (*corev1.Node, error) {
	n := a.node
	a.answer()
	return n, nil
}

func (a *slowAPI) Budget(context.Context, string) (*v1alpha1.RemediationBudget, error) {
	b := a.pause
	a.answer()
	return b, nil
}

func (a *slowAPI) Request(context.Context, *v1alpha1.Request) (*v1alpha1.NodemendRemediation, error) {
	asked := a.asked
	a.answer()
	return asked, nil
}

func (a *slowAPI) UpdateStatus(_ context.Context, action *v1alpha1.NodeAction) error {
	if action.Finished() == nil {
		a.claimed()
	}
	return nil
}

func TestWhatIsWithdrawnOnTheWayToItsExecutionIsNotExecuted(t *testing.T) {
	const readsOfAll = 4
	quick := func(int) time.Duration { return 0 }
	for name, test := range map[string]struct {
		takes func(reads int) time.Duration
		// withdrawAt is after how many reads it is withdrawn; 0: never.
		withdrawAt int
		claim      time.Duration
		veto       bool // when the claim is on its way
		reason     string
	}{
		"nothing is":                           {takes: quick, reason: v1alpha1.ReasonSucceeded},
		"vetoed while the claim is on its way": {takes: quick, veto: true, reason: v1alpha1.ReasonRefused},
		"withdrawn while the claim takes long": {takes: quick, withdrawAt: readsOfAll, claim: 2 * time.Second, reason: v1alpha1.ReasonSuperseded},
		"withdrawn while the reads after it take long": {
			takes: func(reads int) time.Duration {
				if reads >= readsOfAll && reads < 2*readsOfAll {
					return 3 * time.Second
				}
				return 0
			},
			claim: 2 * time.Second, withdrawAt: 2 * readsOfAll, reason: v1alpha1.ReasonSuperseded,
		},
		"each read is slow": {takes: func(int) time.Duration { return time.Second }, reason: v1alpha1.ReasonSucceeded},
		"no read is quick":  {takes: func(int) time.Duration { return 3 * time.Second }, reason: v1alpha1.ReasonExpired},
	} {
		t.Run(name, func(t *testing.T) {
			book, err := ledger.Open(t.TempDir())
			must(t, err)
			api := &slowAPI{input: goodInput(t), clock: clocktesting.NewFakeClock(testNow), takes: test.takes}
			vetoed := ""
			api.claimed = func() {
				api.clock.Step(test.claim)
				if test.veto {
					vetoed = "the owner denies it"
				}
			}
			api.read = func(reads int) {
				if reads == test.withdrawAt {
					api.remediation = nil
				}
			}
			api.action.CreationTimestamp = metav1.NewTime(testNow)
			api.action.Spec.ExpiresAt = metav1.NewTime(testNow.Add(5 * time.Minute))
			kind := &keeper{}
			w, err := NewWorker(WorkerOptions{
				NodeName: api.nodeName, BootID: api.bootID, API: api, Ledger: book,
				Clock: api.clock, ServerClock: serverclock.New(api.clock), Uptime: func() time.Duration { return time.Hour },
				Remedies: map[string]remedy.Remedy{v1alpha1.RemedyCommand: kind},
				Vetoed:   func(context.Context, remedy.Order) string { return vetoed },
				Recheck:  func(context.Context) error { return nil },
				Events:   record.NewFakeRecorder(8), Registry: prometheus.NewRegistry(),
			})
			must(t, err)
			must(t, w.Work(t.Context(), api.action.Name))
			if c := api.action.Finished(); c == nil || c.Reason != test.reason {
				t.Errorf("it ended as %v, want %s", c, test.reason)
			}
			if want := test.reason == v1alpha1.ReasonSucceeded; kind.executed != want {
				t.Errorf("executed %t, want %t", kind.executed, want)
			}
		})
	}
}
