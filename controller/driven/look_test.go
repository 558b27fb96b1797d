package driven

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/index"
)

// Reading what a remediation needs takes long. Meanwhile another controller makes it, says so, and it acts: then it is
// not gone.
func TestARemediationThatCameMeanwhileIsNotGone(t *testing.T) {
	l := aRequest(announced)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	said := metav1.Condition{Type: v1alpha1.RequestProcessing, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonActing, LastTransitionTime: metav1.NewTime(now)}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(l.asked, l.node, l.policy).WithStatusSubresource(l.asked).
		WithIndex(&v1alpha1.Remediation{}, index.OpenByNode, func(client.Object) []string { return nil }).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
				if _, is := obj.(*v1alpha1.RemedyPolicy); is {
					var asked v1alpha1.NodemendRemediation
					if err := c.Get(ctx, client.ObjectKeyFromObject(l.asked), &asked); err != nil {
						return err
					}
					meta.SetStatusCondition(&asked.Status.Conditions, said)
					if err := c.Status().Update(ctx, &asked); err != nil {
						return err
					}
				}
				return c.Get(ctx, key, obj, o...)
			},
		}).Build()
	r := &Reconciler{Client: c, Live: c, Clock: clocktesting.NewFakePassiveClock(now)}
	if _, err := r.reconcile(t.Context(), client.ObjectKeyFromObject(l.asked)); err != nil {
		t.Fatal(err)
	}
	var asked v1alpha1.NodemendRemediation
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(l.asked), &asked); err != nil {
		t.Fatal(err)
	}
	if is := meta.FindStatusCondition(asked.Status.Conditions, v1alpha1.RequestProcessing); is == nil || is.Reason != v1alpha1.ReasonActing {
		t.Errorf("its driver is told %+v", is)
	}
}
