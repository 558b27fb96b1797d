package driven

import (
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/match"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// aRequest is one of NodeHealthCheck workers for node w17 that nobody has seen yet, and which may begin;
// options change it.
func aRequest(options ...func(*look)) look {
	l := look{
		now: now,
		asked: &v1alpha1.NodemendRemediation{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "nhc", Name: "w17", UID: "request-uid",
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "remediation.medik8s.io/v1alpha1", Kind: "NodeHealthCheck", Name: "workers"}},
			},
			Spec: v1alpha1.NodemendRemediationSpec{Policy: "reboots"},
		},
		nodeName: "w17",
		node:     &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w17", UID: "node-uid", Labels: map[string]string{"pool": "a"}}},
		policy:   &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: "reboots", UID: "policy-uid"}},
	}
	for _, option := range options {
		option(&l)
	}
	return l
}

func gone(l *look) { l.asked.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }
func timedOut(l *look) {
	l.asked.Annotations = map[string]string{v1alpha1.TimedOutAnnotation: "2026-03-01T11:59:00Z"}
}
func finalizer(l *look) {
	l.asked.Finalizers = []string{v1alpha1.RequestFinalizer}
}

// announced has the name of its remediation announced.
func announced(l *look) {
	finalizer(l)
	l.asked.Status.NodeName, l.asked.Status.Remediation = "w17", match.RequestedName(l.asked, "w17")
}

// started has its remediation in a state, blocked by a reason unless that is "".
func started(state, blocked string) func(*look) {
	return func(l *look) {
		announced(l)
		l.remediation = match.NewRequested(l.policy, l.node, l.asked)
		if state == "" {
			return
		}
		meta.SetStatusCondition(&l.remediation.Status.Conditions, metav1.Condition{Type: v1alpha1.RemediationProgressing, Status: metav1.ConditionTrue, Reason: state, Message: "so it is"})
		if blocked != "" {
			meta.SetStatusCondition(&l.remediation.Status.Conditions, metav1.Condition{Type: v1alpha1.RemediationBlocked, Status: metav1.ConditionTrue, Reason: blocked, Message: "why"})
		}
		switch state {
		case v1alpha1.ReasonRecovered, v1alpha1.ReasonReleased, v1alpha1.ReasonDeleted, v1alpha1.ReasonNodeGone, v1alpha1.ReasonDuplicate,
			v1alpha1.ReasonReplaced, v1alpha1.ReasonNotReplaced:
			l.remediation.Status.EndTime = ptr.To(metav1.NewTime(now))
		}
	}
}

// seen has the conditions say something already.
func seen(processing, succeeded metav1.ConditionStatus, reason string) func(*look) {
	return func(l *look) {
		d := l.says(told{processing, succeeded, verdict{reason, "so it is"}}, 0)
		l.asked.Status = d.status
	}
}

// replaces has the step at work replace the machine.
func replaces(l *look) {
	l.remediation.Spec.Steps = []v1alpha1.Step{{Replace: &v1alpha1.ReplaceRemedy{}}}
	l.remediation.Status.Step, l.remediation.Status.Action = 1, "replaces"
}

func remediationGone(l *look) { l.remediation = nil }

