package remediation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/gates"
)

// requestRecheck is after how long a request is looked at again at the latest. What becomes of it
// is an event of another loop, which wakes the remediation.
const requestRecheck = time.Minute

// Wake has the next decision about the remediation of this name made at once.
func (r *Reconciler) Wake(name string) { r.doorbell.Ring(name) }

// request reads the object that has asked for the remediation, as the API server has it; nil: there
// is none of its name, or nobody has asked.
func (o observer) request(ctx context.Context, request *v1alpha1.Request) (*v1alpha1.NodemendRemediation, error) {
	if request == nil {
		return nil, nil
	}
	var asked v1alpha1.NodemendRemediation
	err := o.live.Get(ctx, types.NamespacedName{Namespace: request.Namespace, Name: request.Name}, &asked)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading NodemendRemediation %s: %w", request, err)
	default:
		return &asked, nil
	}
}

// requestGrace is the driver's time as this process counts it. A runner refuses until it is over since what
// it has seen itself to a fraction of a second, on its own clock, and here times are whole seconds: what begins
// a little later than it might is not refused.
const requestGrace = v1alpha1.RequestGrace + evidence.MaxSkew

// requested judges by the request whether the node is sick: its driver deletes it when the node is
// well. Until the driver has had time to look at the node since the last action, boot or return,
// after which at the latest is given, it proves nothing.
func (s *situation) requested(request *v1alpha1.Request, after time.Time) evidence.Finding {
	f := evidence.Finding{Type: v1alpha1.RequestTrigger}
	if request.Withdrawn(s.asked) != "" {
		f.State, f.Since = evidence.Clear, s.now
		return f
	}
	f.State, f.Since = evidence.Faulty, s.asked.CreationTimestamp.Time
	if ready := v1alpha1.FindNodeCondition(s.node, string(corev1.NodeReady)); ready != nil && ready.Status == corev1.ConditionTrue {
		if at := ready.LastTransitionTime.Time; at.After(after) && s.believed(at) {
			after = at
		}
	}
	if due := after.Add(requestGrace); due.After(s.now) && !after.IsZero() {
		f.State, f.Due = evidence.Unconfirmed, due
		f.Why = fmt.Sprintf("node %s booted, became Ready or was acted on at %s, and %s has until %s to find it healthy",
			s.node.Name, clockTime(after), request.By(), clockTime(due))
	}
	return f
}

// concluded reports whether the remediation was requested, and all is done for it: its driver goes on
// without us by now.
func (s *situation) concluded(status *v1alpha1.RemediationStatus) bool {
	return s.remediation.Spec.Request != nil && status.Phase() == v1alpha1.PhaseExhausted
}

// requestOver is for one whose request was withdrawn, or whose driver has told to stop: nothing more
// is begun, and what has begun runs out.
func requestOver(d decision, s situation) (decision, bool) {
	request := s.remediation.Spec.Request
	if request == nil {
		return d, false
	}
	why := request.Withdrawn(s.asked)
	withdrawn := why != ""
	if !withdrawn && !s.concluded(&d.status) {
		why = request.Stopped(s.asked)
	}
	if why == "" {
		return d, false
	}
	d, waits := d.runsOut(s, why)
	switch {
	case waits:
		return d, true
	case withdrawn:
		return d.withdrawn(s, why), true
	default:
		return d.stopped(s, why), true
	}
}

// withdrawn ends a remediation whose driver takes the node for well, or does not care for it any
// more.
func (d decision) withdrawn(s situation, why string) decision {
	d.forgetAnnounced(s)
	if s.remediation.Spec.Recovery.Release == v1alpha1.ReleaseManual && d.status.Maintenance != "" && !d.releasedByAPerson(s) {
		d.progressing(s.now, v1alpha1.ReasonHealing, why)
		return d.blocked(s.now, releaseVerdict(d.status.Maintenance)).calmed(s)
	}
	ready := v1alpha1.FindNodeCondition(s.node, string(corev1.NodeReady))
	switch well := ready != nil && ready.Status == corev1.ConditionTrue; {
	case well && d.status.LastActed() != nil:
		return d.ended(s.now, metav1.ConditionTrue, v1alpha1.ReasonRecovered, why)
	case well:
		return d.ended(s.now, metav1.ConditionTrue, v1alpha1.ReasonRecoveredByItself, why+"; no action was executed")
	default:
		return d.ended(s.now, metav1.ConditionUnknown, v1alpha1.ReasonReleased, fmt.Sprintf("%s, and node %s is not Ready", why, s.node.Name))
	}
}

// stopped rests until the request is withdrawn. A node that is out of service stays so.
func (d decision) stopped(s situation, why string) decision {
	d.forgetAnnounced(s)
	if d.releasedByAPerson(s) {
		d.status.Maintenance = ""
	}
	d.set(s.now, v1alpha1.RemediationProgressing, metav1.ConditionFalse, v1alpha1.ReasonStopped, why)
	d.set(s.now, v1alpha1.RemediationRecovered, metav1.ConditionFalse, v1alpha1.ReasonStopped, "")
	d.unblocked(s.now)
	return d.rests().calmed(s)
}

// releaseVerdict holds a node that is well until a person gives it back.
func releaseVerdict(maintenance string) gates.Verdict {
	return gates.Verdict{
		Reason:  ReasonReleaseRequired,
		Message: fmt.Sprintf("the policy leaves it to a person to give the node back: kubectl delete nodemaintenance %s", maintenance),
	}
}

// cause is what people are told it is done for.
func cause(r *v1alpha1.Remediation) string {
	if request := r.Spec.Request; request != nil {
		return request.By()
	}
	return r.Spec.Trigger.Type
}
