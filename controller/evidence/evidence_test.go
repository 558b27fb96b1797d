package evidence

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

func node(conditions ...corev1.NodeCondition) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Conditions: conditions}}
}

func condition(conditionType string, status corev1.ConditionStatus, heartbeat time.Time) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: corev1.NodeConditionType(conditionType), Status: status,
		LastHeartbeatTime: metav1.NewTime(heartbeat), LastTransitionTime: metav1.NewTime(ago(time.Hour)),
	}
}

// ready makes a node Ready for this long.
func ready(age time.Duration) corev1.NodeCondition {
	c := condition("Ready", "True", ago(0))
	c.LastTransitionTime = metav1.NewTime(ago(age))
	return c
}

func TestWhatAConditionProves(t *testing.T) {
	sick := v1alpha1.ConditionMatch{Type: "Sick", Status: "True"}
	notReady := v1alpha1.ConditionMatch{Type: "Ready", Status: "False"}
	hung := v1alpha1.ConditionMatch{Type: "Sick", Status: "True", Reasons: []string{"Timeout"}}
	withReason := func(c corev1.NodeCondition, reason string) corev1.NodeCondition {
		c.Reason = reason
		return c
	}
	latched := v1alpha1.ConditionMatch{Type: "Sick", Status: "True", IgnoreAfter: v1alpha1.Duration{Duration: time.Hour}}
	since := func(c corev1.NodeCondition, at time.Time) corev1.NodeCondition {
		c.LastTransitionTime = metav1.NewTime(at)
		return c
	}
	unreachable := v1alpha1.ConditionMatch{Type: "Ready", Status: "Unknown"}
	tests := []struct {
		name  string
		match v1alpha1.ConditionMatch
		node  *corev1.Node
		lease time.Time
		after time.Time
		want  State
		why   string
	}{
		{"a fresh True confirms the fault", sick, node(condition("Sick", "True", ago(20*time.Second))), time.Time{}, time.Time{}, Faulty, ""},
		{"a fresh False confirms recovery", sick, node(condition("Sick", "False", ago(5*time.Minute))), time.Time{}, time.Time{}, Clear, ""},
		{"a True for a matched reason confirms the fault", hung, node(withReason(condition("Sick", "True", ago(20*time.Second)), "Crash,Timeout")), time.Time{}, time.Time{}, Faulty, ""},
		{"a True for another reason is neither fault nor recovery", hung, node(withReason(condition("Sick", "True", ago(20*time.Second)), "Crash")), time.Time{}, time.Time{}, Unconfirmed, `for "Crash" and not for Timeout`},
		{"recovery needs no reason", hung, node(withReason(condition("Sick", "False", ago(20*time.Second)), "Fine")), time.Time{}, time.Time{}, Clear, ""},
		{"an absent condition proves nothing", sick, node(), time.Time{}, time.Time{}, Unconfirmed, "has no condition Sick"},
		{"Unknown is no recovery", sick, node(condition("Sick", "Unknown", ago(time.Second))), time.Time{}, time.Time{}, Unconfirmed, "neither the fault"},
		{"a True of a dead detector proves nothing", sick, node(condition("Sick", "True", ago(3*time.Minute))), time.Time{}, time.Time{}, Unconfirmed, "more than 2m0s ago: is its check running?"},
		{"a False of a dead detector proves nothing", sick, node(condition("Sick", "False", ago(8*time.Minute))), time.Time{}, time.Time{}, Unconfirmed, "more than 7m0s ago"},
		{"a report from before the action proves nothing", sick, node(condition("Sick", "True", ago(20*time.Second))), time.Time{}, ago(10 * time.Second), Unconfirmed, "not reported again since the last action or boot"},
		{"a report from the second of the action proves nothing", sick, node(condition("Sick", "True", ago(10*time.Second))), time.Time{}, ago(10*time.Second - 300*time.Millisecond), Unconfirmed, "not reported again"},
		{"a report from after the action confirms", sick, node(condition("Sick", "True", ago(9*time.Second))), time.Time{}, ago(10 * time.Second), Faulty, ""},
		{"a report from before the node became Ready proves nothing: it may have booted", sick, node(condition("Sick", "True", ago(20*time.Second)), ready(10*time.Second)), time.Time{}, time.Time{}, Unconfirmed, "not reported again since the node became Ready"},
		{"nor does a healthy one", sick, node(condition("Sick", "False", ago(20*time.Second)), ready(10*time.Second)), time.Time{}, time.Time{}, Unconfirmed, "not reported again since the node became Ready"},
		{"a Ready from the future says nothing", sick, node(condition("Sick", "True", ago(20*time.Second)), ready(-time.Hour)), time.Time{}, time.Time{}, Faulty, ""},
		{"one from after that does", sick, node(condition("Sick", "True", ago(10*time.Second)), ready(10*time.Second)), time.Time{}, time.Time{}, Faulty, ""},
		{"a node that is not Ready has become nothing", sick, node(condition("Sick", "True", ago(20*time.Second)), condition("Ready", "False", ago(0))), time.Time{}, time.Time{}, Faulty, ""},
		{"a report from the future proves nothing", sick, node(condition("Sick", "True", ago(-time.Minute))), time.Time{}, time.Time{}, Unconfirmed, "in the future"},
		{"the lease makes the kubelet's old report fresh", notReady, node(condition("Ready", "False", ago(4*time.Minute))), ago(5 * time.Second), time.Time{}, Faulty, ""},
		{"without a lease the kubelet's old report proves nothing", notReady, node(condition("Ready", "False", ago(4*time.Minute))), time.Time{}, time.Time{}, Unconfirmed, "is the kubelet running?"},
		{"Ready True is recovery from Ready False", notReady, node(condition("Ready", "True", ago(4*time.Minute))), ago(5 * time.Second), time.Time{}, Clear, ""},
		{"Ready Unknown is no recovery from Ready False", notReady, node(condition("Ready", "Unknown", ago(4*time.Minute))), ago(4 * time.Minute), time.Time{}, Unconfirmed, "neither the fault"},
		{"Ready Unknown with a stale lease confirms absence", unreachable, node(condition("Ready", "Unknown", ago(4*time.Minute))), ago(4 * time.Minute), time.Time{}, Faulty, ""},
		{"Ready Unknown with a fresh lease proves nothing", unreachable, node(condition("Ready", "Unknown", ago(4*time.Minute))), ago(5 * time.Second), time.Time{}, Unconfirmed, "still renews its lease"},
		{"Ready Unknown right after an action proves nothing", unreachable, node(condition("Ready", "Unknown", ago(4*time.Minute))), ago(4 * time.Minute), ago(20 * time.Second), Unconfirmed, "the last action or boot ended only at"},
		{"Ready False is no recovery from Ready Unknown", unreachable, node(condition("Ready", "False", ago(time.Second))), ago(5 * time.Second), time.Time{}, Unconfirmed, "neither the fault"},
		{"a pressure is fresh by the lease", v1alpha1.ConditionMatch{Type: "DiskPressure", Status: "True"}, node(condition("DiskPressure", "True", ago(4*time.Minute))), ago(5 * time.Second), time.Time{}, Faulty, ""},
		{"NetworkUnavailable, which nobody repeats, is fresh by the lease", v1alpha1.ConditionMatch{Type: "NetworkUnavailable", Status: "True"}, node(condition("NetworkUnavailable", "True", ago(time.Hour))), ago(5 * time.Second), time.Time{}, Faulty, ""},
		{"NetworkUnavailable of a node that is away proves nothing", v1alpha1.ConditionMatch{Type: "NetworkUnavailable", Status: "True"}, node(condition("NetworkUnavailable", "True", ago(time.Hour))), ago(time.Minute), time.Time{}, Unconfirmed, "is the kubelet running?"},
		{"NetworkUnavailable can be matched as Unknown", v1alpha1.ConditionMatch{Type: "NetworkUnavailable", Status: "Unknown"}, node(condition("NetworkUnavailable", "Unknown", ago(time.Hour))), ago(5 * time.Second), time.Time{}, Faulty, ""},
		{"a lease that was renewed right after the action does not prove that the kubelet has looked", notReady, node(condition("Ready", "False", ago(4*time.Minute))), ago(5 * time.Second), ago(15 * time.Second), Unconfirmed, "not reported again since the last action or boot"},
		{"a lease that was renewed later does", notReady, node(condition("Ready", "False", ago(4*time.Minute))), ago(5 * time.Second), ago(16 * time.Second), Faulty, ""},
		{"a report of the kubelet's own after the action does not, since its clock may be wrong", notReady, node(condition("Ready", "False", ago(4*time.Second))), ago(5 * time.Second), ago(6 * time.Second), Unconfirmed, "not reported again since the last action or boot"},
		{"a kubelet whose clock is ahead proves as much as any other", notReady, node(condition("Ready", "False", ago(-time.Hour))), ago(5 * time.Second), ago(16 * time.Second), Faulty, ""},
		{"a latch confirms the fault as long as it counts", latched, node(since(condition("Sick", "True", ago(time.Second)), ago(time.Hour))), time.Time{}, time.Time{}, Faulty, ""},
		{"an older one proves nothing", latched, node(since(condition("Sick", "True", ago(time.Second)), ago(time.Hour+time.Second))), time.Time{}, time.Time{}, Unconfirmed, "Sick is True since 2026-03-01T10:59:59Z, for longer than ignoreAfter (1h0m0s): it counts no more"},
		{"nor does one that does not say since when it is set", latched, node(since(condition("Sick", "True", ago(time.Second)), time.Time{})), time.Time{}, time.Time{}, Unconfirmed, "counts no more"},
		{"one that was taken back is clear at any age", latched, node(since(condition("Sick", "False", ago(time.Second)), ago(100*time.Hour))), time.Time{}, time.Time{}, Clear, ""},
		{"one that does not match is told as ever", latched, node(since(condition("Sick", "Unknown", ago(time.Second)), ago(100*time.Hour))), time.Time{}, time.Time{}, Unconfirmed, "neither the fault"},
		{"a latch of a clock that is ahead counts", latched, node(since(condition("Sick", "True", ago(time.Second)), ago(-100*time.Hour))), time.Time{}, time.Time{}, Faulty, ""},
		{"reversed polarity: True is healthy", v1alpha1.ConditionMatch{Type: "RuntimeReady", Status: "False"}, node(condition("RuntimeReady", "True", ago(time.Second))), time.Time{}, time.Time{}, Clear, ""},
		{"a matched Unknown is cleared by False", v1alpha1.ConditionMatch{Type: "Sick", Status: "Unknown"}, node(condition("Sick", "False", ago(time.Second))), time.Time{}, time.Time{}, Clear, ""},
		{"a matched Unknown is cleared by the status that is said to be healthy", v1alpha1.ConditionMatch{Type: "GPUReady", Status: "Unknown", Healthy: "True"}, node(condition("GPUReady", "True", ago(time.Second))), time.Time{}, time.Time{}, Clear, ""},
		{"and by no other one", v1alpha1.ConditionMatch{Type: "GPUReady", Status: "Unknown", Healthy: "True"}, node(condition("GPUReady", "False", ago(time.Second))), time.Time{}, time.Time{}, Unconfirmed, "neither the fault (Unknown) nor healthy (True)"},
		{"a matched Unknown is not cleared by True", v1alpha1.ConditionMatch{Type: "Sick", Status: "Unknown"}, node(condition("Sick", "True", ago(time.Second))), time.Time{}, time.Time{}, Unconfirmed, "neither"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Judge([]v1alpha1.ConditionMatch{tt.match}, Input{Node: tt.node, LeaseRenewed: tt.lease, After: tt.after, Now: now})[0]
			if got.State != tt.want || !strings.Contains(got.Why, tt.why) || (got.Why == "") != (tt.why == "") {
				t.Errorf("got state %d, why %q; want state %d, why %q", got.State, got.Why, tt.want, tt.why)
			}
		})
	}
}

