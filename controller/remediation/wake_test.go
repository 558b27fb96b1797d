package remediation

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/index"
)

// blocked returns a remediation of the node of its name that is held for a reason; "": it
// goes on.
func blocked(name, reason string) *v1alpha1.Remediation {
	r := incident(at(1, 1)).remediation
	r.Name, r.Spec.NodeName = name, name
	status := metav1.ConditionFalse
	if reason != "" {
		status = metav1.ConditionTrue
	}
	r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationBlocked, Status: status, Reason: reason}}
	return r
}

// schemeOf has Kubernetes' kinds and ours.
func schemeOf(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// indexer registers indexes in a client that is yet to be built.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, obj client.Object, field string, of client.IndexerFunc) error {
	i.WithIndex(obj, field, of)
	return nil
}

// cacheOf has the indexes of the controller's.
func cacheOf(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	b := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(objects...).WithStatusSubresource(objects...).
		WithIndex(&v1alpha1.NodeAction{}, index.ActionsByRemediation, func(obj client.Object) []string { // a selectable field
			return []string{obj.(*v1alpha1.NodeAction).Spec.Remediation} //nolint:forcetypeassert // the type is asked for
		})
	if err := index.Register(t.Context(), indexer{b}); err != nil {
		t.Fatal(err)
	}
	return b.Build()
}

func TestWhoIsHeldBySomethingElseLetsOthersHaveItsPermit(t *testing.T) {
	budget := incident().budgets[0]
	waiting := []client.Object{&budget, blocked("a", gates.ReasonBudgetExhausted), blocked("b", gates.ReasonStorm), blocked("c", gates.ReasonNoEvidence)}
	for _, name := range []string{"a", "b", "c", "mine"} {
		waiting = append(waiting, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	cache := cacheOf(t, waiting...)
	r := &Reconciler{Client: cache, Store: index.Read(cache)}

	over := blocked("mine", "")
	over.Status.EndTime = &metav1.Time{Time: now.Add(-time.Second)}
	for name, tt := range map[string]struct {
		old, updated *v1alpha1.Remediation // updated is nil: it is deleted
		want         []string
	}{
		"held by something else": {blocked("mine", gates.ReasonBudgetExhausted), blocked("mine", gates.ReasonDryRun), []string{"a", "b", "mine"}},
		"it has ended":           {blocked("mine", gates.ReasonDisruptionLimit), over, []string{"a", "b", "mine"}},
		"it is deleted":          {blocked("mine", gates.ReasonBudgetExhausted), nil, []string{"a", "b", "mine"}},
		"it goes on":             {blocked("mine", gates.ReasonBudgetExhausted), blocked("mine", ""), []string{"mine"}},
		"it waits as before":     {blocked("mine", gates.ReasonBudgetExhausted), blocked("mine", gates.ReasonStorm), []string{"mine"}},
		"it did not wait":        {blocked("mine", gates.ReasonNoEvidence), blocked("mine", gates.ReasonDryRun), []string{"mine"}},
	} {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		if tt.updated == nil {
			r.onRemediation().Delete(t.Context(), event.DeleteEvent{Object: tt.old}, q)
		} else {
			r.onRemediation().Update(t.Context(), event.UpdateEvent{ObjectOld: tt.old, ObjectNew: tt.updated}, q)
		}
		if got := woken(q); !slices.Equal(got, tt.want) {
			t.Errorf("%s: woke %v, want %v", name, got, tt.want)
		}
	}
}

// Two creates of one node and policy may both be on their way: each of the two is decided on
// before the other one is seen.
func TestWhoMayBeADuplicateIsWokenByTheOther(t *testing.T) {
	mine, elsewhere, ended := blocked("mine", gates.ReasonNoEvidence), blocked("elsewhere", gates.ReasonNoEvidence), blocked("ended", "")
	mine.Spec.NodeName, ended.Spec.NodeName = "n", "n"
	ended.Status.EndTime = &metav1.Time{Time: now}
	cache := cacheOf(t, mine, elsewhere, ended)
	r := &Reconciler{Client: cache, Store: index.Read(cache)}
	created := blocked("created", "")
	created.Spec.NodeName = "n"
	for name, tt := range map[string]struct {
		created *v1alpha1.Remediation
		want    []string
	}{
		"a new one":               {created, []string{"created", "mine"}},
		"one that has long ended": {ended, []string{"ended"}},
	} {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		r.onRemediation().Create(t.Context(), event.CreateEvent{Object: tt.created}, q)
		if got := woken(q); !slices.Equal(got, tt.want) {
			t.Errorf("%s: woke %v, want %v", name, got, tt.want)
		}
	}
}

// woken returns whom a queue has, and ends it.
func woken(q workqueue.TypedRateLimitingInterface[reconcile.Request]) (names []string) {
	for q.Len() > 0 {
		request, _ := q.Get()
		names = append(names, request.Name)
	}
	q.ShutDown()
	slices.Sort(names)
	return names
}

func TestWhoHoldsAPermitOfAnotherVersionIsWoken(t *testing.T) {
	with := func(permit v1alpha1.Permit) *v1alpha1.RemediationBudget {
		b := &v1alpha1.RemediationBudget{}
		b.Status.Groups = map[string]v1alpha1.BudgetGroup{"-": {Permits: map[string]v1alpha1.Permit{"n": permit}}}
		return b
	}
	old := with(v1alpha1.Permit{Remediation: "r", Version: "1"})
	for name, tt := range map[string]struct {
		updated v1alpha1.Permit
		want    []string
	}{
		"the same":        {v1alpha1.Permit{Remediation: "r", Version: "1"}, nil},
		"another holder":  {v1alpha1.Permit{Remediation: "s", Version: "1"}, []string{"s"}},
		"another version": {v1alpha1.Permit{Remediation: "r", Version: "2"}, []string{"r"}},
	} {
		if got := newHolders(old, with(tt.updated)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// A pause stops more than who waits for a permit: a drain, and an action that nobody has claimed.
func TestABudgetWakesWhomItsPauseStops(t *testing.T) {
	goesOn := func(name string, change func(*v1alpha1.RemediationStatus)) *v1alpha1.Remediation {
		r := blocked(name, "")
		change(&r.Status)
		return r
	}
	objects := []client.Object{
		blocked("blocked", gates.ReasonNoEvidence), blocked("elsewhere", gates.ReasonNoEvidence),
		goesOn("acts", func(s *v1alpha1.RemediationStatus) { s.Action = "acts-1" }),
		goesOn("drains", func(s *v1alpha1.RemediationStatus) { s.Maintenance = "drains-1" }),
		goesOn("verifies", func(*v1alpha1.RemediationStatus) {}),
	}
	for _, r := range slices.Clone(objects) {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.GetName(), Labels: map[string]string{"here": strconv.FormatBool(r.GetName() != "elsewhere")}}})
	}
	cache := cacheOf(t, objects...)
	r := &Reconciler{Client: cache, Store: index.Read(cache)}
	pause := v1alpha1.RemediationBudget{Spec: v1alpha1.RemediationBudgetSpec{Paused: true, NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"here": "true"}}}}

	got := r.blockedOnNodes(t.Context(), pause)
	slices.Sort(got)
	if want := []string{"acts", "blocked", "drains"}; !slices.Equal(got, want) {
		t.Errorf("woke %v, want %v", got, want)
	}
}
