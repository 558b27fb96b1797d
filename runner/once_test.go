//go:build integration

package runner_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"k8s.io/client-go/transport"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/test/faults"
)

// The writes of a runner that executes one action.
const (
	claimWrite  = 1
	resultWrite = 2
)

func TestARunnerThatDiesAtAWriteNeverLeadsToASecondExecution(t *testing.T) {
	for _, test := range []struct {
		write      int
		mode       faults.Mode
		executions int // by the runner that dies and the next one together
		reason     string
	}{
		{claimWrite, faults.Before, 1, v1alpha1.ReasonSucceeded},
		{claimWrite, faults.After, 0, v1alpha1.ReasonNotStarted},
		{resultWrite, faults.Before, 1, v1alpha1.ReasonSucceeded},
		{resultWrite, faults.After, 1, v1alpha1.ReasonSucceeded},
	} {
		t.Run(fmt.Sprintf("%s write %d is committed", test.mode, test.write), func(t *testing.T) {
			f := newFixture(t)
			died := make(chan struct{})
			tr := &faults.Transport{At: test.write, Mode: test.mode, Dead: true, OnFault: func() { close(died) }}
			first := f.start(tr.Wrap)
			action := f.newAction(0)
			<-died
			f.must(first.stop())
			f.start(nil)
			f.expect(action, test.reason, test.executions)
		})
	}
}

func TestARunnerThatDiesWhileTheCommandRunsNeverLeadsToASecondExecution(t *testing.T) {
	f := newFixture(t)
	up := f.blockAfterExecution()
	tr := &faults.Transport{}
	first := f.start(tr.Wrap)
	action := f.newAction(0)
	f.awaitLine(up)
	tr.Kill()
	f.must(first.stop())
	f.start(nil)
	f.expect(action, v1alpha1.ReasonInterrupted, 1)
}

func TestFailingWritesDelayTheReportAndRepeatNothing(t *testing.T) {
	for _, write := range []int{claimWrite, resultWrite} {
		for _, mode := range []faults.Mode{faults.Before, faults.After} {
			for _, times := range []int{1, 4} {
				t.Run(fmt.Sprintf("%d times from write %d, %s the commit", times, write, mode), func(t *testing.T) {
					f := newFixture(t)
					tr := &faults.Transport{At: write, Mode: mode, Times: times}
					f.start(tr.Wrap)
					f.expect(f.newAction(0), v1alpha1.ReasonSucceeded, 1)
					if tr.Faults() == 0 {
						t.Error("no write failed: the test shows nothing")
					}
				})
			}
		}
	}
}

func TestAClaimWhoseLedgerIsLostIsNeverTakenForNothing(t *testing.T) {
	f := newFixture(t)
	died := make(chan struct{})
	tr := &faults.Transport{At: claimWrite, Mode: faults.After, Dead: true, OnFault: func() { close(died) }}
	first := f.start(tr.Wrap)
	action := f.newAction(0)
	<-died
	f.must(first.stop())
	f.start(nil, elsewhere(f))
	f.expect(action, v1alpha1.ReasonInterrupted, 0)
}

func TestASecondRunnerOnTheNodeWaitsForTheEndOfTheFirst(t *testing.T) {
	f := newFixture(t)
	up, release := f.fifo("up"), f.fifo("release")
	f.policy = f.newPolicy(f.appends("executed")+"; echo >"+up+"; read line <"+release, f.appends("second"))
	first := f.start(nil)
	action := f.newAction(0)
	f.awaitLine(up)
	f.start(nil)
	f.must(os.WriteFile(release, []byte("\n"), 0))
	f.expect(action, v1alpha1.ReasonSucceeded, 1)
	f.must(first.stop())
	f.expect(f.newAction(1), v1alpha1.ReasonSucceeded, 2)
}

func TestAnActionThatIsCreatedAgainUnderItsNameIsRefused(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %t", restarted), func(t *testing.T) {
			f := newFixture(t)
			first := f.start(nil)
			action := f.newAction(0)
			f.expect(action, v1alpha1.ReasonSucceeded, 1)
			f.must(f.client.Delete(f.ctx, action))
			if restarted {
				f.must(first.stop())
				f.start(nil)
			}
			again := f.newAction(0, func(a *v1alpha1.NodeAction) { a.Name = action.Name })
			f.expect(again, v1alpha1.ReasonRefused, 1)
		})
	}
}

func TestTwoRunnersThatDecideOnTheSameReadExecuteOnce(t *testing.T) {
	f := newFixture(t)
	var both sync.WaitGroup
	both.Add(2)
	f.start(meetAtFirstWrite(&both))
	f.start(meetAtFirstWrite(&both), elsewhere(f))
	action := f.newAction(0)
	// The one that lost may call the winner's claim interrupted.
	if got := f.finished(action).Finished().Reason; got != v1alpha1.ReasonSucceeded && got != v1alpha1.ReasonInterrupted {
		t.Errorf("ended as %s, want Succeeded or Interrupted", got)
	}
	f.awaitExecutions(1)
	f.stopAll()
	if got := f.executions(); len(got) != 1 {
		t.Errorf("executed %d times, want once", len(got))
	}
}

func TestTwoRunnersThatRaceForManyActionsExecuteEachOnce(t *testing.T) {
	f := newFixture(t)
	var scripts, want []string
	for i := range 16 {
		want = append(want, fmt.Sprintf("step-%02d", i))
		scripts = append(scripts, f.appends(want[i]))
	}
	f.policy = f.newPolicy(scripts...)
	f.start(nil)
	f.start(nil, elsewhere(f))
	var actions []*v1alpha1.NodeAction
	for i := range want {
		actions = append(actions, f.newAction(i))
	}
	for _, action := range actions {
		f.finished(action)
	}
	f.awaitExecutions(len(want))
	f.stopAll()
	if got := f.executions(); !slices.Equal(got, want) {
		t.Errorf("executed %v, want each once", got)
	}
}

// elsewhere gives a runner a ledger that no other sees: one whose /run is not the
// node's.
func elsewhere(f *fixture) func(*runner.Options) {
	return func(o *runner.Options) { o.RunDir = filepath.Join(f.dir, "elsewhere") }
}

// meetAtFirstWrite holds the first write back until both runners are at
// theirs.
func meetAtFirstWrite(both *sync.WaitGroup) transport.WrapperFunc {
	var once sync.Once
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodPut {
				once.Do(func() {
					both.Done()
					both.Wait()
				})
			}
			return next.RoundTrip(req)
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
