//go:build integration

package runner_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/boot"
)

func TestAnActionIsClaimedExecutedOnceAndReported(t *testing.T) {
	f := newFixture(t)
	p := f.start(nil)
	got := f.expect(f.newAction(0), v1alpha1.ReasonSucceeded, 1)

	bootID, err := os.ReadFile(boot.IDPath)
	f.must(err)
	if c := got.Status.Claim; c == nil || c.RunnerID == "" || c.Remedy != v1alpha1.RemedyCommand || c.BootID != strings.TrimSpace(string(bootID)) {
		t.Errorf("got claim %+v, want one of a command in boot %s", c, bootID)
	}
	if r := got.Status.Result; r == nil || r.ExitCode == nil || *r.ExitCode != 0 {
		t.Errorf("got result %+v, want exit code 0", r)
	}
	for _, field := range got.ManagedFields {
		if field.Subresource == "status" && field.Manager != "nodemend-runner" {
			t.Errorf("the status was written by %q, want nodemend-runner", field.Manager)
		}
	}
	f.must(p.stop())
	families, err := p.registry.Gather()
	f.must(err)
	if got := fmt.Sprint(families); !strings.Contains(got, "nodemend_runner_actions_total") || !strings.Contains(got, `value:"Succeeded"`) {
		t.Errorf("metrics do not count the action: %s", got)
	}
}

func TestARefusedActionIsFinishedAndNotExecuted(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*fixture) func(*v1alpha1.NodeAction)
		reason string
	}{
		{
			name: "no such policy",
			change: func(*fixture) func(*v1alpha1.NodeAction) {
				return func(a *v1alpha1.NodeAction) { a.Spec.Policy.Name = "no-such-policy" }
			},
			reason: v1alpha1.ReasonSuperseded,
		},
		{
			name: "a policy that was deleted and created again",
			change: func(f *fixture) func(*v1alpha1.NodeAction) {
				return func(*v1alpha1.NodeAction) {
					again := &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: f.policy.Name}, Spec: f.policy.Spec}
					f.must(f.client.Delete(f.ctx, f.policy))
					f.must(f.client.Create(f.ctx, again))
				}
			},
			reason: v1alpha1.ReasonSuperseded,
		},
		{
			name: "a step that is not in the policy",
			change: func(*fixture) func(*v1alpha1.NodeAction) {
				return func(a *v1alpha1.NodeAction) { a.Spec.StepHash = strings.Repeat("0", 64) }
			},
			reason: v1alpha1.ReasonSuperseded,
		},
		{
			name: "past its time",
			change: func(*fixture) func(*v1alpha1.NodeAction) {
				return func(a *v1alpha1.NodeAction) { a.Spec.ExpiresAt = metav1.NewTime(time.Now().Add(-time.Second)) }
			},
			reason: v1alpha1.ReasonExpired,
		},
		{
			name: "an earlier node of the same name",
			change: func(*fixture) func(*v1alpha1.NodeAction) {
				return func(a *v1alpha1.NodeAction) { a.Spec.NodeUID = "earlier" }
			},
			reason: v1alpha1.ReasonRefused,
		},
		{
			name: "the fault is gone",
			change: func(f *fixture) func(*v1alpha1.NodeAction) {
				return func(*v1alpha1.NodeAction) { f.setFault(corev1.ConditionFalse) }
			},
			reason: v1alpha1.ReasonNotNeeded,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			f.start(nil)
			got := f.expect(f.newAction(0, test.change(f)), test.reason, 0)
			if got.Status.Claim != nil {
				t.Errorf("it was claimed: %+v", got.Status.Claim)
			}
		})
	}
}

