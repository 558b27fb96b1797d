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
// not gone. Or the request is deleted, and nobody lets it go by a look at what it had before.
func TestWhatChangesDuringALookIsDecidedByTheNextOne(t *testing.T) {
	said := metav1.Condition{Type: v1alpha1.RequestProcessing, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonActing, LastTransitionTime: metav1.NewTime(now)}
	for name, meanwhile := range map[string]func(context.Context, client.Client, *v1alpha1.NodemendRemediation) error{
		"its remediation acts": func(ctx context.Context, c client.Client, asked *v1alpha1.NodemendRemediation) error {
			meta.SetStatusCondition(&asked.Status.Conditions, said)
			return c.Status().Update(ctx, asked)
		},
		"it is deleted": func(ctx context.Context, c client.Client, asked *v1alpha1.NodemendRemediation) error {
			return c.Delete(ctx, asked)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := aRequest(announced)
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			var before v1alpha1.NodemendRemediation
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(l.asked, l.node, l.policy).WithStatusSubresource(l.asked).
				WithIndex(&v1alpha1.Remediation{}, index.OpenByNode, func(client.Object) []string { return nil }).
				WithInterceptorFuncs(interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
						if _, is := obj.(*v1alpha1.RemedyPolicy); is {
							var asked v1alpha1.NodemendRemediation
							if err := c.Get(ctx, client.ObjectKeyFromObject(l.asked), &asked); err != nil {
								return err
							}
							if err := meanwhile(ctx, c, &asked); err != nil {
								return err
							}
							if err := c.Get(ctx, client.ObjectKeyFromObject(l.asked), &before); err != nil {
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
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(l.asked), &asked); err != nil || asked.ResourceVersion != before.ResourceVersion {
				t.Errorf("%v, its driver is told %+v", err, asked.Status)
			}
		})
	}
}
