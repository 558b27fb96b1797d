package remediation

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/index"
)

// actionAnnounced is a remediation that has announced an action which nobody has created yet, its budget
// and all else, in a cluster; and what decides about it there, with a look at the latest by live.
func actionAnnounced(t *testing.T, live func(client.Reader) client.Reader) (situation, client.WithWatch, *Reconciler) {
	t.Helper()
	s := incident()
	b := &s.budgets[0]
	b.Status.Nodes = ptr.To[int32](1)
	s.remediation.Status = startAction(begin(s), s).status
	s.remediation.Status.Summarize()
	c := cacheOf(t, b, s.node, s.policy, s.remediation)
	if err := errors.Join(c.Get(t.Context(), client.ObjectKeyFromObject(b), b), c.Get(t.Context(), client.ObjectKeyFromObject(s.remediation), s.remediation)); err != nil {
		t.Fatal(err)
	}
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return s, c, &Reconciler{
		Client: c, Live: live(c), Store: index.Read(c), Permits: budget.New(c, c), Nodes: noNodes,
		Clock: clocktesting.NewFakePassiveClock(now), Metrics: metrics, Events: events.NewFakeRecorder(10),
	}
}

// createdActions carries out that the announced action is created, and returns how many there are.
func createdActions(t *testing.T, s situation, c client.Client, r *Reconciler) (int, error) {
	t.Helper()
	d := decide(s)
	if d.effect != create {
		t.Fatalf("rule %s decided", d.rule)
	}
	_, err := r.carryOut(t.Context(), s, d)
	var actions v1alpha1.NodeActionList
	if err := c.List(t.Context(), &actions); err != nil {
		t.Fatal(err)
	}
	return len(actions.Items), err
}

// Somebody has deleted the announced action, and another controller has written down that it is
// lost. This one has not heard of it: nothing is left to write, whose version would be compared.
func TestAnActionThatWasAnnouncedIsNotCreatedAgainByAnOldView(t *testing.T) {
	for name, goneOn := range map[string]bool{"nobody has gone on": false, "another controller has": true} {
		t.Run(name, func(t *testing.T) {
			s, c, r := actionAnnounced(t, func(c client.Reader) client.Reader { return c })
			if goneOn {
				latest := s.remediation.DeepCopy()
				latest.Status.Action = ""
				if err := c.Status().Update(t.Context(), latest); err != nil {
					t.Fatal(err)
				}
			}
			if actions, err := createdActions(t, s, c, r); apierrors.IsConflict(err) != goneOn || !goneOn && err != nil || (actions == 0) != goneOn {
				t.Errorf("%d actions, %v; want a conflict: %t", actions, err, goneOn)
			}
		})
	}
}

func TestAnActionThatWasAnnouncedIsNotCreatedAfterAPauseOfTheCluster(t *testing.T) {
	s, c, r := actionAnnounced(t, func(c client.Reader) client.Reader { return &pausing{Reader: c} })
	if actions, err := createdActions(t, s, c, r); actions != 0 || err != nil {
		t.Errorf("%d actions, %v", actions, err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(s.remediation), s.remediation); err != nil || s.remediation.BlockedBy() != gates.ReasonPaused {
		t.Errorf("blocked by %q, %v", s.remediation.BlockedBy(), err)
	}
}

// The permit is for a node that is out already, or for taking one out.
func TestThatANodeIsOutAlreadyIsAskedOfTheAPIServer(t *testing.T) {
	reboot := &v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{}}
	ready := func(status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}},
		}}
	}
	for name, tt := range map[string]struct {
		cached, live *corev1.Node
		step         *v1alpha1.Step
		disrupts     bool
	}{
		"it is":                     {ready(corev1.ConditionFalse), ready(corev1.ConditionFalse), reboot, false},
		"it has come back":          {ready(corev1.ConditionFalse), ready(corev1.ConditionTrue), reboot, true},
		"it is not":                 {ready(corev1.ConditionTrue), ready(corev1.ConditionTrue), reboot, true},
		"it went out a moment ago":  {ready(corev1.ConditionTrue), ready(corev1.ConditionFalse), reboot, true},
		"the step takes nobody out": {ready(corev1.ConditionFalse), ready(corev1.ConditionTrue), &v1alpha1.Step{Command: &v1alpha1.CommandRemedy{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Live: cacheOf(t, tt.live)}
			if got, err := r.disrupts(t.Context(), situation{node: tt.cached}, tt.step); got != tt.disrupts || err != nil {
				t.Errorf("got %t, %v", got, err)
			}
		})
	}
}
