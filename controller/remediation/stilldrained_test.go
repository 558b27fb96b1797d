package remediation

import (
	"context"
	"testing"

	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/index"
)

func TestNoActionBeginsOnANodeThatAPodHasComeToSinceItsDrain(t *testing.T) {
	for name, tt := range map[string]struct {
		step    int32
		drained bool
		asked   bool
		action  bool
	}{
		"drained":                 {2, true, true, true},
		"a pod has come":          {2, false, true, false},
		"the step needs no drain": {1, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := disruptive(at(tt.step, 1), out(v1alpha1.ReasonDrained), func(s *situation) {
				s.budgets[0].Status.Nodes = ptr.To[int32](1)
			})
			c := cacheOf(t, &s.budgets[0], s.node, s.policy, s.remediation, s.maintenance)
			for _, obj := range []client.Object{&s.budgets[0], s.remediation} {
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
					t.Fatal(err)
				}
			}
			metrics, err := NewMetrics(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			asked := false
			r := &Reconciler{
				Client: c, Live: c, Store: index.Read(c), Permits: budget.New(c, c), Nodes: noNodes, Clock: clocktesting.NewFakePassiveClock(now),
				Metrics: metrics, Events: events.NewFakeRecorder(10),
				StillDrained: func(_ context.Context, m *v1alpha1.NodeMaintenance) (bool, error) {
					asked = m == s.maintenance
					return tt.drained, nil
				},
			}
			d := decide(s)
			if d.effect != start {
				t.Fatalf("the rule %q decides, want one that starts an action", d.rule)
			}
			if _, err := r.carryOut(t.Context(), s, d); err != nil {
				t.Fatal(err)
			}
			var actions v1alpha1.NodeActionList
			if err := c.List(t.Context(), &actions); err != nil {
				t.Fatal(err)
			}
			if asked != tt.asked || (len(actions.Items) == 1) != tt.action {
				t.Errorf("asked about its drain: %t, actions: %d", asked, len(actions.Items))
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(s.remediation), s.remediation); err != nil {
				t.Fatal(err)
			}
			if (s.remediation.Status.Action != "") != tt.action {
				t.Errorf("announces %q", s.remediation.Status.Action)
			}
		})
	}
}
