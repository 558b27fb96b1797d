//go:build integration

package match

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.RunTogether(m))
}

// A cache that is behind shows some of the remediations, or none. What is started
// follows from those that there are.
func TestACacheThatIsBehindStartsNoSecondRemediation(t *testing.T) {
	tests := []struct {
		name string
		// ended and incident of the remediation that the API server has.
		ended    bool
		incident time.Duration
		want     int
	}{
		{"beside an open one", false, time.Hour, 1},
		{"after an ended one of the same incident", true, time.Second, 1},
		{"after an ended one of an earlier incident", true, time.Hour, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t)
			policy, node := newPolicy(t, c), node(nil, since("A", "True", time.Second))
			node.UID = policy.UID // its own in each case
			r := &Reconciler{Client: c, Live: c, Created: func(*v1alpha1.Remediation) {}}
			trigger := func(age time.Duration) *v1alpha1.Trigger {
				return &v1alpha1.Trigger{Type: "A", Status: "True", LastTransitionTime: metav1.NewTime(now.Add(-age))}
			}
			first := NewRemediation(policy, node, *trigger(tt.incident), "")
			must(t, c.Create(t.Context(), first))
			if tt.ended {
				ended := first.DeepCopy()
				ended.Status.EndTime = ptr.To(metav1.Now())
				must(t, c.Status().Patch(t.Context(), ended, client.MergeFrom(first)))
			}
			for range 2 { // the second time there is one more that it does not know
				must(t, r.start(t.Context(), policy, node, trigger(time.Second), nil))
			}
			var all v1alpha1.RemediationList
			must(t, c.List(t.Context(), &all))
			count := 0
			for i := range all.Items {
				if of(&all.Items[i], node, policy) {
					count++
				}
			}
			if count != tt.want {
				t.Errorf("%d remediations, want %d", count, tt.want)
			}
		})
	}
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	c, err := client.New(clustertest.Shared(t).Config, client.Options{Scheme: scheme})
	must(t, err)
	return c
}

func newPolicy(t *testing.T, c client.Client) *v1alpha1.RemedyPolicy {
	t.Helper()
	policy := &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "match-"},
		Spec: v1alpha1.RemedyPolicySpec{
			Match: []v1alpha1.ConditionMatch{{Type: "A", Status: corev1.ConditionTrue}},
			Steps: []v1alpha1.Step{{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/true"}}}},
		},
	}
	must(t, c.Create(t.Context(), policy))
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), policy) })
	return policy
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