func TestWhatComesNext(t *testing.T) {
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	for name, tt := range map[string]struct {
		l    look
		verb verb
		// processing, succeeded and reason are what is written.
		processing, succeeded metav1.ConditionStatus
		reason                string
		wait                  time.Duration
		nodeGoes              bool
	}{
		"it is held first":                         {l: aRequest(), verb: hold},
		"then its remediation is announced":        {l: aRequest(finalizer), verb: write},
		"then that is created":                     {l: aRequest(announced), verb: start},
		"and followed":                             {l: aRequest(started("", "")), verb: write, processing: yes, succeeded: unknown, reason: "Waiting"},
		"it acts":                                  {l: aRequest(started("Acting", "")), verb: write, processing: yes, succeeded: unknown, reason: "Acting"},
		"a gate holds it":                          {l: aRequest(started("Waiting", "BudgetExhausted")), verb: write, processing: yes, succeeded: unknown, reason: "BudgetExhausted"},
		"a driver that reads it is told no news":   {l: aRequest(started("Acting", ""), seen(yes, unknown, "Acting")), verb: wait},
		"it is exhausted":                          {l: aRequest(started("Exhausted", "")), verb: write, processing: no, succeeded: no, reason: "Exhausted"},
		"the owner of its Machine is to know that": {l: aRequest(started("Exhausted", ""), seen(no, no, "Exhausted")), verb: tell},
		"its machine is being replaced":            {l: aRequest(started("Acting", ""), replaces), verb: write, processing: yes, succeeded: unknown, reason: "Acting", nodeGoes: true},
		"it was replaced":                          {l: aRequest(started("Replaced", ""), replaces), verb: write, processing: no, succeeded: yes, reason: "Replaced"},
		"it is gone, and there is no new one": {
			l:    aRequest(started("NotReplaced", ""), replaces),
			verb: write, processing: no, succeeded: no, reason: "NotReplaced",
		},
		"it is stopped":                         {l: aRequest(started("Stopped", "")), verb: write, processing: no, succeeded: no, reason: "Stopped"},
		"which its Machine's owner is not told": {l: aRequest(started("Stopped", ""), seen(no, no, "Stopped")), verb: wait},
		"nothing is taken back":                 {l: aRequest(started("Acting", ""), seen(no, no, "Stopped")), verb: wait},
		"a person has given its node back":      {l: aRequest(started("Released", "")), verb: write, processing: no, succeeded: unknown, reason: "Released"},
		"a person has deleted its remediation":  {l: aRequest(started("Deleted", "")), verb: write, processing: no, succeeded: unknown, reason: "Deleted"},
		"its remediation is gone":               {l: aRequest(started("Acting", ""), seen(yes, unknown, "Acting"), remediationGone), verb: write, processing: no, succeeded: unknown, reason: "Deleted"},
		"and no other is made":                  {l: aRequest(announced, seen(no, unknown, "Deleted")), verb: wait},
		"nor for one that was buried before":    {l: aRequest(announced, func(l *look) { l.buried = true }), verb: write, processing: no, succeeded: unknown, reason: "Deleted"},
		"its node is gone":                      {l: aRequest(started("NodeGone", "")), verb: write, processing: no, succeeded: no, reason: "NodeGone"},
		"one that stands has not recovered, whatever its remediation says": {l: aRequest(started("Recovered", "")), verb: write, processing: no, succeeded: no, reason: "Recovered"},

		"it is told to stop before it began": {l: aRequest(timedOut), verb: write, processing: no, succeeded: no, reason: "Stopped"},
		"or before its remediation is there": {l: aRequest(announced, timedOut), verb: write, processing: no, succeeded: no, reason: "Stopped"},
		"one that waits is told to stop": {
			l:    aRequest(func(l *look) { l.before = "w17-other" }, seen(yes, unknown, "WaitsForAnother"), timedOut),
			verb: write, processing: no, succeeded: no, reason: "Stopped",
		},

		"another one of the policy is open": {l: aRequest(func(l *look) { l.before = "w17-other" }), verb: write, processing: yes, succeeded: unknown, reason: "WaitsForAnother", wait: recheck},
		"and over":                          {l: aRequest(seen(yes, unknown, "WaitsForAnother")), verb: hold},
		"there is no such policy":           {l: aRequest(func(l *look) { l.policy = nil }), verb: write, processing: no, succeeded: no, reason: "PolicyNotFound"},
		"the policy starts by itself":       {l: aRequest(func(l *look) { l.policy.Spec.Match = make([]v1alpha1.ConditionMatch, 1) }), verb: write, processing: no, succeeded: no, reason: "PolicyHasMatch"},
		"it names another node by now": {
			l:    aRequest(announced, func(l *look) { l.nodeName, l.node.Name = "w18", "w18" }),
			verb: write, processing: no, succeeded: no, reason: "NodeUnclear",
		},
		"there is no such node":               {l: aRequest(func(l *look) { l.node = nil }), verb: write, processing: no, succeeded: no, reason: "NodeNotFound"},
		"nobody knows the node":               {l: aRequest(func(l *look) { l.unclear = verdict{"NodeUnclear", "why"} }), verb: write, processing: no, succeeded: no, reason: "NodeUnclear"},
		"the policy does not select the node": {l: aRequest(selects("b")), verb: write, processing: no, succeeded: no, reason: "NotSelected"},
		"or nobody can say":                   {l: aRequest(selects("not a value")), verb: write, processing: no, succeeded: no, reason: "NotSelected"},
		"it selects it":                       {l: aRequest(selects("a")), verb: hold},

		"one that goes is let go if nothing was begun":        {l: aRequest(gone, finalizer), verb: letGo},
		"or if nobody holds it":                               {l: aRequest(gone), verb: wait},
		"it waits for its remediation":                        {l: aRequest(started("Acting", ""), gone), verb: wake, wait: recheck},
		"and for the node to be back in service":              {l: aRequest(started("Recovered", ""), gone, func(l *look) { l.leaving = true }), verb: wait, wait: recheck},
		"then it has recovered":                               {l: aRequest(started("Recovered", ""), gone), verb: write, processing: no, succeeded: yes, reason: "Recovered"},
		"and is let go":                                       {l: aRequest(started("Recovered", ""), gone, seen(no, yes, "Recovered")), verb: letGo},
		"what its driver was told before is not taken back":   {l: aRequest(started("Recovered", ""), gone, seen(no, no, "Exhausted")), verb: letGo},
		"a node that is not Ready has not recovered":          {l: aRequest(started("Released", ""), gone), verb: write, processing: no, succeeded: unknown, reason: "Released"},
		"nothing is announced for one that goes":              {l: aRequest(announced, gone), verb: letGo},
		"somebody has made a remediation by hand of its name": {l: aRequest(started("Acting", ""), func(l *look) { l.remediation.Spec.Request = nil }), verb: write, processing: no, succeeded: unknown, reason: "Duplicate"},
	} {
		t.Run(name, func(t *testing.T) {
			d := follow(tt.l)
			if d.verb != tt.verb || d.wait != tt.wait {
				t.Fatalf("it is to %s, and to look again after %s; want %s, %s", d.verb, d.wait, tt.verb, tt.wait)
			}
			if tt.reason == "" {
				return
			}
			goes := no
			if tt.nodeGoes {
				goes = yes
			}
			for kind, want := range map[string]metav1.ConditionStatus{
				v1alpha1.RequestProcessing: tt.processing, v1alpha1.RequestSucceeded: tt.succeeded, v1alpha1.RequestNodeGoes: goes,
			} {
				c := meta.FindStatusCondition(d.status.Conditions, kind)
				if c == nil || c.Status != want || kind != v1alpha1.RequestNodeGoes && c.Reason != tt.reason {
					t.Errorf("%s: %v, want %s, %s", kind, c, want, tt.reason)
				}
			}
		})
	}
}