func TestAFaultThatHasComeBackHasToHoldAgain(t *testing.T) {
	const held = 5 * time.Minute
	match := []v1alpha1.ConditionMatch{{Type: "Sick", Status: "True", For: v1alpha1.Duration{Duration: held}}}
	for name, tt := range map[string]struct {
		since, began time.Time
		want         State
	}{
		"it began the remediation":             {ago(time.Minute), ago(30 * time.Second), Faulty},
		"a person started without waiting":     {ago(time.Minute), ago(time.Minute), Faulty},
		"it has come back":                     {ago(time.Minute), ago(time.Hour), Unconfirmed},
		"it has come back, and held":           {ago(held), ago(time.Hour), Faulty},
		"nobody says when the remediation did": {ago(time.Minute), time.Time{}, Faulty},
		"a clock is wrong":                     {ago(-time.Minute), ago(time.Hour), Faulty},
	} {
		c := condition("Sick", "True", ago(20*time.Second))
		c.LastTransitionTime = metav1.NewTime(tt.since)
		got := Judge(match, Input{Node: node(c), Began: tt.began, Now: now})[0]
		if got.State != tt.want || (got.Why == "") != (tt.want == Faulty) {
			t.Errorf("%s: got state %d, why %q; want state %d", name, got.State, got.Why, tt.want)
		}
	}
}

