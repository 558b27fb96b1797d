package maintenance

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// medik8s is the Lease of w17, of this holder, renewed so long ago.
func medik8s(now time.Time, holder string, renewed time.Duration) client.Object {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: "node-w17"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To[int32](600), RenewTime: &metav1.MicroTime{Time: now.Add(-renewed)},
		},
	}
}

func TestTheLeaseOfMedik8sIsTakenRenewedAndReturned(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	person := []*v1alpha1.NodeMaintenance{{ObjectMeta: metav1.ObjectMeta{Name: "person"}}}
	ended := func(phase v1alpha1.PowerPhase) []*v1alpha1.NodeMaintenance {
		m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "ended", DeletionTimestamp: ptr.To(metav1.NewTime(now))}}
		m.Spec.NodeName, m.Status.Power = "w17", &v1alpha1.MaintenancePowerStatus{Phase: phase}
		return []*v1alpha1.NodeMaintenance{m}
	}
	forbidden := apierrors.NewForbidden(coordinationv1.Resource("leases"), "node-w17", errors.New("no"))
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusBadRequest, Message: "a webhook denied the request"}}
	noNamespace := apierrors.NewNotFound(corev1.Resource("namespaces"), "medik8s-leases")
	for name, tt := range map[string]struct {
		off     bool
		lease   client.Object
		holders []*v1alpha1.NodeMaintenance
		leaving []*v1alpha1.NodeMaintenance
		fails   error // each write
		returns bool
		// holder and renewed, how long ago, of the Lease afterwards; "": there is none.
		holder  string
		renewed time.Duration
		again   time.Duration
		failure string
	}{
		"nobody has it":                        {holders: person, holder: "nodemend", again: 3 * time.Minute},
		"its machine is not back":              {leaving: ended(v1alpha1.PowerRestoring), holder: "nodemend", again: 3 * time.Minute},
		"its machine is back":                  {leaving: ended(v1alpha1.PowerOn)},
		"its machine is left to people":        {leaving: ended(v1alpha1.PowerLeftOff)},
		"it is not wanted":                     {off: true, holders: person},
		"nobody holds the node":                {},
		"it is ours":                           {holders: person, lease: medik8s(now, "nodemend", time.Minute), holder: "nodemend", renewed: time.Minute, again: 3 * time.Minute},
		"it is to be renewed":                  {holders: person, lease: medik8s(now, "nodemend", 3*time.Minute), holder: "nodemend", again: 3 * time.Minute},
		"it was ours, and is over":             {holders: person, lease: medik8s(now, "nodemend", time.Hour), holder: "nodemend", again: 3 * time.Minute},
		"it was renewed by a clock ahead":      {holders: person, lease: medik8s(now, "nodemend", -time.Hour), holder: "nodemend", again: 3 * time.Minute},
		"another one has it":                   {holders: person, lease: medik8s(now, "NodeHealthCheck-workers", time.Minute), holder: "NodeHealthCheck-workers", renewed: time.Minute, again: 3 * time.Minute},
		"another one has had it":               {holders: person, lease: medik8s(now, "NodeHealthCheck-workers", time.Hour), holder: "nodemend", again: 3 * time.Minute},
		"somebody is first":                    {holders: person, fails: apierrors.NewAlreadyExists(coordinationv1.Resource("leases"), "node-w17"), again: 3 * time.Minute},
		"there is no right":                    {holders: person, fails: forbidden, again: 3 * time.Minute},
		"there is no namespace":                {holders: person, fails: noNamespace, again: 3 * time.Minute},
		"a webhook refuses":                    {holders: person, fails: denied, again: 3 * time.Minute},
		"a policy refuses":                     {holders: person, fails: apierrors.NewInvalid(schema.GroupKind{Kind: "Lease"}, "node-w17", nil), again: 3 * time.Minute},
		"a webhook has no pod":                 {holders: person, fails: apierrors.NewInternalError(errors.New("failed calling webhook")), again: 10 * time.Second},
		"nobody answers":                       {holders: person, fails: errors.New("no answer"), failure: "no answer"},
		"the answer does not come in time":     {holders: person, fails: apierrors.NewTimeoutError("no answer yet", 1), failure: "no answer yet"},
		"the API server is busy":               {holders: person, fails: apierrors.NewTooManyRequests("later", 1), failure: "later"},
		"the API server goes":                  {holders: person, fails: apierrors.NewServiceUnavailable("it goes"), failure: "it goes"},
		"it was changed meanwhile":             {holders: person, fails: apierrors.NewConflict(coordinationv1.Resource("leases"), "node-w17", errors.New("changed")), failure: "changed"},
		"it is returned":                       {returns: true, lease: medik8s(now, "nodemend", time.Minute)},
		"what another one has is not returned": {returns: true, lease: medik8s(now, "NodeHealthCheck-workers", time.Minute), holder: "NodeHealthCheck-workers", renewed: time.Minute},
		"there is nothing to return":           {returns: true},
		"without the right it ends by itself":  {returns: true, lease: medik8s(now, "nodemend", time.Minute), fails: forbidden, holder: "nodemend", renewed: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme)
			if tt.lease != nil {
				builder = builder.WithObjects(tt.lease)
			}
			if tt.fails != nil {
				builder = builder.WithInterceptorFuncs(interceptor.Funcs{
					Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return tt.fails },
					Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
						return tt.fails
					},
					Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return tt.fails },
				})
			}
			c := builder.Build()
			r := &Reconciler{Client: c, Live: c, Clock: clocktesting.NewFakePassiveClock(now), Leases: !tt.off}
			var again time.Duration
			var err error
			if tt.returns {
				err = r.returnLease(t.Context(), "w17")
			} else {
				again, err = r.lease(t.Context(), nodeWith(false, nil), tt.holders, tt.leaving)
			}
			if (err != nil) != (tt.failure != "") || err != nil && !strings.Contains(err.Error(), tt.failure) {
				t.Fatalf("got %v, want %q", err, tt.failure)
			}
			if again != tt.again {
				t.Errorf("again after %s, want %s", again, tt.again)
			}
			var lease coordinationv1.Lease
			err = c.Get(t.Context(), types.NamespacedName{Namespace: "medik8s-leases", Name: "node-w17"}, &lease)
			if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != tt.holder {
				t.Fatalf("held by %q, want %q", holder, tt.holder)
			}
			if tt.holder == "" {
				return
			}
			if renewed := now.Sub(lease.Spec.RenewTime.Time); renewed != tt.renewed || *lease.Spec.LeaseDurationSeconds != 600 {
				t.Errorf("renewed %s ago, for %d seconds", renewed, *lease.Spec.LeaseDurationSeconds)
			}
		})
	}
}
