package match

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func node(labels map[string]string, conditions ...corev1.NodeCondition) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid", Labels: labels},
		Status:     corev1.NodeStatus{Conditions: conditions},
	}
}

func since(conditionType string, status corev1.ConditionStatus, age time.Duration) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: corev1.NodeConditionType(conditionType), Status: status, Reason: "Why",
		LastTransitionTime: metav1.NewTime(now.Add(-age)),
	}
}

func entry(conditionType string, hold time.Duration) v1alpha1.ConditionMatch {
	return v1alpha1.ConditionMatch{Type: conditionType, Status: corev1.ConditionTrue, For: v1alpha1.Duration{Duration: hold}}
}

func withReasons(conditionType string, reasons ...string) v1alpha1.ConditionMatch {
	m := entry(conditionType, 0)
	m.Reasons = reasons
	return m
}

// ignored lets an entry count for two hours.
func ignored(m v1alpha1.ConditionMatch) v1alpha1.ConditionMatch {
	m.IgnoreAfter = v1alpha1.Duration{Duration: 2 * time.Hour}
	return m
}

func TestPolicyTriggers(t *testing.T) {
	workers := &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}}
	tests := []struct {
		name     string
		selector *metav1.LabelSelector
		match    []v1alpha1.ConditionMatch
		node     *corev1.Node
		trigger  string
		wait     time.Duration
	}{
		{"a condition that held for its time", nil, []v1alpha1.ConditionMatch{entry("A", time.Minute)}, node(nil, since("A", "True", time.Minute)), "A", 0},
		{"one that has not held yet is waited for", nil, []v1alpha1.ConditionMatch{entry("A", time.Minute)}, node(nil, since("A", "True", 20*time.Second)), "", 40 * time.Second},
		{"another status is none", nil, []v1alpha1.ConditionMatch{entry("A", 0)}, node(nil, since("A", "Unknown", time.Hour)), "", 0},
		{"a condition without a time has not held", nil, []v1alpha1.ConditionMatch{entry("A", 0)}, node(nil, corev1.NodeCondition{Type: "A", Status: "True"}), "", 0},
		{"no such condition", nil, []v1alpha1.ConditionMatch{entry("A", 0)}, node(nil), "", 0},
		{"any entry is enough", nil, []v1alpha1.ConditionMatch{entry("A", time.Hour), entry("B", 0)}, node(nil, since("A", "True", time.Minute), since("B", "True", time.Second)), "B", 0},
		{"the earliest of several is the trigger", nil, []v1alpha1.ConditionMatch{entry("A", 0), entry("B", 0)}, node(nil, since("A", "True", time.Minute), since("B", "True", time.Hour)), "B", 0},
		{"the next of several is waited for", nil, []v1alpha1.ConditionMatch{entry("A", time.Hour), entry("B", time.Minute)}, node(nil, since("A", "True", 0), since("B", "True", 0)), "", time.Minute},
		{"a matched reason", nil, []v1alpha1.ConditionMatch{withReasons("A", "Other", "Why")}, node(nil, since("A", "True", 0)), "A", 0},
		{"another reason is none", nil, []v1alpha1.ConditionMatch{withReasons("A", "Other")}, node(nil, since("A", "True", 0)), "", 0},
		{"another reason is not waited for", nil, []v1alpha1.ConditionMatch{withReasons("A", "Other"), entry("B", time.Minute)}, node(nil, since("A", "True", 0), since("B", "True", 0)), "", time.Minute},
		{"one that counts for as long as ignoreAfter", nil, []v1alpha1.ConditionMatch{ignored(entry("A", time.Minute))}, node(nil, since("A", "True", 2*time.Hour)), "A", 0},
		{"an older one is none, and not waited for", nil, []v1alpha1.ConditionMatch{ignored(entry("A", time.Minute))}, node(nil, since("A", "True", 2*time.Hour+time.Second)), "", 0},
		{"an older one hides none that began later", nil, []v1alpha1.ConditionMatch{ignored(entry("A", 0)), entry("B", 0)}, node(nil, since("A", "True", 3*time.Hour), since("B", "True", time.Second)), "B", 0},
		{"an entry that ignores it leaves it to another one", nil, []v1alpha1.ConditionMatch{ignored(entry("A", 0)), entry("A", 0)}, node(nil, since("A", "True", 3*time.Hour)), "A", 0},
		{"a node that is not selected is not waited for", workers, []v1alpha1.ConditionMatch{entry("A", time.Hour)}, node(nil, since("A", "True", 0)), "", 0},
		{"a selected node", workers, []v1alpha1.ConditionMatch{entry("A", 0)}, node(map[string]string{"pool": "workers"}, since("A", "True", 0)), "A", 0},
		{"a node that is not selected", workers, []v1alpha1.ConditionMatch{entry("A", 0)}, node(nil, since("A", "True", 0)), "", 0},
		{"a selector that cannot be read selects nothing", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}, []v1alpha1.ConditionMatch{entry("A", 0)}, node(nil, since("A", "True", 0)), "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			policy := &v1alpha1.RemedyPolicy{Spec: v1alpha1.RemedyPolicySpec{NodeSelector: tt.selector, Match: tt.match}}
			trigger, wait := Policy(policy, tt.node, now, nil, nil)
			got := ""
			if trigger != nil {
				got = trigger.Type
			}
			if got != tt.trigger || wait != tt.wait {
				t.Errorf("got trigger %q, wait %s; want trigger %q, wait %s", got, wait, tt.trigger, tt.wait)
			}
		})
	}
}

