package maintenance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/drain"
	"github.com/nodemend/nodemend/controller/worker"
)

// passing is a Drainer that remembers whether it was to evict.
type passing struct {
	Drainer
	evicted []bool
}

func (p *passing) Pass(_ context.Context, _ string, _ *v1alpha1.Drain, mayEvict bool) (drain.Result, error) {
	p.evicted = append(p.evicted, mayEvict)
	return left(2), nil
}

func TestANodeWhoseDrainHasToWaitIsSaidToBeCordoned(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*v1alpha1.NodeMaintenance)
		goesOn bool
	}{
		"a new one": {change: func(*v1alpha1.NodeMaintenance) {}},
		"it was drained for an earlier node": {change: func(m *v1alpha1.NodeMaintenance) {
			look(m, "v", 0, left(4))
			look(m, "v", time.Minute, empty())
		}},
		"it begins anew": {change: func(m *v1alpha1.NodeMaintenance) {
			look(m, "u", 0, empty())
			m.Status, _ = reopened(m, "why", start)
		}},
		"it is under way": {change: func(m *v1alpha1.NodeMaintenance) { look(m, "u", 0, left(4)) }, goesOn: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(s); err != nil {
				t.Fatal(err)
			}
			m := toDrain(v1alpha1.OnTimeoutWait)
			tt.change(m)
			before := drainedOf(m)
			writes := 0
			c := fake.NewClientBuilder().WithScheme(s).WithObjects(m).WithStatusSubresource(m).WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
					writes++
					return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
				},
			}).Build()
			clock, told, p := clocktesting.NewFakePassiveClock(start), events.NewFakeRecorder(10), &passing{}
			r := &Reconciler{Client: c, Live: c, Drainer: p, Clock: clock, Events: told}
			progress := func(after time.Duration) (*v1alpha1.NodeMaintenance, time.Duration) {
				t.Helper()
				clock.SetTime(start.Add(after))
				var m v1alpha1.NodeMaintenance
				if err := c.Get(t.Context(), types.NamespacedName{Name: "dimm"}, &m); err != nil {
					t.Fatal(err)
				}
				wait, err := r.progress(t.Context(), &m, nodeWith(true, nil), cordonedByUs)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Get(t.Context(), types.NamespacedName{Name: "dimm"}, &m); err != nil {
					t.Fatal(err)
				}
				return &m, wait
			}
			for range drains {
				r.draining.Take(drains, "others")
			}
			for _, after := range []time.Duration{2 * time.Minute, 2*time.Minute + worker.PlaceRecheck} {
				m, wait := progress(after)
				if wait != worker.PlaceRecheck || !m.WasCordoned() || m.Status.NodeUID != "u" || (m.Status.Drain != nil) != tt.goesOn || m.Drained() {
					t.Errorf("looks again after %s: %+v", wait, m.Status)
				}
				if c := drainedOf(m); tt.goesOn && c.Message != before.Message || !tt.goesOn && c.Reason != v1alpha1.ReasonDrainWaits {
					t.Errorf("got %+v", c)
				}
			}
			if once := map[bool]int{false: 1, true: 0}[tt.goesOn]; writes != once || len(told.Events) != 0 || len(p.evicted) != 0 {
				t.Errorf("%d writes, %d events, %d passes", writes, len(told.Events), len(p.evicted))
			}
			r.draining.Leave(drains, &r.doorbell)
			m, _ = progress(10 * time.Minute)
			began := map[bool]time.Time{false: start.Add(10 * time.Minute), true: start}[tt.goesOn]
			if d := m.Status.Drain; d == nil || !d.StartedAt.Time.Equal(began) || drainedOf(m).Reason != v1alpha1.ReasonDraining {
				t.Errorf("it began at %s: %+v", began, m.Status)
			}
			if tt.goesOn {
				return
			}
			if len(p.evicted) != 2 || p.evicted[0] || !p.evicted[1] {
				t.Errorf("it evicts: %v, before it is written down what there is to do", p.evicted)
			}
			if len(told.Events) != 2 {
				t.Fatalf("%d events, want one on the maintenance and one on the node", len(told.Events))
			}
			if event := <-told.Events; !strings.HasPrefix(event, "Normal DrainStarted") {
				t.Errorf("told %s", event)
			}
		})
	}
}

// The cache may still show a node of which the next one of its name is there already.
func TestAPolicysDrainEvictsFromItsOwnNodeOnly(t *testing.T) {
	s := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		of, live types.UID
		evicts   bool
	}{
		"it is there":                         {of: "u", live: "u", evicts: true},
		"another one is":                      {of: "u", live: "v"},
		"a person's maintenance is of a name": {live: "v", evicts: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := toDrain(v1alpha1.OnTimeoutWait)
			m.Spec.NodeUID = tt.of
			look(m, "u", 0, left(4))
			now := nodeWith(true, nil)
			now.UID = tt.live
			c := fake.NewClientBuilder().WithScheme(s).WithObjects(m, now).WithStatusSubresource(m).Build()
			p := &passing{}
			r := &Reconciler{Client: c, Live: c, Drainer: p, Clock: clocktesting.NewFakePassiveClock(start), Events: events.NewFakeRecorder(10)}
			r.Loop()
			_, err := r.progress(t.Context(), m, nodeWith(true, nil), cordonedByUs)
			if apierrors.IsConflict(err) == tt.evicts || tt.evicts && err != nil || slices.Contains(p.evicted, true) != tt.evicts {
				t.Errorf("evicts %v: %v", p.evicted, err)
			}
		})
	}
}
