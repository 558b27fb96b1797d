package maintenance

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/drain"
)

// state is how far one maintenance is, and what comes next. It is pure.
type state struct {
	spec       *v1alpha1.NodeMaintenanceSpec
	generation int64
	now        time.Time
	// status as it is to be written.
	status v1alpha1.NodeMaintenanceStatus
	// begins: the drain begins with this look.
	begins bool
	// over: nothing more is to be done.
	over bool
	// wait is after how long to look again; 0: when something changes.
	wait time.Duration
}

// begin says what is so before the node's pods are looked at. What was done for
// another node of the same name, or for another spec, counts no more.
func begin(m *v1alpha1.NodeMaintenance, node *corev1.Node, cordon cordonState, now time.Time) *state {
	s := &state{spec: &m.Spec, generation: m.Generation, now: now, status: *m.Status.DeepCopy()}
	if node == nil {
		s.not(v1alpha1.ReasonNoSuchNode, "there is no node "+m.Spec.NodeName)
		return s
	}
	drained := m.Condition(v1alpha1.MaintenanceDrained)
	if s.status.NodeUID != node.UID {
		s.status.NodeUID, s.status.Evidence, drained = node.UID, nil, nil
	}
	s.status.Evidence = gathered(s.status.Evidence, node)
	if drained == nil {
		s.status.Drain = nil
	}
	if cordon == cordonedByOthers {
		s.set(v1alpha1.MaintenanceCordoned, metav1.ConditionTrue, v1alpha1.ReasonCordonedByOthers,
			"somebody had cordoned the node before, and it will stay cordoned")
	} else {
		s.set(v1alpha1.MaintenanceCordoned, metav1.ConditionTrue, v1alpha1.ReasonCordoned, "it will be uncordoned when nothing holds the node any more")
	}
	switch {
	case m.Spec.Drain == nil:
		s.status.Drain, s.over = nil, true
		s.drained(metav1.ConditionTrue, v1alpha1.ReasonDrainNotWanted, "the node is only cordoned")
	case drained != nil && (drained.Status == metav1.ConditionTrue || drained.Reason == v1alpha1.ReasonDrainAborted):
		s.over = true
	case s.status.Drain == nil:
		s.status.Drain, s.begins = &v1alpha1.DrainStatus{StartedAt: metav1.NewTime(now)}, true
	}
	return s
}

// notYet returns the status of a maintenance for which the node is not cordoned as long as the program of an
// action has not let go of it.
func notYet(m *v1alpha1.NodeMaintenance, action string, now time.Time) v1alpha1.NodeMaintenanceStatus {
	s := &state{generation: m.Generation, now: now, status: *m.Status.DeepCopy()}
	s.not(v1alpha1.ReasonLeftToAnother, fmt.Sprintf("another program was told to stop, and the node is cordoned when it has let go of it; "+
		"to see what its object waits for: kubectl describe nodeaction %s", action))
	return s.status
}

// not says that the node is neither cordoned nor drained.
func (s *state) not(reason, message string) {
	s.status.Drain, s.over = nil, true
	s.set(v1alpha1.MaintenanceCordoned, metav1.ConditionFalse, reason, message)
	s.set(v1alpha1.MaintenanceDrained, metav1.ConditionFalse, reason, message)
}

// reopened returns the status of a maintenance whose drain was over and begins anew, since pods
// have come, or may have. A drain that was aborted stays so.
func reopened(m *v1alpha1.NodeMaintenance, why string, now time.Time) (status v1alpha1.NodeMaintenanceStatus, changed bool) {
	if m.Spec.Drain == nil || !m.Drained() {
		return m.Status, false
	}
	s := &state{spec: &m.Spec, generation: m.Generation, now: now, status: *m.Status.DeepCopy()}
	s.status.Drain = nil
	s.drained(metav1.ConditionFalse, v1alpha1.ReasonDraining, "begins anew: "+why)
	return s.status, true
}

// left is how long the drain may still take.
func (s *state) left() time.Duration {
	return s.status.Drain.StartedAt.Add(s.spec.Drain.Timeout.Duration).Sub(s.now)
}

// mayEvict reports whether pods may still be evicted: not once the time is over,
// unless the drain is to go on.
func (s *state) mayEvict() bool {
	return s.left() > 0 || s.spec.Drain.OnTimeout == v1alpha1.OnTimeoutWait
}

// waits says of a drain that would begin that it does not yet: the pods of too many other nodes are
// looked at. Its time begins when it does. One that is under way only goes on later.
func (s *state) waits() {
	if s.begins {
		s.status.Drain = nil
		s.drained(metav1.ConditionFalse, v1alpha1.ReasonDrainWaits, fmt.Sprintf("it has not begun: the pods of %d other nodes are being looked at", drains))
	}
}

// failed remembers that the pods could not be looked at.
func (s *state) failed(err error) {
	s.drained(metav1.ConditionFalse, v1alpha1.ReasonDraining, err.Error())
}

// passed takes in what a pass has found.
func (s *state) passed(r drain.Result) {
	d := s.status.Drain
	d.Pods, d.Left = r.Pods, r.Left
	d.Total = max(d.Total, r.Left+r.Stuck)
	d.Percent = 100
	if d.Total > 0 {
		d.Percent = 100 * (d.Total - r.Left) / d.Total
	}
	left := s.left()
	switch text := describe(d, r); {
	case r.Done:
		s.drained(metav1.ConditionTrue, v1alpha1.ReasonDrained, text)
	case left > 0 && r.Vetoes > 0:
		s.drained(metav1.ConditionFalse, v1alpha1.ReasonVetoed, text)
		s.wait = min(r.Next, left)
	case left > 0:
		s.drained(metav1.ConditionFalse, v1alpha1.ReasonDraining, text)
		s.wait = min(r.Next, left)
	case s.spec.Drain.OnTimeout == v1alpha1.OnTimeoutProceed && r.Vetoes == 0: // what must not be disturbed is not, whatever the time
		s.drained(metav1.ConditionTrue, v1alpha1.ReasonDrainTimedOut, s.tooLong("taken as drained", text))
	case s.spec.Drain.OnTimeout == v1alpha1.OnTimeoutAbort:
		s.drained(metav1.ConditionFalse, v1alpha1.ReasonDrainAborted, s.tooLong("nothing more is evicted", text))
	default:
		s.drained(metav1.ConditionFalse, v1alpha1.ReasonDrainTimedOut, s.tooLong("it goes on", text))
		s.wait = r.Next
	}
}

func (s *state) tooLong(consequence, text string) string {
	return fmt.Sprintf("not done within %s, %s: %s", s.spec.Drain.Timeout.Duration, consequence, text)
}

// describe says how far the drain is, and what is in its way.
func describe(d *v1alpha1.DrainStatus, r drain.Result) string {
	text := fmt.Sprintf("%d of %d pods are gone", d.Total-r.Left-r.Stuck, d.Total)
	if r.Stuck > 0 {
		text += fmt.Sprintf(", %d were told to end and do not", r.Stuck)
	}
	if len(d.Pods) > 0 {
		first := &d.Pods[0]
		text += fmt.Sprintf("; left: %s/%s (%s)", first.Namespace, first.Name, first.Reason)
		if first.Message != "" {
			text += ": " + first.Message
		}
	}
	return text
}

func (s *state) drained(status metav1.ConditionStatus, reason, message string) {
	s.set(v1alpha1.MaintenanceDrained, status, reason, message)
}

func (s *state) set(conditionType string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&s.status.Conditions, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: message,
		ObservedGeneration: s.generation, LastTransitionTime: metav1.NewTime(s.now),
	})
}
