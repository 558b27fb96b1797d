package maintenance

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/drain"
)

var start = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// toDrain returns a maintenance that drains node w17 for an hour at the most.
func toDrain(onTimeout v1alpha1.OnTimeout) *v1alpha1.NodeMaintenance {
	return &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "dimm", Generation: 1},
		Spec: v1alpha1.NodeMaintenanceSpec{
			NodeName: "w17", Reason: "swap DIMM A1",
			Drain: &v1alpha1.Drain{Timeout: v1alpha1.Duration{Duration: time.Hour}, OnTimeout: onTimeout},
		},
	}
}

// look is one look at the node of a maintenance, whose status it changes: pass is what
// is found, if there is a pass. It returns what was decided.
func look(m *v1alpha1.NodeMaintenance, node types.UID, at time.Duration, pass drain.Result) *state {
	n := nodeWith(true, nil)
	n.UID = node
	s := begin(m, n, cordonedByUs, start.Add(at))
	if !s.over {
		s.passed(pass)
	}
	m.Status = s.status
	return s
}

// left is what a pass finds while so many pods are left.
func left(n int32) drain.Result {
	return drain.Result{
		Left: n, Next: 5 * time.Second,
		Pods: []v1alpha1.RemainingPod{{Namespace: "shop", Name: "db-0", Reason: v1alpha1.PodDisruptionBudget, Message: "needs 1"}},
	}
}

func empty() drain.Result { return drain.Result{Done: true} }

func drainedOf(m *v1alpha1.NodeMaintenance) metav1.Condition {
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.MaintenanceDrained); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func cordonedOf(m *v1alpha1.NodeMaintenance) metav1.Condition {
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.MaintenanceCordoned); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func TestWhatIsDoneWhenADrainTakesTooLong(t *testing.T) {
	const second = time.Second
	vetoed := left(2)
	vetoed.Vetoes = 1
	type want struct {
		status   metav1.ConditionStatus
		reason   string
		mayEvict bool
		wait     time.Duration
		over     bool // the next look is none
	}
	tests := []struct {
		name      string
		onTimeout v1alpha1.OnTimeout
		at        time.Duration
		pass      drain.Result
		want      want
	}{
		{"in time", v1alpha1.OnTimeoutAbort, time.Minute, left(2), want{"False", v1alpha1.ReasonDraining, true, 5 * second, false}},
		{"in time, vetoed", v1alpha1.OnTimeoutAbort, time.Minute, vetoed, want{"False", v1alpha1.ReasonVetoed, true, 5 * second, false}},
		{"shortly before the end", v1alpha1.OnTimeoutWait, time.Hour - 2*second, left(2), want{"False", v1alpha1.ReasonDraining, true, 2 * second, false}},
		{"shortly before the end, vetoed", v1alpha1.OnTimeoutWait, time.Hour - 2*second, vetoed, want{"False", v1alpha1.ReasonVetoed, true, 2 * second, false}},
		{"right before the end", v1alpha1.OnTimeoutAbort, time.Hour - 1, left(2), want{"False", v1alpha1.ReasonDraining, true, 1, false}},
		{"waits at the end", v1alpha1.OnTimeoutWait, time.Hour, left(2), want{"False", v1alpha1.ReasonDrainTimedOut, true, 5 * second, false}},
		{"waits long after the end", v1alpha1.OnTimeoutWait, 9 * time.Hour, left(2), want{"False", v1alpha1.ReasonDrainTimedOut, true, 5 * second, false}},
		{"waits, vetoed", v1alpha1.OnTimeoutWait, time.Hour, vetoed, want{"False", v1alpha1.ReasonDrainTimedOut, true, 5 * second, false}},
		{"proceeds at the end", v1alpha1.OnTimeoutProceed, time.Hour, left(2), want{"True", v1alpha1.ReasonDrainTimedOut, false, 0, true}},
		{"does not proceed, vetoed", v1alpha1.OnTimeoutProceed, time.Hour, vetoed, want{"False", v1alpha1.ReasonDrainTimedOut, false, 5 * second, false}},
		{"aborts at the end", v1alpha1.OnTimeoutAbort, time.Hour, left(2), want{"False", v1alpha1.ReasonDrainAborted, false, 0, true}},
		{"aborts long after the end", v1alpha1.OnTimeoutAbort, 9 * time.Hour, left(2), want{"False", v1alpha1.ReasonDrainAborted, false, 0, true}},
		{"aborts, vetoed", v1alpha1.OnTimeoutAbort, time.Hour, vetoed, want{"False", v1alpha1.ReasonDrainAborted, false, 0, true}},
		{"done in time", v1alpha1.OnTimeoutAbort, time.Minute, empty(), want{"True", v1alpha1.ReasonDrained, true, 0, true}},
		{"seen done at the end only", v1alpha1.OnTimeoutAbort, time.Hour, empty(), want{"True", v1alpha1.ReasonDrained, false, 0, true}},
		{"done although late", v1alpha1.OnTimeoutWait, 2 * time.Hour, empty(), want{"True", v1alpha1.ReasonDrained, true, 0, true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := toDrain(tt.onTimeout)
			if s := look(m, "u", 0, left(4)); s.wait != 5*time.Second {
				t.Fatalf("looks again after %s", s.wait)
			}
			s := look(m, "u", tt.at, tt.pass)
			c := drainedOf(m)
			got := want{c.Status, c.Reason, s.mayEvict(), s.wait, look(m, "u", tt.at+time.Second, left(9)).over}
			if got != tt.want {
				t.Errorf("got %+v, want %+v: %s", got, tt.want, c.Message)
			}
			if late := strings.Contains(c.Message, "not done within 1h0m0s"); late != (tt.at >= time.Hour && !tt.pass.Done) {
				t.Errorf("message: %s", c.Message)
			}
			if got.over != (s.wait == 0) {
				t.Errorf("looks again after %s, over: %t", s.wait, got.over)
			}
			if cordoned := cordonedOf(m); cordoned.Status != "True" || cordoned.Reason != v1alpha1.ReasonCordoned {
				t.Errorf("cordoned: %+v", cordoned)
			}
		})
	}
}