func TestThePolarityOfUnknownIsThatOfItsSibling(t *testing.T) {
	match := []v1alpha1.ConditionMatch{{Type: "RuntimeReady", Status: "Unknown"}, {Type: "RuntimeReady", Status: "False"}}
	findings := Judge(match, Input{Node: node(condition("RuntimeReady", "True", ago(time.Second))), Now: now})
	if _, ok := AllClear(findings); !ok {
		t.Errorf("got %+v, want all clear", findings)
	}
}

func TestAllEntriesMustBeClear(t *testing.T) {
	match := []v1alpha1.ConditionMatch{{Type: "A", Status: "True"}, {Type: "B", Status: "True"}}
	later := condition("B", "False", ago(time.Second))
	later.LastTransitionTime = metav1.NewTime(ago(time.Minute))

	findings := Judge(match, Input{Node: node(condition("A", "False", ago(time.Second)), later), Now: now})
	since, ok := AllClear(findings)
	if !ok || !since.Equal(ago(time.Minute)) {
		t.Errorf("got clear %v since %v, want since the later of both", ok, since)
	}
	findings = Judge(match, Input{Node: node(condition("A", "False", ago(time.Second))), Now: now})
	if _, ok := AllClear(findings); ok {
		t.Error("an absent condition counted as clear")
	}
	if AnyFaulty(findings) {
		t.Error("an absent condition counted as faulty")
	}
}
