//go:build integration

package budget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// allKnown is a version of nodes that no counter knows more than.
const allKnown = "18446744073709551615"

func contextOf(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }

// takeAll takes the permits of n nodes at once, in turn from each of the permits,
// and returns how many were given and refused.
func takeAll(t testing.TB, n int, budgets []v1alpha1.RemediationBudget, from ...*Permits) (given, refused int) {
	t.Helper()
	errs := make([]error, n)
	var taking sync.WaitGroup
	for i := range n {
		taking.Go(func() { errs[i] = from[i%len(from)].Take(t.Context(), budgets, numbered(i), permitFor(i), allKnown) })
	}
	taking.Wait()
	for _, err := range errs {
		switch {
		case err == nil:
			given++
		case errors.Is(err, ErrExhausted):
			refused++
		default:
			t.Error(err)
		}
	}
	return given, refused
}

// writes counts the writes of a client.
func writes(c client.WithWatch, count *atomic.Int32) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
		count.Add(1)
		return c.SubResource(sub).Patch(ctx, obj, p, o...)
	}})
}

func TestABurstIsWrittenTogether(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "burst", atMost(300))
	var count atomic.Int32
	p := New(writes(c, &count), c)
	budgets := []v1alpha1.RemediationBudget{*b}
	if given, refused := takeAll(t, 400, budgets, p); given != 300 || refused != 100 {
		t.Errorf("%d given, %d refused, want 300 and 100", given, refused)
	}
	if got := len(permitsIn(t, c, b.Name)); got != 300 {
		t.Errorf("%d permits, want 300", got)
	}
	if n := count.Load(); n > 60 {
		t.Errorf("%d writes for 400 callers", n)
	} else {
		t.Logf("%d writes for 400 callers", n)
	}
	var releasing sync.WaitGroup
	for i := range 400 {
		releasing.Go(func() {
			if err := p.Release(t.Context(), budgets, numbered(i).Name, permitFor(i)); err != nil {
				t.Error(err)
			}
		})
	}
	releasing.Wait()
	if got := permitsIn(t, c, b.Name); len(got) != 0 {
		t.Errorf("still held: %v", got)
	}
}

func TestTwoControllersThatBothLeadDoNotExceedABudget(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "two-leaders", atMost(7))
	given, refused := takeAll(t, 60, []v1alpha1.RemediationBudget{*b}, New(c, c), New(c, c))
	if held := permitsIn(t, c, b.Name); len(held) != 7 || given != 7 || refused != 53 {
		t.Errorf("%d given, %d refused, permits %v; want 7", given, refused, held)
	}
}

// stale answers reads of budgets with what it has read first.
func stale(c client.WithWatch) client.WithWatch {
	var mu sync.Mutex
	first := map[string]*v1alpha1.RemediationBudget{}
	var list *v1alpha1.RemediationBudgetList
	return interceptor.NewClient(c, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, objects client.ObjectList, o ...client.ListOption) error {
		budgets, ok := objects.(*v1alpha1.RemediationBudgetList)
		if !ok {
			return c.List(ctx, objects, o...)
		}
		mu.Lock()
		defer mu.Unlock()
		if list == nil {
			list = &v1alpha1.RemediationBudgetList{}
			if err := c.List(ctx, list, o...); err != nil {
				return err
			}
		}
		list.DeepCopyInto(budgets)
		return nil
	}, Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
		b, ok := obj.(*v1alpha1.RemediationBudget)
		if !ok {
			return c.Get(ctx, key, obj, o...)
		}
		mu.Lock()
		defer mu.Unlock()
		if first[key.Name] == nil {
			if err := c.Get(ctx, key, b, o...); err != nil {
				return err
			}
			first[key.Name] = b.DeepCopy()
		}
		first[key.Name].DeepCopyInto(b)
		return nil
	}})
}

func TestACacheThatHasStoppedExceedsNothing(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "stopped", atMost(2))
	budgets := []v1alpha1.RemediationBudget{*b}
	behind := New(stale(c), c)
	must(t, behind.Take(t.Context(), budgets, numbered(0), permitFor(0), allKnown))

	other := New(c, c)
	must(t, other.Take(t.Context(), budgets, numbered(1), permitFor(1), allKnown))
	if err := behind.Take(t.Context(), budgets, numbered(2), permitFor(2), allKnown); !errors.Is(err, ErrExhausted) {
		t.Errorf("got %v, want a refusal", err)
	}
	must(t, other.Release(t.Context(), budgets, "node-0", permitFor(0)))
	must(t, other.Take(t.Context(), budgets, numbered(3), permitFor(3), allKnown))
	// It believes to hold the permit still.
	if err := behind.Take(t.Context(), budgets, numbered(0), permitFor(0), allKnown); !errors.Is(err, ErrExhausted) {
		t.Errorf("got %v for a permit that another has released, want a refusal", err)
	}
	if held := permitsIn(t, c, b.Name); len(held) != 2 || held["node-1"] != "r-1" || held["node-3"] != "r-3" {
		t.Errorf("permits %v", held)
	}
}

