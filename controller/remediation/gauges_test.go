package remediation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// stored is a cache that has these objects.
type stored struct {
	client.Reader
	budgets      []v1alpha1.RemediationBudget
	remediations []v1alpha1.Remediation
	maintenances []v1alpha1.NodeMaintenance
	policies     []v1alpha1.RemedyPolicy
	nodes        []*corev1.Node
}

func (s *stored) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *v1alpha1.RemediationBudgetList:
		list.Items = s.budgets
	case *v1alpha1.RemediationList:
		list.Items = s.remediations
	case *v1alpha1.NodeMaintenanceList:
		list.Items = s.maintenances
	case *v1alpha1.RemedyPolicyList:
		list.Items = s.policies
	}
	return nil
}

// gauges of the cache, told by a leader or not.
func (s *stored) gauges(t testing.TB, elected bool) *Gauges {
	t.Helper()
	leads := make(chan struct{})
	if elected {
		close(leads)
	}
	counters, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return NewGauges(t.Context(), GaugesOptions{
		Reader: s, Nodes: func() ([]*corev1.Node, string) { return s.nodes, "" }, Clock: clocktesting.NewFakePassiveClock(now), Elected: leads, Counters: counters,
	})
}

// expect compares the samples of these metrics.
func (s *stored) expect(t *testing.T, want string, names ...string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.gauges(t, true))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range families {
		if !slices.Contains(names, f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			fmt.Fprintf(&got, "%s{%s} %v\n", f.GetName(), strings.Join(labels, ","), m.GetGauge().GetValue())
		}
	}
	if want := strings.TrimLeft(want, "\n"); got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

func TestOnlyTheLeaderTellsHowThingsAre(t *testing.T) {
	held := incident(budgetHeldBy("a", "n1"), budgetHeldBy("b", "n2"))
	blocked := incident(excluded)
	blocked.remediation.Status = decide(blocked).status
	cache := &stored{
		budgets:      held.budgets,
		remediations: []v1alpha1.Remediation{*blocked.remediation, *incident(progress("Acting")).remediation, record("over", "", 0)},
		maintenances: []v1alpha1.NodeMaintenance{*disruptive(at(3, 1), out("Draining")).maintenance, {}},
	}
	if n := testutil.CollectAndCount(cache.gauges(t, false)); n != 0 {
		t.Errorf("a replica that does not lead tells %d metrics", n)
	}
	cache.expect(t, `
nodemend_budget_permits{budget="all"} 1
nodemend_maintenances{by="person",drained=""} 1
nodemend_maintenances{by="policy",drained="Draining"} 1
nodemend_remediations_blocked{policy="p",reason="Excluded"} 1
nodemend_remediations_open{policy="p",state="Acting"} 1
nodemend_remediations_open{policy="p",state="Waiting"} 1
`, "nodemend_budget_permits", "nodemend_maintenances", "nodemend_remediations_blocked", "nodemend_remediations_open")
}

func TestABudgetTellsItsNodesAndItsStorms(t *testing.T) {
	budget := v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "racks"}}
	budget.Status.Groups = map[string]v1alpha1.BudgetGroup{
		"a": {Nodes: 10, Healthy: 4, Limit: ptr.To[int32](2), Storm: &v1alpha1.Storm{Since: ago(time.Hour)}},
		"b": {Nodes: 5, Healthy: 5, Limit: ptr.To[int32](1), Storm: &v1alpha1.Storm{Since: ago(time.Hour), CalmSince: ptr.To(ago(time.Minute))}},
		"c": {Nodes: 1, Permits: map[string]v1alpha1.Permit{"n": {}}},
	}
	cache := &stored{budgets: []v1alpha1.RemediationBudget{budget}}
	cache.expect(t, `
nodemend_budget_nodes{budget="racks"} 16
nodemend_budget_nodes_healthy{budget="racks"} 9
nodemend_budget_permits{budget="racks"} 1
nodemend_budget_permits_limit{budget="racks"} 3
nodemend_budget_storms{budget="racks"} 1
`, "nodemend_budget_nodes", "nodemend_budget_nodes_healthy", "nodemend_budget_permits", "nodemend_budget_permits_limit", "nodemend_budget_storms")
}

