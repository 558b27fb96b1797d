package remediation

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/index"
)

// server stands for an API server that has what no cache has yet.
type server struct {
	client.Reader
	pause, policy bool
	// of are the labels of the nodes that the pause is of; nil: of all.
	of map[string]string
}

func (s server) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	switch o := obj.(type) {
	case *v1alpha1.RemediationBudget:
		if key.Name == v1alpha1.ClusterPauseBudget && s.pause {
			o.Name, o.Spec.Paused = key.Name, true
			if s.of != nil {
				o.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: s.of}
			}
			return nil
		}
	case *v1alpha1.RemedyPolicy:
		o.Name, o.Spec.Paused = key.Name, s.policy
		return nil
	}
	return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("x").GroupResource(), key.Name)
}

func TestAPauseHoldsBeforeAnyCacheKnowsOfIt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		server server
		effect effect
		held   string
	}{
		{"nobody has paused", server{}, start, ""},
		{"the cluster is paused", server{pause: true}, start, "RemediationBudget nodemend-pause"},
		{"other nodes are paused", server{pause: true, of: map[string]string{"pool": "storage"}}, start, ""},
		{"the cluster is paused before a node is taken out", server{pause: true}, takeOut, "RemediationBudget nodemend-pause"},
		{"the policy is paused before a node is taken out", server{policy: true}, takeOut, "RemedyPolicy"},
		{"of an action the runner asks that", server{policy: true}, start, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := incident()
			d := begin(s)
			d.effect = tt.effect
			v, err := (&Reconciler{Live: tt.server}).pausedMeanwhile(t.Context(), s, d)
			if err != nil {
				t.Fatal(err)
			}
			if v.Held() != (tt.held != "") || !strings.Contains(v.Message, tt.held) {
				t.Errorf("held %t: %s", v.Held(), v.Message)
			}
		})
	}
}

// pausing is an API server in which somebody pauses the cluster after so many looks.
type pausing struct {
	client.Reader
	after, looks int
}

func (p *pausing) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if b, ok := obj.(*v1alpha1.RemediationBudget); ok && key.Name == v1alpha1.ClusterPauseBudget {
		p.looks++
		if p.looks > p.after {
			b.Name, b.Spec.Paused = key.Name, true
			return nil
		}
	}
	return p.Reader.Get(ctx, key, obj, opts...)
}

// The permits of a step are there, and somebody has paused the cluster meanwhile.
func TestAPauseIsAskedForAgainOnceThePermitsAreThere(t *testing.T) {
	for name, tt := range map[string]struct {
		effect effect
		took   time.Duration
		held   bool
	}{
		"before a node is taken out":                     {takeOut, 0, true},
		"before an action, after a second":               {start, time.Second, true},
		"before an action, when the clock was put back":  {start, -time.Second, true},
		"not before an action, of which its runner asks": {start, pauseFresh - 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := incident()
			b := &s.budgets[0]
			b.Status.Nodes = ptr.To[int32](1)
			ticking := clocktesting.NewFakePassiveClock(now)
			c := interceptor.NewClient(cacheOf(t, b, s.node, s.policy, s.remediation), interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
					if _, permit := obj.(*v1alpha1.RemediationBudget); permit {
						ticking.SetTime(now.Add(tt.took))
					}
					return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
				},
			})
			if err := errors.Join(c.Get(t.Context(), client.ObjectKeyFromObject(b), b), c.Get(t.Context(), client.ObjectKeyFromObject(s.remediation), s.remediation)); err != nil {
				t.Fatal(err)
			}
			live := &pausing{Reader: c, after: 1}
			metrics, err := NewMetrics(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			r := &Reconciler{Client: c, Live: live, Store: index.Read(c), Permits: budget.New(c, c), Nodes: noNodes, Clock: ticking, Metrics: metrics, Events: events.NewFakeRecorder(10)}
			d := begin(s)
			d.effect = tt.effect

			taken, _, err := r.takePermits(t.Context(), s, d)
			if err != nil {
				t.Fatal(err)
			}
			if taken == tt.held {
				t.Errorf("it goes on: %t", taken)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
				t.Fatal(err)
			}
			if _, kept := b.Status.Groups[v1alpha1.UngroupedNodes].Permits[s.node.Name]; kept == tt.held {
				t.Errorf("the permit is kept: %t", kept)
			}
		})
	}
}

// noNodes are those of tests in which nobody has counted any.
func noNodes() ([]*corev1.Node, string) { return nil, "" }
