package remediation

import (
	"errors"
	"slices"
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

func TestWhoIsHeldBySomethingElseLetsOthersHaveItsPermit(t *testing.T) {
	budget := incident().budgets[0]
	waiting := []client.Object{&budget, blocked("a", gates.ReasonBudgetExhausted), blocked("b", gates.ReasonStorm), blocked("c", gates.ReasonNoEvidence)}
	for _, name := range []string{"a", "b", "c", "mine"} {
		waiting = append(waiting, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	cache := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(waiting...).
		WithIndex(&v1alpha1.Remediation{}, index.BlockedBy, func(obj client.Object) []string {
			return []string{obj.(*v1alpha1.Remediation).BlockedBy()} //nolint:forcetypeassert // the type is asked for
		}).Build()
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
		var got []string
		for q.Len() > 0 {
			request, _ := q.Get()
			got = append(got, request.Name)
		}
		q.ShutDown()
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: woke %v, want %v", name, got, tt.want)
		}
	}
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
