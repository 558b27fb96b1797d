package remediation

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/index"
)

// The second of two budgets refuses its permit. Another controller that has the same view may
// be about to announce an action under that of the first.
func TestAPermitThatIsNotUsedIsReturnedOnlyFromAVersionOfTheRemediationThatIsPast(t *testing.T) {
	for name, tt := range map[string]struct {
		// shown: the status says already what holds the remediation, so that nothing is written.
		shown, announced bool
		// older: the API server's CRD has no summaries of the status, so it drops them.
		older bool
	}{
		"the refusal is written":                       {},
		"the refusal was written before":               {shown: true},
		"it was, and the CRDs are older":               {shown: true, older: true},
		"another one has announced an action":          {announced: true},
		"another one has, and the refusal was written": {shown: true, announced: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := incident()
			b, verdict := &s.budgets[0], gates.Verdict{Reason: gates.ReasonBudgetExhausted, Message: "all are taken"}
			if tt.shown {
				s.remediation.Status = heldBack(s, verdict).status
			}
			s.remediation.Status.Summarize()
			if tt.older {
				s.remediation.Status.State, s.remediation.Status.BlockedBy = "", ""
			}
			c := cacheOf(t, b, s.node, s.policy, s.remediation)
			api := interceptor.NewClient(c, interceptor.Funcs{SubResourcePatch: func(
				ctx context.Context, c client.Client, subresource string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
			) error {
				if tt.older && o.(*v1alpha1.Remediation).Status.UnusedPermit == "" { // nothing is left of the patch
					return c.Get(ctx, client.ObjectKeyFromObject(o), o)
				}
				return c.SubResource(subresource).Patch(ctx, o, patch, options...)
			}})
			metrics, err := NewMetrics(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			r := &Reconciler{
				Client: api, Live: c, Store: index.Read(c), Permits: budget.New(c, c), Nodes: noNodes, Clock: clocktesting.NewFakePassiveClock(now),
				Metrics: metrics, Events: events.NewFakeRecorder(10),
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(s.remediation), s.remediation); err != nil {
				t.Fatal(err)
			}
			version := s.remediation.ResourceVersion
			permit := v1alpha1.Permit{Remediation: s.remediation.Name, Version: version}
			group := b.Status.Groups[v1alpha1.UngroupedNodes]
			group.Permits = map[string]v1alpha1.Permit{s.node.Name: permit}
			b.Status.Groups[v1alpha1.UngroupedNodes] = group
			other := s.remediation.DeepCopy()
			other.Status.Action = "n1-0123-1"
			errs := []error{c.Status().Update(t.Context(), b)}
			if tt.announced {
				errs = append(errs, c.Status().Update(t.Context(), other))
			}
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}

			_, err = r.heldBack(t.Context(), s, verdict, permit, []v1alpha1.RemediationBudget{*b})
			if apierrors.IsConflict(err) != tt.announced || err != nil && !tt.announced {
				t.Errorf("got %v", err)
			}
			var latest v1alpha1.Remediation
			if err := errors.Join(c.Get(t.Context(), client.ObjectKeyFromObject(b), b), c.Get(t.Context(), client.ObjectKeyFromObject(s.remediation), &latest)); err != nil {
				t.Fatal(err)
			}
			if _, kept := b.Status.Groups[v1alpha1.UngroupedNodes].Permits[s.node.Name]; kept != tt.announced {
				t.Errorf("the permit is kept: %t", kept)
			}
			if latest.ResourceVersion == version {
				t.Error("who has the same view may still announce an action")
			}
		})
	}
}