func TestNobodyStartsByHandWhatIsIgnored(t *testing.T) {
	policy := &v1alpha1.RemedyPolicy{Spec: v1alpha1.RemedyPolicySpec{Match: []v1alpha1.ConditionMatch{ignored(entry("A", time.Hour))}}}
	for age, want := range map[time.Duration]bool{time.Second: true, 2 * time.Hour: true, 3 * time.Hour: false} {
		if got := Now(policy, node(nil, since("A", "True", age)), now) != nil; got != want {
			t.Errorf("after %s: %v, want %v", age, got, want)
		}
	}
}

func TestAConditionThatIsCoveredHidesNoneThatBeganLater(t *testing.T) {
	policy := &v1alpha1.RemedyPolicy{Spec: v1alpha1.RemedyPolicySpec{Match: []v1alpha1.ConditionMatch{entry("A", 0), entry("B", time.Minute)}}}
	covered := func(trigger *v1alpha1.Trigger) bool { return trigger.Type == "A" }
	for _, tt := range []struct {
		held, wait time.Duration
		trigger    string
	}{
		{2 * time.Minute, 0, "B"},
		{20 * time.Second, 40 * time.Second, ""},
	} {
		trigger, wait := Policy(policy, node(nil, since("A", "True", time.Hour), since("B", "True", tt.held)), now, nil, covered)
		if got := trigger != nil && trigger.Type == "B"; got != (tt.trigger == "B") || wait != tt.wait {
			t.Errorf("B has held for %s: got %v, wait %s; want %q, wait %s", tt.held, trigger, wait, tt.trigger, tt.wait)
		}
	}
}

func TestTheNameFollowsFromWhatWasBefore(t *testing.T) {
	policy := &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "policy-uid"}}
	trigger := v1alpha1.Trigger{Type: "A", Status: "True", LastTransitionTime: metav1.NewTime(now)}
	first := NewRemediation(policy, node(nil), trigger, "").Name

	trigger.Type = "B"
	if again := NewRemediation(policy, node(nil), trigger, "").Name; again != first {
		t.Errorf("another trigger changed the name: %s, %s", first, again)
	}
	if next := NewRemediation(policy, node(nil), trigger, "uid-of-the-first").Name; next == first {
		t.Error("the next remediation has the same name")
	}
	policy.UID = "other"
	if other := NewRemediation(policy, node(nil), trigger, "").Name; other == first {
		t.Error("the remediation of another policy has the same name")
	}
}

