package deadline

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestAnActionMayRunUntilNobodyCanClaimItOrHasToReport(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	action := func(expired time.Duration, claimed *time.Duration, finished string) *v1alpha1.NodeAction {
		a := &v1alpha1.NodeAction{Spec: v1alpha1.NodeActionSpec{ExpiresAt: ago(expired), Timeout: v1alpha1.Duration{Duration: time.Minute}}}
		if claimed != nil {
			a.Status.Claim = &v1alpha1.Claim{Time: ago(*claimed)}
		}
		if finished != "" {
			a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: finished}}
		}
		return a
	}
	at := func(d time.Duration) *time.Duration { return &d }
	for name, tt := range map[string]struct {
		action *v1alpha1.NodeAction
		want   bool
	}{
		"nobody has claimed it yet":                {action(-time.Second, nil, ""), true},
		"a claim may still be on its way":          {action(4*time.Second, nil, ""), true},
		"nobody can claim it any more":             {action(6*time.Second, nil, ""), false},
		"it runs":                                  {action(0, at(time.Second), ""), true},
		"its runner is silent, and may still work": {action(2*time.Minute, at(2*time.Minute), ""), true},
		"its runner has killed it":                 {action(3*time.Minute, at(3*time.Minute), ""), false},
		"it has finished":                          {action(0, at(time.Second), v1alpha1.ReasonSucceeded), false},
		"nobody knows whether it has finished":     {action(0, at(time.Second), v1alpha1.ReasonInterrupted), true},
		"nobody knows, and it was killed":          {action(3*time.Minute, at(3*time.Minute), v1alpha1.ReasonInterrupted), false},
	} {
		if got := MayRun(tt.action, now); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// What the controller waits for is never earlier than what a runner keeps, whenever the
// action was claimed.
func TestTheControllerWaitsLongerThanTheRunner(t *testing.T) {
	expires := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for _, timeout := range []time.Duration{time.Second, time.Minute, 24 * time.Hour} {
		for claimed := -ClaimTime; claimed <= ClaimGrace; claimed += time.Second {
			a := &v1alpha1.NodeAction{Spec: v1alpha1.NodeActionSpec{ExpiresAt: metav1.NewTime(expires), Timeout: v1alpha1.Duration{Duration: timeout}}}
			unclaimed := Over(a)
			a.Status.Claim = &v1alpha1.Claim{Time: metav1.NewTime(expires.Add(claimed))}
			began := expires.Add(max(claimed, 0)) // at the latest
			if ended := began.Add(timeout + EndGrace); Killed(a).Before(ended) || !Over(a).After(ended.Add(30*time.Second)) || Lost(began, timeout).Before(ended) {
				t.Errorf("claimed %s after its time, it may run until %s: got killed %s, over %s, lost %s", claimed, ended, Killed(a), Over(a), Lost(began, timeout))
			}
			if Claimable(a).Before(a.Status.Claim.Time.Time) || unclaimed.Add(ClaimGrace).Before(Over(a)) {
				t.Errorf("claimed %s after its time: it is given up at %s, over at %s, unclaimed at %s", claimed, Claimable(a), Over(a), unclaimed)
			}
		}
	}
}

// Only that another program's object is gone ends its action.
func TestWhatAnotherProgramDoesIsNeverOverByItself(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	a := &v1alpha1.NodeAction{Spec: v1alpha1.NodeActionSpec{
		Executor: v1alpha1.ExecutorExternal, ExpiresAt: metav1.NewTime(now), Timeout: v1alpha1.Duration{Duration: time.Minute},
	}}
	if !Over(a).Before(now.Add(time.Hour)) {
		t.Errorf("one that nobody has claimed is over at %s", Over(a))
	}
	a.Status.Claim = &v1alpha1.Claim{Time: metav1.NewTime(now)}
	if Over(a) != Never || !MayRun(a, now.Add(24*365*time.Hour)) {
		t.Errorf("it is over at %s", Over(a))
	}
	a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonInterrupted}}
	if over := Over(a); over != now.Add(time.Minute+EndGrace+ReportGrace) {
		t.Errorf("one of which nobody knows the end is over at %s", over)
	}
}

// Nor is one that has a machine replaced, unless the runner of a node says so of its own.
func TestAReplacementIsNeverOverByItself(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	a := &v1alpha1.NodeAction{Spec: v1alpha1.NodeActionSpec{
		Executor: v1alpha1.ExecutorRemote, ExpiresAt: metav1.NewTime(now), Timeout: v1alpha1.Duration{Duration: time.Hour},
	}}
	a.Status.Claim = &v1alpha1.Claim{Time: metav1.NewTime(now)}
	if Over(a).Equal(Never) {
		t.Error("a power cycle is never over")
	}
	a.Status.Replace = &v1alpha1.ReplaceStatus{}
	if Over(a) != Never {
		t.Errorf("it is over at %s", Over(a))
	}
	a.Spec.Executor = ""
	if Over(a).Equal(Never) {
		t.Error("the runner of a node can keep its permit for ever")
	}
}
