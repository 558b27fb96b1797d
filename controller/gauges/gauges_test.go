package gauges

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
	expected     []string // of policies, the names that were told
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
func (s *stored) gauges(t testing.TB, elected bool) *Collector {
	leads := make(chan struct{})
	if elected {
		close(leads)
	}
	return New(t.Context(), Options{
		Reader: s, Nodes: func() ([]*corev1.Node, string) { return s.nodes, "" }, Checked: []string{"Broken", "Worn"}, Clock: clocktesting.NewFakePassiveClock(now), Elected: leads,
		Expect: func(p *v1alpha1.RemedyPolicy) { s.expected = append(s.expected, p.Name) },
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

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// remediation is one of policy p.
func remediation(change ...func(*v1alpha1.Remediation)) v1alpha1.Remediation {
	var r v1alpha1.Remediation
	r.Spec.Policy.Name = "p"
	for _, c := range change {
		c(&r)
	}
	return r
}

func state(reason string) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) {
		r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: v1alpha1.RemediationProgressing, Status: metav1.ConditionTrue, Reason: reason})
	}
}

// blocked makes the remediation blocked for that long.
func blocked(reason string, since time.Duration) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) {
		r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{
			Type: v1alpha1.RemediationBlocked, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: ago(since)})
	}
}

// did adds an action that finished this long ago.
func did(remedy, outcome string, finished time.Duration) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) {
		r.Status.History = append(r.Status.History, v1alpha1.ActionRecord{
			Remedy: remedy, Outcome: outcome, Executed: v1alpha1.Executed(outcome), FinishedAt: ago(finished)})
	}
}

// over makes the remediation one that has ended.
func over(r *v1alpha1.Remediation) { r.Status.EndTime = ptr.To(ago(0)) }

// on says which node the remediation is of.
func on(node types.UID) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) { r.Spec.NodeUID = node }
}

// drain is the maintenance of a remediation whose drain is so far.
func drain(reason string) v1alpha1.NodeMaintenance {
	var m v1alpha1.NodeMaintenance
	m.Spec.Remediation = &v1alpha1.RemediationReference{Name: "r"}
	m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MaintenanceDrained, Status: metav1.ConditionFalse, Reason: reason}}
	return m
}

func TestOnlyTheLeaderTellsHowThingsAre(t *testing.T) {
	held := v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	held.Status.Groups = map[string]v1alpha1.BudgetGroup{v1alpha1.UngroupedNodes: {Permits: map[string]v1alpha1.Permit{"n1": {}}}}
	cache := &stored{
		budgets:      []v1alpha1.RemediationBudget{held},
		remediations: []v1alpha1.Remediation{remediation(state("Waiting"), blocked("Excluded", 0)), remediation(state("Acting")), remediation(over)},
		maintenances: []v1alpha1.NodeMaintenance{drain("Draining"), {}},
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
	proceeded, givenBack, ofAPerson := drain("TimedOut"), drain("Aborted"), drain("Aborted")
	proceeded.Status.Conditions[0].Status = metav1.ConditionTrue // onTimeout: Proceed
	givenBack.DeletionTimestamp = ptr.To(ago(0))
	ofAPerson.Spec.Remediation = nil
	cache := &stored{maintenances: []v1alpha1.NodeMaintenance{drain("Draining"), drain("Vetoed"), proceeded, givenBack}}
	cache.expect(t, `
nodemend_drains_overdue{by="person"} 0
nodemend_drains_overdue{by="policy"} 0
`, "nodemend_drains_overdue")
	cache.maintenances = append(cache.maintenances, drain("TimedOut"), ofAPerson)
	cache.expect(t, `
nodemend_drains_overdue{by="person"} 1
nodemend_drains_overdue{by="policy"} 1
`, "nodemend_drains_overdue")
}

func TestNodesOutOfServiceAreCountedByWhetherTheyAreBack(t *testing.T) {
	node := func(ready corev1.ConditionStatus, mark string) *corev1.Node {
		n := &corev1.Node{}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
		if mark != "" {
			n.Annotations = map[string]string{v1alpha1.OutOfServiceAnnotation: mark}
		}
		return n
	}
	cache := &stored{nodes: []*corev1.Node{node(corev1.ConditionTrue, "")}} // somebody else's
	cache.expect(t, `
nodemend_nodes_out_of_service{ready="false"} 0
nodemend_nodes_out_of_service{ready="true"} 0
`, "nodemend_nodes_out_of_service")
	cache.nodes = append(cache.nodes, node(corev1.ConditionUnknown, "boot action"), node(corev1.ConditionFalse, "boot action moved"), node(corev1.ConditionTrue, "boot action moved"))
	cache.expect(t, `
nodemend_nodes_out_of_service{ready="false"} 2
nodemend_nodes_out_of_service{ready="true"} 1
`, "nodemend_nodes_out_of_service")
}

func TestEachNodeThatWasTriedTellsWhetherItCanBeFenced(t *testing.T) {
	node := func(name string, status corev1.ConditionStatus, reason string, checked time.Duration) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: v1alpha1.NodeFenceable, Status: status, Reason: reason, LastHeartbeatTime: metav1.NewTime(now.Add(-checked))}}
		return n
	}
	cache := &stored{nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "never"}}}}
	cache.expect(t, "", "nodemend_node_fenceable")
	cache.nodes = append(cache.nodes, node("a", "True", v1alpha1.FenceAnswers, time.Hour), node("b", "False", v1alpha1.FenceLoginRefused, 20*time.Hour),
		node("c", "True", v1alpha1.FenceAnswers, 20*time.Hour), node("d", "False", "forged", time.Hour))
	cache.expect(t, `
nodemend_node_fenceable{node_name="a",reason="SwitchAnswers"} 1
nodemend_node_fenceable{node_name="b",reason="LoginRefused"} 0
nodemend_node_fenceable{node_name="c",reason="NotCheckedLately"} 0
nodemend_node_fenceable{node_name="d",reason="Other"} 0
`, "nodemend_node_fenceable")
}

func TestTheLongestWaitIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		remediations []v1alpha1.Remediation
		want         string
	}{
		"nobody waits": {[]v1alpha1.Remediation{remediation(state("Acting"))}, ""},
		"of three, the longest": {
			[]v1alpha1.Remediation{remediation(blocked("NoEvidence", time.Minute)), remediation(blocked("NoEvidence", time.Hour)), remediation(blocked("NoEvidence", time.Second))},
			`nodemend_remediations_blocked_longest_seconds{policy="p",reason="NoEvidence"} 3600` + "\n",
		},
		"tries that were not executed do not start it anew": {
			[]v1alpha1.Remediation{remediation(did("command", "Failed", 5*time.Hour), did("command", "Expired", 2*time.Hour), did("command", "Expired", time.Minute), blocked("RunnerAway", time.Minute))},
			`nodemend_remediations_blocked_longest_seconds{policy="p",reason="RunnerAway"} 7200` + "\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cache := &stored{remediations: c.remediations}
			cache.expect(t, c.want, "nodemend_remediations_blocked_longest_seconds")
		})
	}
}

// Such a policy is on trial: nobody is to be woken for what would hold it back. What it began in
// mode Enforce still waits for somebody.
func TestAPolicyInDryRunThatHasDoneNothingWaitsForNobody(t *testing.T) {
	policy := v1alpha1.RemedyPolicy{Spec: v1alpha1.RemedyPolicySpec{Mode: v1alpha1.ModeDryRun}}
	policy.UID = "trial"
	ofIt := func(r *v1alpha1.Remediation) { r.Spec.Policy.UID = policy.UID }
	out := func(r *v1alpha1.Remediation) { r.Status.Maintenance = "m" }
	cache := &stored{policies: []v1alpha1.RemedyPolicy{policy}, remediations: []v1alpha1.Remediation{
		remediation(ofIt, blocked("ApprovalRequired", time.Hour)),
		remediation(ofIt, did("command", "Expired", time.Hour), blocked("NoEvidence", time.Hour)),
		remediation(ofIt, out, state("InMaintenance"), blocked("ReleaseRequired", time.Hour)),
		remediation(ofIt, did("command", "Interrupted", time.Hour), blocked("Interrupted", time.Hour)),
		remediation(blocked("Busy", time.Hour)), // of another one
	}}
	cache.expect(t, `
nodemend_remediations_blocked{policy="p",reason="ApprovalRequired"} 1
nodemend_remediations_blocked{policy="p",reason="Busy"} 1
nodemend_remediations_blocked{policy="p",reason="Interrupted"} 1
nodemend_remediations_blocked{policy="p",reason="NoEvidence"} 1
nodemend_remediations_blocked{policy="p",reason="ReleaseRequired"} 1
nodemend_remediations_blocked_longest_seconds{policy="p",reason="Busy"} 3600
nodemend_remediations_blocked_longest_seconds{policy="p",reason="Interrupted"} 3600
nodemend_remediations_blocked_longest_seconds{policy="p",reason="ReleaseRequired"} 3600
`, "nodemend_remediations_blocked", "nodemend_remediations_blocked_longest_seconds")
}

