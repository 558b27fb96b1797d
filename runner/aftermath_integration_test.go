//go:build integration

package runner_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/boot"
	"github.com/nodemend/nodemend/runner"
)

// ended writes that an action of the remote runner has ended a boot.
func (f *fixture) ended(action *v1alpha1.NodeAction) {
	f.Helper()
	action.Status.Claim = &v1alpha1.Claim{
		RunnerID: "remote", BootID: "00000000-0000-4000-8000-00000000000a", Time: metav1.Now(), Remedy: v1alpha1.RemedyReboot,
	}
	f.must(f.client.Status().Update(f.ctx, action))
	meta.SetStatusCondition(&action.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded,
	})
	f.must(f.client.Status().Update(f.ctx, action))
}

func TestWhatADeadBootHasLeftIsInTheActionThatHasEndedIt(t *testing.T) {
	f := newFixture(t)
	bootID, err := boot.ID(boot.IDPath)
	f.must(err)
	action := f.newAction(0, func(a *v1alpha1.NodeAction) { a.Spec.Executor = v1alpha1.ExecutorRemote })
	f.ended(action)
	f.start(nil)
	got := f.await(action, func(a *v1alpha1.NodeAction) bool { return a.Status.Aftermath != nil })
	left := got.Status.Aftermath
	if left.BootID != bootID || len(left.Left) != 3 {
		t.Errorf("got %+v", left)
	}
	for _, l := range left.Left { // this place had no such boot
		if l.Source == v1alpha1.LeftoverJournal && l.Problem == "" {
			t.Errorf("got %+v", l)
		}
	}
	if c := got.Finished(); c == nil || c.Reason != v1alpha1.ReasonSucceeded || got.Status.Claim.RunnerID != "remote" {
		t.Errorf("the rest has changed: %+v", got.Status)
	}
}

func TestARunnerOfADryRunCollectsNothing(t *testing.T) {
	f := newFixture(t)
	over := f.newAction(0)
	f.ended(over)
	f.start(nil, func(o *runner.Options) { o.DryRun = true })
	f.expect(f.newAction(0), v1alpha1.ReasonDryRun, 0)
	f.stopAll()
	f.must(f.client.Get(f.ctx, client.ObjectKeyFromObject(over), over))
	if over.Status.Aftermath != nil {
		t.Errorf("got %+v", over.Status.Aftermath)
	}
}