func TestADrainIsOverdueUntilItHasEnded(t *testing.T) {
	proceeded := disruptive(at(3, 1), out("TimedOut")).maintenance.DeepCopy()
	proceeded.Status.Conditions[0].Status = metav1.ConditionTrue // onTimeout: Proceed
	givenBack := disruptive(at(3, 1), out("Aborted")).maintenance.DeepCopy()
	givenBack.DeletionTimestamp = ptr.To(ago(0))
	ofAPerson := disruptive(at(3, 1), out("Aborted")).maintenance.DeepCopy()
	ofAPerson.Spec.Remediation = nil
	cache := &stored{maintenances: []v1alpha1.NodeMaintenance{
		*disruptive(at(3, 1), out("Draining")).maintenance, *disruptive(at(3, 1), out("Vetoed")).maintenance, *proceeded, *givenBack,
	}}
	cache.expect(t, `
nodemend_drains_overdue{by="person"} 0
nodemend_drains_overdue{by="policy"} 0
`, "nodemend_drains_overdue")
	cache.maintenances = append(cache.maintenances, *disruptive(at(3, 1), out("TimedOut")).maintenance, *ofAPerson)
	cache.expect(t, `
nodemend_drains_overdue{by="person"} 1
nodemend_drains_overdue{by="policy"} 1
`, "nodemend_drains_overdue")
}

// blockedSince makes the remediation blocked for that long.
func blockedSince(reason string, since time.Duration) func(*situation) {
	return func(s *situation) {
		meta.SetStatusCondition(&s.remediation.Status.Conditions, metav1.Condition{
			Type: v1alpha1.RemediationBlocked, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: ago(since)})
	}
}

func TestTheLongestWaitIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		remediations []situation
		want         string
	}{
		"nobody waits": {[]situation{incident(progress("Acting"))}, ""},
		"of three, the longest": {
			[]situation{incident(blockedSince("NoEvidence", time.Minute)), incident(blockedSince("NoEvidence", time.Hour)), incident(blockedSince("NoEvidence", time.Second))},
			`nodemend_remediations_blocked_longest_seconds{policy="p",reason="NoEvidence"} 3600` + "\n",
		},
		"tries that were not executed do not start it anew": {
			[]situation{incident(history("Failed", 5*time.Hour), history("Expired", 2*time.Hour), history("Expired", time.Minute), blockedSince("RunnerAway", time.Minute))},
			`nodemend_remediations_blocked_longest_seconds{policy="p",reason="RunnerAway"} 7200` + "\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cache := &stored{}
			for _, s := range c.remediations {
				cache.remediations = append(cache.remediations, *s.remediation)
			}
			cache.expect(t, c.want, "nodemend_remediations_blocked_longest_seconds")
		})
	}
}

// on says which node the remediation is of.
func on(node types.UID) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) { r.Spec.NodeUID = node }
}

func ended(outcome string) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) { r.Status.History[0].Outcome = outcome }
}

func TestRepeatedRemediationsOfOneNodeAreTold(t *testing.T) {
	const restart = "restartUnit"
	cache := &stored{remediations: []v1alpha1.Remediation{
		record("1", restart, 20*time.Hour, on("a")), record("2", restart, time.Hour, on("a"), open), record("3", restart, time.Hour, on("b")),
		record("too old", restart, 25*time.Hour, on("a")),
		record("not executed", restart, time.Hour, on("a"), ended("Expired")),
		record("nothing done", "", time.Hour, on("a")),
	}}
	cache.expect(t, `nodemend_node_remediations_max{policy="p"} 2`+"\n", "nodemend_node_remediations_max")
}