func TestThePercentIsOfAllPodsThatWereToGo(t *testing.T) {
	m := toDrain(v1alpha1.OnTimeoutWait)
	for i, step := range []struct {
		left, stuck    int32
		total, percent int32
		message        string
	}{
		{4, 0, 4, 0, "0 of 4 pods are gone; left: shop/db-0 (DisruptionBudget): needs 1"},
		{3, 0, 4, 25, "1 of 4 pods are gone; left: shop/db-0 (DisruptionBudget): needs 1"},
		{6, 0, 6, 0, "0 of 6 pods are gone; left: shop/db-0 (DisruptionBudget): needs 1"}, // some came after the cordon
		{2, 1, 6, 66, "3 of 6 pods are gone, 1 were told to end and do not; left: shop/db-0 (DisruptionBudget): needs 1"},
		{0, 1, 6, 100, "5 of 6 pods are gone, 1 were told to end and do not; left: shop/db-0 (DisruptionBudget): needs 1"},
	} {
		pass := left(step.left)
		pass.Stuck, pass.Done = step.stuck, step.left == 0
		look(m, "u", time.Duration(i)*time.Second, pass)
		d := m.Status.Drain
		if d.Total != step.total || d.Left != step.left || d.Percent != step.percent || len(d.Pods) != 1 {
			t.Errorf("%d left, %d stuck: got %+v", step.left, step.stuck, d)
		}
		if got := drainedOf(m).Message; got != step.message {
			t.Errorf("got  %s\nwant %s", got, step.message)
		}
	}
	if !m.Drained() {
		t.Error("pods that do not end are waited for")
	}
}

func TestAnEmptyNodeIsDrainedAtOnce(t *testing.T) {
	m := toDrain(v1alpha1.OnTimeoutAbort)
	look(m, "u", 0, empty())
	if d := m.Status.Drain; !m.Drained() || d.Percent != 100 || d.Total != 0 || !d.StartedAt.Time.Equal(start) {
		t.Errorf("got %+v, %+v", drainedOf(m), d)
	}
}

func TestWhatWasDoneForAnotherSpecOrNodeCountsNoMore(t *testing.T) {
	ends := map[string]struct {
		onTimeout v1alpha1.OnTimeout
		at        time.Duration
		pass      drain.Result
	}{
		"drained":   {v1alpha1.OnTimeoutWait, time.Minute, empty()},
		"draining":  {v1alpha1.OnTimeoutWait, time.Minute, left(3)},
		"aborted":   {v1alpha1.OnTimeoutAbort, time.Hour, left(3)},
		"proceeded": {v1alpha1.OnTimeoutProceed, time.Hour, left(3)},
		"too late":  {v1alpha1.OnTimeoutWait, time.Hour, left(3)},
	}
	changes := map[string]struct {
		change func(*v1alpha1.NodeMaintenance)
		node   types.UID
		anew   bool
	}{
		"nothing":      {func(*v1alpha1.NodeMaintenance) {}, "u", false},
		"another spec": {func(m *v1alpha1.NodeMaintenance) { m.Generation++ }, "u", true},
		"another node": {func(*v1alpha1.NodeMaintenance) {}, "v", true},
		"no node for a while": {func(m *v1alpha1.NodeMaintenance) {
			m.Status = begin(m, nil, noNode, start.Add(2*time.Hour)).status
		}, "u", true},
	}
	for name, end := range ends {
		for what, tt := range changes {
			t.Run(name+", "+what, func(t *testing.T) {
				m := toDrain(end.onTimeout)
				look(m, "u", 0, left(4))
				look(m, "u", end.at, end.pass)
				before := m.DeepCopy()
				tt.change(m)
				const at = 3 * time.Hour
				s := look(m, tt.node, at, left(2))
				if !tt.anew {
					if d := m.Status.Drain; !d.StartedAt.Time.Equal(start) || d.Total != 4 {
						t.Errorf("started anew: %+v", d)
					}
					if over := before.Drained() || drainedOf(before).Reason == v1alpha1.ReasonDrainAborted; over != s.over {
						t.Errorf("over: %t, goes on: %t", over, !s.over)
					}
					return
				}
				d, c := m.Status.Drain, drainedOf(m)
				if s.over || !s.mayEvict() || !d.StartedAt.Time.Equal(start.Add(at)) || d.Total != 2 || m.Status.NodeUID != tt.node {
					t.Errorf("not anew: %+v", m.Status)
				}
				if c.Status != "False" || c.Reason != v1alpha1.ReasonDraining || c.ObservedGeneration != m.Generation {
					t.Errorf("got %+v", c)
				}
			})
		}
	}
}

