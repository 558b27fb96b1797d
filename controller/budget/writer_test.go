package budget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// What no rule here foresees, such as a ValidatingAdmissionPolicy of others, refuses one of them.
func TestWhatTheAPIServerRefusesFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(s); err != nil {
			t.Fatal(err)
		}
		b := budgetOf("b", "", 9)
		together := make(chan struct{})
		c := fake.NewClientBuilder().WithScheme(s).WithObjects(&b).WithStatusSubresource(&b).WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
				<-together
				if _, _, refused := Permit(obj.(*v1alpha1.RemediationBudget), "node-2"); refused {
					return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("RemediationBudget").GroupKind(), "b", nil)
				}
				return c.SubResource(sub).Patch(ctx, obj, p, o...)
			},
		}).Build()
		permits := New(c, c)
		var taking sync.WaitGroup
		for i := range 5 {
			taking.Go(func() {
				name := fmt.Sprint("node-", i)
				err := permits.Take(t.Context(), []v1alpha1.RemediationBudget{b}, readyNode(name, "rack", "r7"), v1alpha1.Permit{Remediation: name}, "")
				if errors.Is(err, ErrExhausted) != (i == 2) || err != nil && i != 2 {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		synctest.Wait() // one of them is about to write, or several
		close(together)
		taking.Wait()
		var now v1alpha1.RemediationBudget
		if err := c.Get(t.Context(), client.ObjectKey{Name: "b"}, &now); err != nil || len(now.Status.Groups["r7"].Permits) != 4 {
			t.Errorf("got %v, %v", now.Status.Groups["r7"].Permits, err)
		}
	})
}