func TestRepeatedRemediationsOfOneNodeAreTold(t *testing.T) {
	restarted := func(node types.UID, outcome string, finished time.Duration) v1alpha1.Remediation {
		return remediation(on(node), over, did("restartUnit", outcome, finished))
	}
	open := restarted("a", "Succeeded", time.Hour)
	open.Status.EndTime = nil
	cache := &stored{remediations: []v1alpha1.Remediation{
		restarted("a", "Succeeded", 20*time.Hour), open, restarted("b", "Succeeded", time.Hour),
		restarted("a", "Succeeded", 25*time.Hour), // too old
		restarted("a", "Expired", time.Hour),      // not executed
		remediation(on("a"), over),                // nothing done
	}}
	cache.expect(t, `nodemend_node_remediations_max{policy="p"} 2`+"\n", "nodemend_node_remediations_max")
}

func TestNodesAreCountedByTheirLastAction(t *testing.T) {
	const restart = "restartUnit"
	cache := &stored{remediations: []v1alpha1.Remediation{
		remediation(on("a"), did(restart, "Failed", 2*time.Hour)), remediation(on("a"), did(restart, "Succeeded", time.Hour)), // it works now
		remediation(on("b"), did(restart, "Failed", time.Hour)), remediation(on("b"), did(restart, "Succeeded", 2*time.Hour)),
		remediation(on("c"), did(restart, "Failed", time.Hour)), remediation(on("c"), did("reboot", "NotBack", time.Hour)),
		remediation(on("d"), did(restart, "Failed", 7*time.Hour)), // too old
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
	c := (&stored{}).gauges(t, true)
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
		if got := c.reported(node, condition, now); got != want {
			t.Errorf("got %s, want %s: %v", got, want, node.Status.Conditions)
		}
	}
	for what, node := range map[string]*corev1.Node{
		"a problem is repeated more often": nodeReporting("True", time.Minute, "True", 3*time.Minute),
		"a node that is new":               nodeReporting("True", time.Minute, "", 0),
	} {
		if got := c.reported(node, "Sick", now); got != conditionNotReady {
			t.Errorf("%s: got %s", what, got)
		}
	}
	// The API server takes any text as a status, and a label of it would be as long.
	if got := c.reported(nodeReporting("True", time.Hour, corev1.ConditionStatus(strings.Repeat("x", 1<<19)), time.Minute), "Sick", now); got != "Unknown" {
		t.Errorf("a status that is none gives a label of %d bytes", len(got))
	}
	if got := c.reported(nodeReporting("True", 5*time.Hour, "", 0), "Ready", now); got != "True" {
		t.Errorf("the kubelet's own condition: got %s", got)
	}
}

// A node of a cloud has the conditions of the provider's own agents from the start.
func TestADetectorThatNeverCameIsMissingWhateverOtherAgentsReport(t *testing.T) {
	c := (&stored{}).gauges(t, true)
	node := nodeReporting("True", time.Hour, "False", time.Minute) // Sick is nobody's of ours
	for condition, want := range map[string]string{"Broken": conditionMissing, "Another": conditionAbsent} {
		if got := c.reported(node, condition, now); got != want {
			t.Errorf("%s is %s, want %s", condition, got, want)
		}
	}
	node.Status.Conditions[1].Type = "Worn"
	if got := c.reported(node, "Broken", now); got != conditionAbsent {
		t.Errorf("beside another check's condition it is %s, want %s", got, conditionAbsent)
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

func TestEveryPolicyIsExpectedToBeCounted(t *testing.T) {
	cache := &stored{policies: make([]v1alpha1.RemedyPolicy, 2)}
	cache.policies[0].Name, cache.policies[1].Name = "p", "q"
	testutil.CollectAndCount(cache.gauges(t, true))
	if !slices.Equal(cache.expected, []string{"p", "q"}) {
		t.Errorf("told of %v", cache.expected)
	}
}

func TestMachinesInMaintenanceAreCountedByTheirPhase(t *testing.T) {
	off := func(phase v1alpha1.PowerPhase) v1alpha1.NodeMaintenance {
		return v1alpha1.NodeMaintenance{Status: v1alpha1.NodeMaintenanceStatus{Power: &v1alpha1.MaintenancePowerStatus{Phase: phase}}}
	}
	cache := &stored{maintenances: []v1alpha1.NodeMaintenance{off(v1alpha1.PowerOff), off(v1alpha1.PowerOff), off(v1alpha1.PowerStillOn), {}}}
	cache.expect(t, `
nodemend_maintenance_machines{phase="Off"} 2
nodemend_maintenance_machines{phase="StillOn"} 1
`, "nodemend_maintenance_machines")
}