func TestADrainOfANodeThatWasUncordonedMeanwhileBeginsAnew(t *testing.T) {
	for name, tt := range map[string]struct {
		onTimeout v1alpha1.OnTimeout
		at        time.Duration
		pass      drain.Result
		want      bool
	}{
		"drained":   {v1alpha1.OnTimeoutWait, time.Minute, empty(), true},
		"proceeded": {v1alpha1.OnTimeoutProceed, time.Hour, left(2), true},
		"under way": {v1alpha1.OnTimeoutWait, time.Minute, left(2), false},
		"aborted":   {v1alpha1.OnTimeoutAbort, time.Hour, left(2), false},
	} {
		m := toDrain(tt.onTimeout)
		look(m, "u", 0, left(4))
		look(m, "u", tt.at, tt.pass)
		status, changed := reopened(m, "why", start.Add(2*time.Hour))
		if changed != tt.want {
			t.Errorf("%s: %t", name, changed)
		}
		if !changed {
			continue
		}
		m.Status = status
		if m.Drained() || m.Status.Drain != nil {
			t.Errorf("%s: got %+v", name, m.Status)
		}
		if s := look(m, "u", 2*time.Hour, left(1)); !s.mayEvict() || drainedOf(m).Reason != v1alpha1.ReasonDraining || m.Status.Drain.Total != 1 {
			t.Errorf("%s: got %+v", name, m.Status)
		}
	}
	m := toDrain(v1alpha1.OnTimeoutWait)
	m.Spec.Drain = nil
	look(m, "u", 0, empty())
	if _, changed := reopened(m, "why", start); changed {
		t.Error("one that only cordons drains")
	}
}

func TestANodeIsOnlyCordoned(t *testing.T) {
	m := toDrain(v1alpha1.OnTimeoutWait)
	look(m, "u", 0, left(4))
	m.Spec.Drain, m.Generation = nil, 2
	s := look(m, "u", time.Minute, left(4))
	if c := drainedOf(m); !s.over || s.wait != 0 || m.Status.Drain != nil || !m.Drained() || c.Reason != v1alpha1.ReasonDrainNotWanted {
		t.Errorf("got %+v", m.Status)
	}
}

func TestThereIsNoNode(t *testing.T) {
	m := toDrain(v1alpha1.OnTimeoutWait)
	look(m, "u", 0, left(4))
	s := begin(m, nil, noNode, start)
	if !s.over || s.wait != 0 || s.status.Drain != nil {
		t.Errorf("got %+v", s)
	}
	for _, c := range s.status.Conditions {
		if c.Status != "False" || c.Reason != v1alpha1.ReasonNoSuchNode || c.Message != "there is no node w17" {
			t.Errorf("got %+v", c)
		}
	}
}

func TestACordonBySomebodyElseIsReported(t *testing.T) {
	m := toDrain(v1alpha1.OnTimeoutWait)
	m.Status = begin(m, nodeWith(true, nil), cordonedByOthers, start).status
	if c := cordonedOf(m); c.Status != "True" || c.Reason != v1alpha1.ReasonCordonedByOthers {
		t.Errorf("got %+v", c)
	}
}

// Every write wakes the reconciler: one that says the same would go on for ever.
func TestALookThatFindsTheSameChangesNothing(t *testing.T) {
	for name, pass := range map[string]drain.Result{"left": left(3), "empty": empty()} {
		for _, at := range []time.Duration{time.Minute, 2 * time.Hour} {
			for _, onTimeout := range []v1alpha1.OnTimeout{v1alpha1.OnTimeoutWait, v1alpha1.OnTimeoutProceed, v1alpha1.OnTimeoutAbort} {
				m := toDrain(onTimeout)
				look(m, "u", 0, left(3))
				look(m, "u", at, pass)
				before := m.DeepCopy()
				look(m, "u", at+time.Second, pass)
				if !equality.Semantic.DeepEqual(before.Status, m.Status) {
					t.Errorf("%s, %s: %+v, then %+v", name, onTimeout, before.Status, m.Status)
				}
			}
		}
	}
}
