package policy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/worker"
)

// scene is a reconciler with its queue, in virtual time.
type scene struct {
	t      *testing.T
	client client.Client
	loop   worker.Loop
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
	nodes  []*corev1.Node
	// looks and writes are how often all was counted, and a status written.
	looks, writes int
	// refused answers the next write.
	refused error
}

func newScene(t *testing.T, objects ...client.Object) *scene {
	t.Helper()
	return newRefusedScene(t, nil, objects...)
}

// newRefusedScene is a scene whose first write is answered with this error.
func newRefusedScene(t *testing.T, refused error, objects ...client.Object) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, refused: refused, nodes: fleetOfFive(), queue: workqueue.NewTypedRateLimitingQueue(worker.NewRateLimiter())}
	s.client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.RemedyPolicy{}, &v1alpha1.Remediation{}).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			if err := s.refused; err != nil {
				s.refused = nil
				return err
			}
			s.writes++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		}}).Build()
	r := &Reconciler{Client: s.client, Nodes: func() ([]*corev1.Node, string) { return s.nodes, "" }, Clock: clock.RealClock{}}
	s.loop = r.Loop()
	go func() {
		for {
			request, down := s.queue.Get()
			if down {
				return
			}
			s.looks++
			result, err := r.Reconcile(t.Context(), request)
			switch {
			case err != nil:
				s.queue.AddRateLimited(request)
			case result.RequeueAfter > 0:
				s.queue.AddAfter(request, result.RequeueAfter)
			}
			s.queue.Done(request)
		}
	}()
	for _, obj := range objects {
		s.created(obj)
	}
	return s
}

// stop ends the queue, and its goroutines.
func (s *scene) stop() {
	s.queue.ShutDown()
	synctest.Wait()
}

func (s *scene) pass(d time.Duration) {
	time.Sleep(d) // of virtual time
	synctest.Wait()
}

func (s *scene) created(obj client.Object) {
	for _, w := range s.loop.Watches {
		if fmt.Sprintf("%T", w.Kind) == fmt.Sprintf("%T", obj) {
			w.Handler.Create(s.t.Context(), event.CreateEvent{Object: obj}, s.queue)
		}
	}
}

func (s *scene) updated(old, obj client.Object) {
	for _, w := range s.loop.Watches {
		if fmt.Sprintf("%T", w.Kind) == fmt.Sprintf("%T", obj) {
			w.Handler.Update(s.t.Context(), event.UpdateEvent{ObjectOld: old, ObjectNew: obj}, s.queue)
		}
	}
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// status returns that of the policy.
func (s *scene) status() v1alpha1.RemedyPolicyStatus {
	s.t.Helper()
	var p v1alpha1.RemedyPolicy
	s.must(s.client.Get(s.t.Context(), client.ObjectKey{Name: "p"}, &p))
	return p.Status
}

func enforcedPolicy() *v1alpha1.RemedyPolicy {
	p := policyFor(nil, "Sick")
	p.Name, p.UID, p.Generation, p.Spec.Mode = "p", "p", 3, v1alpha1.ModeEnforce
	return &p
}

func budgetForAll() *v1alpha1.RemediationBudget {
	b := budgetFor(nil)
	b.Name = "all"
	return &b
}

func TestANewPolicyHasAStatusAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, enforcedPolicy(), budgetForAll())
		defer s.stop()
		s.pass(soon)
		status := s.status()
		ready := meta.FindStatusCondition(status.Conditions, v1alpha1.RemedyPolicyReady)
		if ready == nil || ready.Reason != v1alpha1.ReasonEnforced || ready.ObservedGeneration != 3 || status.ObservedGeneration != 3 || ready.LastTransitionTime.IsZero() {
			t.Errorf("got %+v", status)
		}
		if ptr.Deref(status.Nodes, -1) != 5 || ptr.Deref(status.NodesWithoutBudget, -1) != 0 || ptr.Deref(status.OpenRemediations, -1) != 0 {
			t.Errorf("got %+v", status)
		}
	})
}

func TestABurstIsCountedOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, enforcedPolicy(), budgetForAll())
		defer s.stop()
		s.pass(time.Minute)
		s.looks, s.writes = 0, 0
		for i := range 200 { // within 20 s
			r := of("p", fmt.Sprint("r-", i), 0)
			s.must(s.client.Create(t.Context(), &r))
			s.created(&r)
			s.pass(100 * time.Millisecond)
		}
		s.pass(burst)
		if got := s.status(); *got.OpenRemediations != 200 {
			t.Errorf("%d are open, want 200", *got.OpenRemediations)
		}
		if s.looks > 5 || s.writes > 5 {
			t.Errorf("counted %d times, and written %d times", s.looks, s.writes)
		}
	})
}

func TestWhatChangesNothingIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, enforcedPolicy(), budgetForAll())
		defer s.stop()
		s.pass(time.Minute)
		s.looks, s.writes = 0, 0
		sick := s.nodes[0].DeepCopy()
		sick.Status.Conditions[1].Status = "True"
		s.updated(s.nodes[0], sick)
		s.updated(enforcedPolicy(), enforcedPolicy())
		s.pass(time.Minute)
		if s.looks != 0 {
			t.Errorf("the status of a condition had all counted %d times", s.looks)
		}
		s.created(nodeIn("a")) // which the policies know already
		s.pass(time.Hour)
		if s.looks == 0 || s.writes != 0 {
			t.Errorf("counted %d times, and written %d times", s.looks, s.writes)
		}
	})
}

func TestTheStatusFollowsNodesAndRemediations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, enforcedPolicy(), budgetForAll())
		defer s.stop()
		s.pass(time.Minute)
		s.nodes = s.nodes[:1]
		s.updated(nodeIn("a"), nodeIn("b"))
		r := of("p", "r", 0)
		s.must(s.client.Create(t.Context(), &r))
		s.created(&r)
		s.pass(burst)
		if got := s.status(); *got.Nodes != 1 || *got.OpenRemediations != 1 || got.LastRemediation.Name != "r" || got.LastRemediation.EndedAt != nil {
			t.Errorf("got %+v", got)
		}
		before := r.DeepCopy()
		over("Recovered")(&r)
		s.must(s.client.Status().Update(t.Context(), &r))
		s.updated(before, &r)
		s.pass(burst)
		if got := s.status(); *got.OpenRemediations != 0 || got.LastRemediation.Outcome != "Recovered" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestAStatusFromSomebodyWhoHadSeenLessIsMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, enforcedPolicy(), budgetForAll())
		defer s.stop()
		s.pass(time.Minute)
		var p v1alpha1.RemedyPolicy
		s.must(s.client.Get(t.Context(), client.ObjectKey{Name: "p"}, &p))
		before := p.DeepCopy()
		p.Status.OpenRemediations = ptr.To[int32](7)
		s.must(s.client.Status().Update(t.Context(), &p))
		s.updated(before, &p)
		s.pass(burst)
		if got := s.status(); *got.OpenRemediations != 0 {
			t.Errorf("it says %d open remediations, want 0", *got.OpenRemediations)
		}
	})
}

func TestAStatusThatSomebodyElseWroteIsNotOverwrittenUnseen(t *testing.T) {
	for name, refusal := range map[string]error{
		"a conflict":       apierrors.NewConflict(schema.GroupResource{}, "p", errors.New("changed")),
		"it is gone":       apierrors.NewNotFound(schema.GroupResource{}, "p"),
		"no answer at all": errors.New("boom"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRefusedScene(t, refusal, enforcedPolicy(), budgetForAll())
				defer s.stop()
				s.pass(soon + behind)
				if s.looks != 2 || s.writes != 1 {
					t.Errorf("counted %d times, and written %d times: want once more", s.looks, s.writes)
				}
			})
		})
	}
}
