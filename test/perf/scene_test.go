//go:build integration

package perf

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

// scene is a fleet that grows from one benchmark to the next.
type scene struct {
	b      *testing.B
	ctx    context.Context
	client client.WithWatch
	config *rest.Config
	etcd   string
	// remediation and action are ones that have ended, as the API server has them.
	remediation *v1alpha1.Remediation
	action      *v1alpha1.NodeAction
	kubeconfig  string
	path        string // of the program
	nodes       []string
}

// newScene creates a policy for the condition sick and a budget.
func newScene(b *testing.B) *scene {
	b.Helper()
	c := clustertest.Shared(b)
	s := &scene{b: b, ctx: b.Context(), config: c.Config, etcd: c.Etcd, kubeconfig: c.Kubeconfig}
	scheme := runtime.NewScheme()
	err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
	if err == nil {
		s.client, err = client.NewWithWatch(c.Config, client.Options{Scheme: scheme})
	}
	if err != nil {
		b.Fatal(err)
	}
	s.path = s.build()
	atOnce, maxConcurrent := v1alpha1.Duration{}, intstr.FromInt32(50)
	s.create(&v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "perf"},
		Spec:       v1alpha1.RemediationBudgetSpec{MaxConcurrent: &maxConcurrent},
	})
	s.create(&v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "perf"},
		Spec: v1alpha1.RemedyPolicySpec{
			Match: []v1alpha1.ConditionMatch{{Type: sick, Status: corev1.ConditionTrue}},
			Steps: []v1alpha1.Step{{
				Command:       &v1alpha1.CommandRemedy{Argv: []string{"/bin/true"}},
				Timeout:       v1alpha1.Duration{Duration: time.Minute},
				VerifyTimeout: v1alpha1.Duration{Duration: time.Minute},
			}},
			Recovery:       v1alpha1.Recovery{HealthyFor: v1alpha1.Duration{Duration: time.Second}},
			Cooldown:       &atOnce,
			DelayAfterJoin: &atOnce,
		},
	})
	return s
}

func (s *scene) create(obj client.Object) {
	s.b.Helper()
	if err := s.client.Create(s.ctx, obj); err != nil {
		s.b.Fatal(err)
	}
}

// spawn runs something until stop is called, which waits for it.
func (s *scene) spawn(run func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.b.Error(err)
		}
	})
	s.b.Cleanup(stop)
	return stop
}

// heal makes all nodes healthy, and forgets what was done about them.
func (s *scene) heal(nodes []string) {
	s.parallel(nodes, func(ctx context.Context, name string) error {
		return s.patch(ctx, name, sick, "False", time.Now())
	})
	var list v1alpha1.RemediationList
	if err := s.client.List(s.ctx, &list); err != nil {
		s.b.Fatal(err)
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	s.parallel(names, func(ctx context.Context, name string) error {
		r := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: name}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := s.client.Patch(ctx, r, patch); err != nil {
			return client.IgnoreNotFound(err)
		}
		return client.IgnoreNotFound(s.client.Delete(ctx, r))
	})
	if err := s.client.DeleteAllOf(s.ctx, &v1alpha1.NodeAction{}); err != nil {
		s.b.Fatal(err)
	}
	b := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "perf"}}
	if err := s.client.Status().Patch(s.ctx, b, client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))); err != nil {
		s.b.Fatal(err)
	}
}
