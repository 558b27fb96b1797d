package remediation

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/index"
)

// Somebody has deleted the announced action, and another controller has written down that it is
// lost. This one has not heard of it: nothing is left to write, whose version would be compared.
func TestAnActionThatWasAnnouncedIsNotCreatedAgainByAnOldView(t *testing.T) {
	for name, goneOn := range map[string]bool{"nobody has gone on": false, "another controller has": true} {
		t.Run(name, func(t *testing.T) {
			s := incident()
			b := &s.budgets[0]
			b.Status.Nodes = ptr.To[int32](1)
			s.node.ResourceVersion = ""
			d := startAction(begin(s), s)
			s.remediation.Status = d.status
			s.remediation.Status.Summarize()
			c := cacheOf(t, b, s.node, s.policy, s.remediation)
			if err := errors.Join(c.Get(t.Context(), client.ObjectKeyFromObject(b), b), c.Get(t.Context(), client.ObjectKeyFromObject(s.remediation), s.remediation)); err != nil {
				t.Fatal(err)
			}
			if goneOn {
				latest := s.remediation.DeepCopy()
				latest.Status.Action = ""
				if err := c.Status().Update(t.Context(), latest); err != nil {
					t.Fatal(err)
				}
			}
			metrics, err := NewMetrics(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			r := &Reconciler{
				Client: c, Live: c, Store: index.Read(c), Permits: budget.New(c, c), Nodes: noNodes,
				Clock: clocktesting.NewFakePassiveClock(now), Metrics: metrics, Events: events.NewFakeRecorder(10),
			}
			d = decide(s)
			if d.effect != create {
				t.Fatalf("rule %s decided", d.rule)
			}
			if _, err := r.carryOut(t.Context(), s, d); apierrors.IsConflict(err) != goneOn || !goneOn && err != nil {
				t.Errorf("got %v, want a conflict: %t", err, goneOn)
			}
			var actions v1alpha1.NodeActionList
			if err := c.List(t.Context(), &actions); err != nil || (len(actions.Items) == 0) != goneOn {
				t.Errorf("%d actions, %v", len(actions.Items), err)
			}
		})
	}
}