func TestAWriteNeedsNoReadAlthoughTheCacheIsBehind(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "no-read", atMost(2))
	noLive := interceptor.NewClient(c, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("the API server was read")
	}})
	p := New(stale(c), noLive)
	for i := range 2 {
		must(t, p.Take(t.Context(), []v1alpha1.RemediationBudget{*b}, numbered(i), permitFor(i), allKnown))
	}
}

func TestANodeThatChangesItsGroupHasOnePermitAlthoughTheCacheHasStopped(t *testing.T) {
	c := newClient(t)
	spec := atMost(5)
	spec.GroupBy = "rack"
	b := createBudget(t, c, "moved", spec)
	for _, rack := range []string{"r6", "r7"} {
		counted := b.DeepCopy()
		counted.Status.Groups[rack] = v1alpha1.BudgetGroup{Nodes: 9, Limit: ptr.To[int32](5)}
		must(t, c.Status().Patch(t.Context(), counted, client.MergeFrom(b)))
		b = counted
	}
	budgets := []v1alpha1.RemediationBudget{*b}
	behind, other := New(stale(c), c), New(c, c)
	must(t, behind.Take(t.Context(), budgets, readyNode("x", "rack", "r7"), permitFor(0), allKnown))
	must(t, other.Take(t.Context(), budgets, readyNode("moves", "rack", "r6"), permitFor(1), allKnown))
	if err := behind.Take(t.Context(), budgets, readyNode("moves", "rack", "r7"), permitFor(2), allKnown); !errors.Is(err, ErrExhausted) {
		t.Errorf("got %v, want a refusal: another acts on the node", err)
	}
}

func TestAnAnswerThatWasLostIsReadBack(t *testing.T) {
	for name, commits := range map[string]bool{"committed": true, "not-committed": false} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t)
			b := createBudget(t, c, "lost-"+name, atMost(1))
			var tries atomic.Int32
			lossy := interceptor.NewClient(c, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
				if tries.Add(1) > 1 {
					return c.SubResource(sub).Patch(ctx, obj, p, o...)
				}
				if commits {
					must(t, c.SubResource(sub).Patch(ctx, obj.DeepCopyObject().(client.Object), p, o...))
				}
				return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
			}})
			must(t, New(lossy, c).Take(t.Context(), []v1alpha1.RemediationBudget{*b}, numbered(0), permitFor(0), allKnown))
			if held := permitsIn(t, c, b.Name); held["node-0"] != "r-0" {
				t.Errorf("permits %v", held)
			}
			if want := map[bool]int32{true: 1, false: 2}[commits]; tries.Load() != want {
				t.Errorf("%d writes, want %d", tries.Load(), want)
			}
		})
	}
}

func TestAWriteThatFailsForGoodFailsForAllWhoWaitForIt(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "forbidden", atMost(9))
	denied := interceptor.NewClient(c, interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "remediationbudgets"}, "forbidden", errors.New("no"))
	}})
	p := New(denied, c)
	var taking sync.WaitGroup
	for i := range 20 {
		taking.Go(func() {
			if err := p.Take(t.Context(), []v1alpha1.RemediationBudget{*b}, numbered(i), permitFor(i), allKnown); !apierrors.IsForbidden(err) {
				t.Errorf("got %v", err)
			}
		})
	}
	taking.Wait()
}

// Another controller may have taken them for the same version, and be about to use them: they
// are for whoever was refused to return, once nobody can.
func TestARefusalSaysWhichPermitsWereTakenBefore(t *testing.T) {
	c := newClient(t)
	a, z := createBudget(t, c, "all-a", atMost(5)), createBudget(t, c, "all-z", atMost(1))
	budgets := []v1alpha1.RemediationBudget{*a, *z}
	must(t, New(c, c).Take(t.Context(), budgets, numbered(0), permitFor(0), allKnown))
	p := New(c, c) // of another controller, which does not know of that yet
	err := p.Take(t.Context(), budgets, numbered(1), permitFor(1), allKnown)
	var refused *Refused
	if !errors.Is(err, ErrExhausted) || !errors.As(err, &refused) || len(refused.Taken) != 1 || refused.Taken[0].Name != "all-a" {
		t.Fatalf("got %v", err)
	}
	if held := permitsIn(t, c, "all-a"); len(held) != 2 {
		t.Errorf("permits %v, want those of both nodes", held)
	}
	must(t, p.Release(t.Context(), refused.Taken, "node-1", permitFor(1)))
	if held := permitsIn(t, c, "all-a"); len(held) != 1 || held["node-0"] != "r-0" {
		t.Errorf("permits %v, want that of node-0 alone", held)
	}
	// Now it knows, whatever its cache shows.
	if err := p.Take(t.Context(), budgets, numbered(1), permitFor(1), allKnown); !errors.As(err, &refused) || len(refused.Taken) != 0 {
		t.Fatalf("got %v", err)
	}
}

