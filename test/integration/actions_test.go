//go:build integration

package integration

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// claim claims an action; it fails with a conflict if it was changed.
func (s *scene) claim(ctx context.Context, action *v1alpha1.NodeAction) error {
	action.Status.Claim = &v1alpha1.Claim{RunnerID: "test", BootID: "boot", Time: metav1.Now(), Remedy: v1alpha1.RemedyCommand}
	return s.client.Status().Update(ctx, action)
}

// finish finishes an action that was claimed.
func (s *scene) finish(ctx context.Context, action *v1alpha1.NodeAction) error {
	now := v1alpha1.NewMicroTime(time.Now())
	action.Status.Result = &v1alpha1.ActionResult{StartedAt: now, FinishedAt: now, ExitCode: ptr.To[int32](0)}
	meta.SetStatusCondition(&action.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, Message: "exit status 0",
	})
	return s.client.Status().Update(ctx, action)
}
