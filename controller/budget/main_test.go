//go:build integration

package budget

import (
	"errors"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Run(m, cluster.Options{CRDs: deploy.CRDs}))
}

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return s
}

// newClient returns a client without a cache and without a limit of its own.
func newClient(t testing.TB) client.WithWatch {
	t.Helper()
	cfg := rest.CopyConfig(clustertest.Shared(t).Config)
	cfg.QPS = -1
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// createBudget creates a budget whose one group was counted.
func createBudget(t testing.TB, c client.Client, name string, spec v1alpha1.RemediationBudgetSpec) *v1alpha1.RemediationBudget {
	t.Helper()
	b := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	must(t, c.Create(t.Context(), b))
	t.Cleanup(func() {
		_ = c.Delete(contextOf(t), &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: name}})
	})
	counted := b.DeepCopy()
	counted.Status.ObservedGeneration = b.Generation
	counted.Status.Nodes = ptr.To[int32](1000)
	counted.Status.Groups = map[string]v1alpha1.BudgetGroup{"-": {Nodes: 1000, Limit: ptr.To(spec.MaxConcurrent.IntVal)}}
	must(t, c.Status().Patch(t.Context(), counted, client.MergeFrom(b)))
	return counted
}

func atMost(n int32) v1alpha1.RemediationBudgetSpec {
	return v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromInt32(n))}
}

// permitsIn returns the permits that the API server has: node to remediation.
func permitsIn(t testing.TB, c client.Client, name string) map[string]string {
	t.Helper()
	var b v1alpha1.RemediationBudget
	must(t, c.Get(t.Context(), types.NamespacedName{Name: name}, &b))
	permits := map[string]string{}
	for _, g := range b.Status.Groups {
		for node, permit := range g.Permits {
			permits[node] = permit.Remediation
		}
	}
	return permits
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func numbered(i int) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
}

func permitFor(i int) v1alpha1.Permit { return v1alpha1.Permit{Remediation: fmt.Sprintf("r-%d", i)} }