func TestTheControlPlaneIsActedOnOneNodeAtATimeWhateverTheBudgets(t *testing.T) {
	c := newClient(t)
	var nodes []*corev1.Node
	var budgets []v1alpha1.RemediationBudget
	for _, name := range []string{"cp-1", "cp-2", "cp-3"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{fleet.ControlPlaneLabel: ""}}}
		must(t, c.Create(t.Context(), node))
		t.Cleanup(func() { _ = c.Delete(contextOf(t), node) })
		nodes = append(nodes, node)
		budgets = append(budgets, *createBudget(t, c, name, atMost(5)))
	}
	p := New(stale(c), c)
	var given atomic.Int32
	var taking sync.WaitGroup
	for i, node := range nodes {
		taking.Go(func() {
			if err := p.Take(t.Context(), budgets[i:i+1], node, permitFor(i), allKnown); err == nil {
				given.Add(1)
			} else if !errors.Is(err, ErrExhausted) {
				t.Error(err)
			}
		})
	}
	taking.Wait()
	if given.Load() != 1 {
		t.Errorf("%d nodes got a permit, want 1", given.Load())
	}
}

func TestOfTwoControllersThatActOnTheControlPlaneAtOnceOneGetsAPermit(t *testing.T) {
	s := newScene(t, "rivals", 2, atMost(5))
	var nodes [2]corev1.Node
	var budgets [2][]v1alpha1.RemediationBudget
	for i := range nodes {
		s.patch(i, false, `{"metadata": {"labels": {"%s": ""}}}`, fleet.ControlPlaneLabel)
		must(t, s.client.Get(t.Context(), client.ObjectKey{Name: s.node(i)}, &nodes[i]))
		budgets[i] = []v1alpha1.RemediationBudget{*createBudget(t, s.client, fmt.Sprintf("rival-%d", i), atMost(5))}
	}
	late := interceptor.NewClient(s.client, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
		if err := New(s.client, s.client).Take(ctx, budgets[1], &nodes[1], permitFor(1), allKnown); err != nil {
			t.Errorf("the other controller got %v, want a permit", err)
		}
		return c.SubResource(sub).Patch(ctx, obj, p, o...)
	}})
	err := New(late, s.client).Take(t.Context(), budgets[0], &nodes[0], permitFor(0), allKnown)
	var refused *Refused
	if !errors.Is(err, ErrExhausted) || !errors.As(err, &refused) || len(refused.Taken) != 1 {
		t.Errorf("got %v, want a refusal that names the permit taken", err)
	}
}

func TestAnActionInTheControlPlaneHoldsWithoutItsBudgetOrTheCache(t *testing.T) {
	s := newScene(t, "lone", 2, atMost(5))
	for i := range 2 {
		s.patch(i, false, `{"metadata": {"labels": {"%s": ""}}}`, fleet.ControlPlaneLabel)
	}
	s.remediation(0, "acting")
	budgets := []v1alpha1.RemediationBudget{*createBudget(t, s.client, "anew", atMost(5))} // which knows of no permit
	behind := interceptor.NewClient(s.client, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
		if _, ok := list.(*v1alpha1.RemediationList); ok {
			return nil
		}
		return c.List(ctx, list, o...)
	}})
	var node corev1.Node
	must(t, s.client.Get(t.Context(), client.ObjectKey{Name: s.node(1)}, &node))
	if err := New(behind, s.client).Take(t.Context(), budgets, &node, permitFor(1), allKnown); !errors.Is(err, ErrExhausted) {
		t.Errorf("got %v, want ErrExhausted: an action is under way on %s", err, s.node(0))
	}
}

func TestACallerThatGivesUpLeavesTheOthersAlone(t *testing.T) {
	c := newClient(t)
	b := createBudget(t, c, "gives-up", atMost(5))
	hold, inside := make(chan struct{}), make(chan struct{}, 10)
	slow := interceptor.NewClient(c, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
		inside <- struct{}{}
		<-hold
		return c.SubResource(sub).Patch(ctx, obj, p, o...)
	}})
	p := New(slow, c)
	budgets := []v1alpha1.RemediationBudget{*b}
	first, cancelFirst := context.WithCancel(t.Context())
	impatient, cancel := context.WithCancel(t.Context())
	var taking sync.WaitGroup
	taking.Go(func() {
		if err := p.Take(first, budgets, numbered(0), permitFor(0), allKnown); err != nil {
			t.Errorf("the write that others wait for ended with its first caller: %v", err)
		}
	})
	<-inside
	cancelFirst()
	taking.Go(func() {
		if err := p.Take(impatient, budgets, numbered(1), permitFor(1), allKnown); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		close(hold)
	})
	cancel()
	taking.Wait()
	must(t, p.Take(t.Context(), budgets, numbered(2), permitFor(2), allKnown))
	if held := permitsIn(t, c, b.Name); len(held) != 2 || held["node-0"] != "r-0" || held["node-2"] != "r-2" {
		t.Errorf("permits %v, want those of node-0 and node-2", held)
	}
}