func TestNodesAreCountedByTheirLastAction(t *testing.T) {
	const restart = "restartUnit"
	cache := &stored{remediations: []v1alpha1.Remediation{
		record("1", restart, 2*time.Hour, on("a"), ended("Failed")), record("2", restart, time.Hour, on("a")), // it works now
		record("3", restart, time.Hour, on("b"), ended("Failed")), record("4", restart, 2*time.Hour, on("b")),
		record("5", restart, time.Hour, on("c"), ended("Failed")), record("6", "reboot", time.Hour, on("c"), ended("NotBack")),
		record("too old", restart, 7*time.Hour, on("d"), ended("Failed")),
	}}
	cache.expect(t, `
nodemend_nodes_acted_on{outcome="Failed",policy="p",remedy="restartUnit"} 2
nodemend_nodes_acted_on{outcome="NotBack",policy="p",remedy="reboot"} 1
nodemend_nodes_acted_on{outcome="Succeeded",policy="p",remedy="restartUnit"} 1
`, "nodemend_nodes_acted_on")
}

// nodeReporting is a node that is Ready for that long, with the condition Sick.
func nodeReporting(ready corev1.ConditionStatus, since time.Duration, status corev1.ConditionStatus, heartbeat time.Duration) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "workers"}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: ago(since)}}
	if status != "" {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "Sick", Status: status, LastHeartbeatTime: ago(heartbeat)})
	}
	return node
}

func TestNodesAreCountedByWhatIsReported(t *testing.T) {
	for want, node := range map[string]*corev1.Node{
		"False":    nodeReporting("True", time.Hour, "False", 6*time.Minute),
		"True":     nodeReporting("True", time.Hour, "True", time.Minute),
		"Unknown":  nodeReporting("True", time.Hour, "Unknown", time.Minute),
		"Stale":    nodeReporting("True", time.Hour, "False", 8*time.Minute),
		"Missing":  nodeReporting("True", time.Hour, "", 0),
		"Absent":   nodeReporting("True", time.Hour, "False", time.Minute),
		"NotReady": nodeReporting("Unknown", time.Hour, "False", time.Hour),
	} {
		condition := "Sick"
		if want == "Absent" {
			condition = "Another"
		}
		if got := reported(node, condition, now); got != want {
			t.Errorf("got %s, want %s: %v", got, want, node.Status.Conditions)
		}
	}
	for what, node := range map[string]*corev1.Node{
		"a problem is repeated more often": nodeReporting("True", time.Minute, "True", 3*time.Minute),
		"a node that is new":               nodeReporting("True", time.Minute, "", 0),
	} {
		if got := reported(node, "Sick", now); got != conditionNotReady {
			t.Errorf("%s: got %s", what, got)
		}
	}
	if got := reported(nodeReporting("True", 5*time.Hour, "", 0), "Ready", now); got != "True" {
		t.Errorf("the kubelet's own condition: got %s", got)
	}
}

func TestOnlyNodesOfAPolicyCountAndEachOnce(t *testing.T) {
	workers, everything := v1alpha1.RemedyPolicy{}, v1alpha1.RemedyPolicy{}
	workers.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}}
	workers.Spec.Match = []v1alpha1.ConditionMatch{{Type: "Sick", Status: "True"}, {Type: "Sick", Status: "Unknown"}}
	everything.Spec.Match = []v1alpha1.ConditionMatch{{Type: "Ready", Status: "False"}}
	other := nodeReporting("True", time.Hour, "True", time.Minute)
	other.Labels = nil
	cache := &stored{
		policies: []v1alpha1.RemedyPolicy{workers, workers, everything},
		nodes:    []*corev1.Node{nodeReporting("True", time.Hour, "True", time.Minute), nodeReporting("True", time.Hour, "", 0), other},
	}
	cache.expect(t, `
nodemend_node_conditions{condition="Ready",status="True"} 3
nodemend_node_conditions{condition="Sick",status="Missing"} 1
nodemend_node_conditions{condition="Sick",status="True"} 1
`, "nodemend_node_conditions")
}