func TestNothingIsExecutedInAPauseOfTheCluster(t *testing.T) {
	paused, err := json.Marshal(&v1alpha1.RemediationBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "RemediationBudget"},
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterPauseBudget},
		Spec:       v1alpha1.RemediationBudgetSpec{Paused: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	// Others use the same API server, so what is paused is this runner's view of it.
	pauseRead := func(play func(read int32) *http.Response) transport.WrapperFunc {
		var reads atomic.Int32
		return func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if strings.HasSuffix(req.URL.Path, "/remediationbudgets/"+v1alpha1.ClusterPauseBudget) {
					if played := play(reads.Add(1)); played != nil {
						played.Request = req
						return played, nil
					}
				}
				return next.RoundTrip(req)
			})
		}
	}
	answer := func(status int, body []byte) *http.Response {
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		}
	}
	t.Run("the pause is there", func(t *testing.T) {
		f := newFixture(t)
		f.start(pauseRead(func(int32) *http.Response { return answer(http.StatusOK, paused) }))
		if got := f.expect(f.newAction(0), v1alpha1.ReasonRefused, 0); got.Status.Claim != nil {
			t.Errorf("it was claimed: %+v", got.Status.Claim)
		}
	})
	t.Run("nobody knows at first, and then it is there", func(t *testing.T) {
		f := newFixture(t)
		f.start(pauseRead(func(read int32) *http.Response {
			if read < 3 {
				return answer(http.StatusForbidden, []byte("{}"))
			}
			return answer(http.StatusOK, paused)
		}))
		f.expect(f.newAction(0), v1alpha1.ReasonRefused, 0)
	})
	t.Run("nobody knows at first, and then there is none", func(t *testing.T) {
		f := newFixture(t)
		f.start(pauseRead(func(read int32) *http.Response {
			if read < 3 {
				return answer(http.StatusForbidden, []byte("{}"))
			}
			return nil
		}))
		f.expect(f.newAction(0), v1alpha1.ReasonSucceeded, 1)
	})
}

func TestTheActionsOfOtherNodesAreLeftAlone(t *testing.T) {
	f := newFixture(t)
	f.start(nil)
	foreign := f.newAction(0, func(a *v1alpha1.NodeAction) { a.Spec.NodeName = "another-node" })
	f.expect(f.newAction(0), v1alpha1.ReasonSucceeded, 1)
	f.await(foreign, func(a *v1alpha1.NodeAction) bool { return a.ResourceVersion == foreign.ResourceVersion })
}

func TestARunnerThatIsStoppedKillsAndReports(t *testing.T) {
	f := newFixture(t)
	up := f.blockAfterExecution()
	p := f.start(nil)
	action := f.newAction(0)
	f.awaitLine(up)
	f.must(p.stop())
	got := f.expect(action, v1alpha1.ReasonInterrupted, 1)
	if r := got.Status.Result; r == nil || r.Signal != "killed" {
		t.Errorf("got result %+v, want the signal killed", r)
	}
}

func TestAnActionThatIsDeletedWhileItRunsHoldsNothingUp(t *testing.T) {
	f := newFixture(t)
	up, release := f.fifo("up"), f.fifo("release")
	f.policy = f.newPolicy(f.appends("first")+"; echo >"+up+"; read line <"+release, f.appends("second"))
	f.start(nil)
	first, second := f.newAction(0), f.newAction(1)
	f.awaitLine(up)
	f.must(f.client.Delete(f.ctx, first))
	f.must(os.WriteFile(release, []byte("\n"), 0))
	f.expect(second, v1alpha1.ReasonSucceeded, 2)
}

// blockAfterExecution replaces the policy by one whose command records its
// execution, writes a line to the returned named pipe and never ends.
func (f *fixture) blockAfterExecution() (up string) {
	up = f.fifo("up")
	f.policy = f.newPolicy(f.appends("executed") + "; echo >" + up + "; read never <" + f.fifo("block"))
	return up
}

func (f *fixture) fifo(name string) string {
	f.Helper()
	path := filepath.Join(f.dir, name)
	f.must(syscall.Mkfifo(path, 0o600))
	return path
}

// awaitLine waits until somebody has written to the named pipe.
func (f *fixture) awaitLine(fifo string) {
	f.Helper()
	written := make(chan error, 1)
	go func() { // for ever if nobody writes: the test has failed then
		_, err := os.ReadFile(fifo)
		written <- err
	}()
	select {
	case err := <-written:
		f.must(err)
	case <-f.ctx.Done():
		f.Fatalf("nobody has written to %s", fifo)
	}
}
