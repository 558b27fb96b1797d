//go:build integration

package deploy_test

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// claim claims an action as the runner does.
func claim(ctx context.Context, c client.Client, action *v1alpha1.NodeAction) error {
	action.Status.Claim = &v1alpha1.Claim{RunnerID: "test", BootID: "test", Time: metav1.Now(), Remedy: v1alpha1.RemedyCommand}
	return c.Status().Update(ctx, action)
}

// finish reports the result of an action as the runner does.
func finish(ctx context.Context, c client.Client, action *v1alpha1.NodeAction) error {
	now := v1alpha1.NewMicroTime(time.Now())
	action.Status.Result = &v1alpha1.ActionResult{StartedAt: now, FinishedAt: now, ExitCode: ptr.To[int32](0)}
	meta.SetStatusCondition(&action.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded,
	})
	return c.Status().Update(ctx, action)
}

// patchAction merges a status, in JSON, into that of an action.
func patchAction(ctx context.Context, c client.Client, action *v1alpha1.NodeAction, status string) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":`+status+`}`))
	return c.Status().Patch(ctx, action.DeepCopy(), patch)
}

// finishedAs is a status whose only condition is Finished with this reason.
func finishedAs(reason string) string {
	return `{"conditions":[{"type":"Finished","status":"True","reason":"` + reason + `","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`
}

// patchStatus applies a patch, in JSON, to the status subresource of a Node as
// the detector does.
func patchStatus(ctx context.Context, c client.Client, node, patch string) error {
	return c.Status().Patch(ctx, named(node), client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
}

// patchNode applies a patch, in JSON, to a Node.
func patchNode(ctx context.Context, c client.Client, node, patch string) error {
	return c.Patch(ctx, named(node), client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
}

func named(node string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}} }

// condition is a patch that sets a condition.
func condition(conditionType, status string) string {
	return `{"status":{"conditions":[{"type":"` + conditionType + `","status":"` + status + `","reason":"Test"}]}}`
}

func eventAbout(kind, name string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "test-", Namespace: metav1.NamespaceDefault},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: kind, Name: name},
		Reason:         "Test", Type: corev1.EventTypeNormal,
	}
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system"}}
}

func key(obj client.Object) types.NamespacedName { return client.ObjectKeyFromObject(obj) }