func TestTheLatestIsTheNewestOfTheNodeAndThePolicy(t *testing.T) {
	policy := &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "policy-uid"}}
	of := func(uid types.UID, age time.Duration) v1alpha1.Remediation {
		r := NewRemediation(policy, node(nil), v1alpha1.Trigger{}, "")
		r.UID, r.CreationTimestamp = uid, metav1.NewTime(now.Add(-age))
		return *r
	}
	ofOtherPolicy, ofOtherNode := of("other-policy", 0), of("other-node", 0)
	ofOtherPolicy.Spec.Policy.UID, ofOtherNode.Spec.NodeUID = "other", "other"
	known := []v1alpha1.Remediation{of("old", time.Hour), of("new", time.Minute), of("older", 2*time.Hour), ofOtherPolicy, ofOtherNode}
	if got := Latest(known, node(nil), policy); got != "new" {
		t.Errorf("got %q", got)
	}
	if got := Latest(nil, node(nil), policy); got != "" {
		t.Errorf("got %q of none", got)
	}
	tombstone := of("tombstone", 0)
	tombstone.Annotations = map[string]string{v1alpha1.TombstoneUIDAnnotation: "deleted"}
	if got := Latest(append(known, tombstone), node(nil), policy); got != "deleted" {
		t.Errorf("got %q of a tombstone", got)
	}
	tombstone.Annotations[v1alpha1.TombstoneAnnotation] = "former"
	tombstone.Annotations[v1alpha1.TombstoneStartedAnnotation] = now.Add(-time.Hour).Format(time.RFC3339)
	if got := Latest(append(known, tombstone), node(nil), policy); got != "new" {
		t.Errorf("got %q, which started before the newest did", got)
	}
}

func TestTheNameOfALongNodeNameIsValid(t *testing.T) {
	long := node(nil)
	long.Name = strings.Repeat("a", 199) + "." + strings.Repeat("b", 53)
	policy := &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "policy-uid"}}
	name := NewRemediation(policy, long, v1alpha1.Trigger{Type: "A"}, "").Name
	if errs := validation.IsDNS1123Subdomain(name + "-a1b2c3-100"); len(errs) > 0 {
		t.Errorf("%s: %v", name, errs)
	}
}