// selects has the policy select the pool.
func selects(pool string) func(*look) {
	return func(l *look) {
		l.policy.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}
	}
}

// Each request has a remediation of its own: of one that was deleted and created again, of another
// template for the node, too.
func TestTheNamesOfRemediationsDiffer(t *testing.T) {
	names := map[string]bool{}
	for _, uid := range []string{"a", "b", "c"} {
		l := aRequest(func(l *look) { l.asked.UID = types.UID("request-" + uid) })
		names[match.NewRequested(l.policy, l.node, l.asked).Name] = true
	}
	if len(names) != 3 {
		t.Errorf("names: %v", maps.Keys(names))
	}
}

func TestWhichNodeItIsFor(t *testing.T) {
	for name, tt := range map[string]struct{ request, annotated, node, reason string }{
		"named as the node":                  {"w17", "", "w17", ""},
		"and annotated":                      {"w17", "w17", "w17", ""},
		"with an ending of its own":          {"w17-x7k2p", "w17", "w17", ""},
		"an annotation that does not fit":    {"w18", "w17", "", "NodeUnclear"},
		"nor the beginning of the same name": {"w170", "w17", "", "NodeUnclear"},
	} {
		node, unclear := named(tt.request, tt.annotated)
		if node != tt.node || unclear.reason != tt.reason {
			t.Errorf("%s: %q, %v", name, node, unclear)
		}
	}
}

// Of whom the steps are for is taken from what owns the request, and no more than fits.
func TestWhoHasAsked(t *testing.T) {
	l := aRequest()
	for range 9 {
		l.asked.OwnerReferences = append(l.asked.OwnerReferences, metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m17"})
	}
	r := v1alpha1.NewRequest(l.asked)
	if len(r.Owners) != 4 || !strings.HasPrefix(r.By(), "NodeHealthCheck workers and Machine m17") ||
		!r.OwnedBy("cluster.x-k8s.io", "Machine", "m17") || r.OwnedBy("machine.openshift.io", "Machine", "m17") {
		t.Errorf("got %+v, by %s", r, r.By())
	}
}