func TestWhatLeavesNoRoomForARemediation(t *testing.T) {
	policy := &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "policy-uid"}}
	trigger := v1alpha1.Trigger{Type: "A", Status: "True", LastTransitionTime: metav1.NewTime(now)}
	ended := metav1.NewTime(now)
	tests := []struct {
		name   string
		change func(*v1alpha1.Remediation)
		want   bool
	}{
		{"an open one of another incident", func(r *v1alpha1.Remediation) { r.Spec.Trigger.Type = "B" }, true},
		{"an ended one of the same incident, whatever its name", func(r *v1alpha1.Remediation) { r.Name, r.Status.EndTime = "other", &ended }, true},
		{"an ended one of an earlier incident", func(r *v1alpha1.Remediation) {
			r.Status.EndTime, r.Spec.Trigger.LastTransitionTime = &ended, metav1.NewTime(now.Add(-time.Second))
		}, false},
		{"an ended one of another condition", func(r *v1alpha1.Remediation) { r.Status.EndTime, r.Spec.Trigger.Type = &ended, "B" }, false},
		{"an ended one of another status", func(r *v1alpha1.Remediation) { r.Status.EndTime, r.Spec.Trigger.Status = &ended, "Unknown" }, false},
		{"an open one of another policy", func(r *v1alpha1.Remediation) { r.Spec.Policy.UID = "other" }, false},
		{"an open one of the node that had the name before", func(r *v1alpha1.Remediation) { r.Spec.NodeUID = "other" }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRemediation(policy, node(nil), trigger, "")
			tt.change(r)
			if got := Covers([]v1alpha1.Remediation{*r}, node(nil), policy, &trigger); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestARemediationHoldsASnapshotOfItsPolicy(t *testing.T) {
	policy := &v1alpha1.RemedyPolicy{Spec: v1alpha1.RemedyPolicySpec{
		Match: []v1alpha1.ConditionMatch{entry("A", 0)}, Steps: []v1alpha1.Step{{Attempts: 1}},
	}}
	r := NewRemediation(policy, node(nil), v1alpha1.Trigger{Type: "A"}, "")
	r.Spec.Match[0].Type, r.Spec.Steps[0].Attempts = "B", 9
	if policy.Spec.Match[0].Type != "A" || policy.Spec.Steps[0].Attempts != 1 {
		t.Error("a change of the remediation changed the policy")
	}
	if !slices.Contains(r.Finalizers, v1alpha1.RemediationFinalizer) {
		t.Error("without the finalizer its deletion leaves behind what it started")
	}
}

func TestAConditionWithDebounceHoldsSinceItWasSeen(t *testing.T) {
	debounced := entry("A", 5*time.Minute)
	debounced.Debounce = v1alpha1.Duration{Duration: 2 * time.Minute}
	for name, tt := range map[string]struct {
		match v1alpha1.ConditionMatch
		says  time.Duration // ago, by the condition
		seen  evidence.Seen
		start bool
		wait  time.Duration
	}{
		"seen for its time, although it turned just now":    {debounced, time.Second, evidence.Seen{Held: now.Add(-5 * time.Minute), Status: "True"}, true, 0},
		"seen only now, whatever it says":                   {debounced, time.Hour, evidence.Seen{Held: now.Add(-time.Minute), Status: "True"}, false, 4 * time.Minute},
		"something newer is known":                          {debounced, time.Hour, evidence.Seen{Held: now.Add(-time.Hour), Status: "False"}, false, 0},
		"nothing is known":                                  {debounced, time.Hour, evidence.Seen{Status: "True"}, false, 0},
		"it was seen for longer than ignoreAfter":           {ignored(debounced), time.Second, evidence.Seen{Held: now.Add(-3 * time.Hour), Status: "True"}, false, 0},
		"it says that it is so for longer than that":        {ignored(debounced), 3 * time.Hour, evidence.Seen{Held: now.Add(-10 * time.Minute), Status: "True"}, false, 0},
		"without debounce nobody is asked what he has seen": {entry("A", 5*time.Minute), time.Second, evidence.Seen{Held: now.Add(-time.Hour), Status: "True"}, false, 5*time.Minute - time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &v1alpha1.RemedyPolicy{Spec: v1alpha1.RemedyPolicySpec{Match: []v1alpha1.ConditionMatch{tt.match}}}
			seen := func(*corev1.Node, *v1alpha1.ConditionMatch, time.Time) evidence.Seen { return tt.seen }
			trigger, wait := Policy(policy, node(nil, since("A", "True", tt.says)), now, seen, nil)
			if (trigger != nil) != tt.start || wait != tt.wait {
				t.Fatalf("got %v, wait %s", trigger, wait)
			}
			if trigger != nil && !trigger.SeenSince.Time.Equal(tt.seen.Held) {
				t.Errorf("it does not tell since when: %v", trigger)
			}
		})
	}
}

// The policy goes on to ask the controller's memory, which the watch of nodes feeds.
func TestEveryReportOfANodeIsSeen(t *testing.T) {
	m := entry("A", 0)
	m.Debounce = v1alpha1.Duration{Duration: 2 * time.Minute}
	policy := policyFor("A", 0)
	policy.Spec.Match[0] = m
	r := newReconciler(t, policy)
	r.Seen = &evidence.Tracker{}
	clock := clocktesting.NewFakePassiveClock(now)
	r.Clock = clock
	version := func(v string, c corev1.NodeCondition) *corev1.Node {
		n := node(nil, c)
		n.ResourceVersion = v
		return n
	}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	nodes := []*corev1.Node{
		version("1", since("A", "True", 0)), version("2", since("A", "False", -30*time.Second)), version("3", since("A", "True", -60*time.Second)),
	}
	r.onNode().Create(t.Context(), event.CreateEvent{Object: nodes[0]}, q)
	for i := range nodes[1:] {
		clock.SetTime(now.Add(time.Duration(i+1) * 30 * time.Second))
		r.onNode().Update(t.Context(), event.UpdateEvent{ObjectOld: nodes[i], ObjectNew: nodes[i+1]}, q)
	}
	if seen := r.Seen.Seen(nodes[2], &m, clock.Now()); !seen.Held.Equal(now) || !seen.Since.Equal(clock.Now()) {
		t.Errorf("got %+v", seen)
	}
	r.onNode().Delete(t.Context(), event.DeleteEvent{Object: nodes[2]}, q)
	if seen := r.Seen.Seen(nodes[2], &m, clock.Now()); !seen.Held.Equal(clock.Now()) {
		t.Errorf("a node that is gone is remembered: %+v", seen)
	}
}
