package driven

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/match"
	"github.com/nodemend/nodemend/internal/cut"
)

const (
	// recheck is after how long is looked again at what is no event here: another request that is
	// waited for, or a node that is being given back.
	recheck = 10 * time.Second
	// maxSaid is how many bytes a condition says.
	maxSaid = 1024
)

// look is what is known of a request, as the API server has it. What there is none of is nil. The
// request was read last: a remediation ends since its request is withdrawn, and never the other way
// round.
type look struct {
	asked *v1alpha1.NodemendRemediation
	// remediation of the name that the status has.
	remediation *v1alpha1.Remediation
	// leaving: the remediation has ended, and the node is not back in service yet.
	leaving bool
	// What follows is known of a request alone of which no remediation was seen.

	// nodeName is the node's name, unless it is unclear.
	nodeName string
	unclear  verdict
	node     *corev1.Node
	policy   *v1alpha1.RemedyPolicy
	// buried: the tombstone of its remediation is there.
	buried bool
	// before is another open remediation of the policy on the node; "": there is none.
	before string
	now    time.Time
}

// verdict is a reason, "" for none, and a message.
type verdict struct{ reason, message string }

// verb is what to do next.
type verb string

const (
	wait  verb = "Wait"
	write verb = "Write" // the status
	hold  verb = "Hold"  // the request, by a finalizer
	start verb = "Start" // its remediation
	wake  verb = "Wake"  // its remediation
	tell  verb = "Tell"  // the owner of the Machine to act
	letGo verb = "LetGo" // of the request
)

// decision is what to do next about a request.
type decision struct {
	verb verb
	// status for write.
	status v1alpha1.NodemendRemediationStatus
	// wait is after how long to look again; 0: when something changes.
	wait time.Duration
}

// told is what the conditions say.
type told struct {
	processing, succeeded metav1.ConditionStatus
	verdict
}

// underWay is told of what may still make the node well, over of what will not, and left of what
// people have taken into their hands: then the driver is not to escalate at once.
func underWay(v verdict) told { return told{metav1.ConditionTrue, metav1.ConditionUnknown, v} }
func over(v verdict) told     { return told{metav1.ConditionFalse, metav1.ConditionFalse, v} }
func left(v verdict) told     { return told{metav1.ConditionFalse, metav1.ConditionUnknown, v} }

// follow decides what comes next for a request. It is pure. One step is taken at a time, each of which
// may be repeated; the name of the remediation stands in the status before that is created.
func follow(l look) decision {
	switch {
	case l.asked.DeletionTimestamp != nil:
		return l.withdrawn()
	case l.concluded() && l.exhausted():
		return decision{verb: tell}
	case l.concluded():
		return decision{verb: wait}
	case l.remediation != nil:
		return l.says(l.ofRemediation(), 0)
	case l.begun():
		return l.says(left(verdict{v1alpha1.ReasonDeleted, fmt.Sprintf("Remediation %s is gone", l.asked.Status.Remediation)}), 0)
	}
	request := v1alpha1.NewRequest(l.asked)
	if why := request.Stopped(l.asked); why != "" {
		return l.says(over(verdict{v1alpha1.ReasonStopped, why}), 0)
	}
	if refused := l.refused(); refused.reason != "" {
		return l.says(over(refused), 0)
	}
	switch {
	case l.buried:
		return l.says(left(verdict{v1alpha1.ReasonDeleted, fmt.Sprintf("a person has deleted Remediation %s", l.asked.Status.Remediation)}), 0)
	case l.before != "":
		return l.says(underWay(verdict{v1alpha1.ReasonWaitsForAnother, fmt.Sprintf(
			"Remediation %s of policy %s is open on node %s, for another NodemendRemediation", l.before, l.policy.Name, l.nodeName)}), recheck)
	case !controllerutil.ContainsFinalizer(l.asked, v1alpha1.RequestFinalizer):
		return decision{verb: hold}
	case l.asked.Status.Remediation == "":
		status := *l.asked.Status.DeepCopy()
		status.NodeName, status.Remediation = l.nodeName, match.RequestedName(l.asked, l.nodeName)
		return decision{verb: write, status: status}
	default:
		return decision{verb: start}
	}
}

// withdrawn lets go of a request that is being deleted, once its remediation has ended and the node is
// back in service.
func (l *look) withdrawn() decision {
	switch {
	case !controllerutil.ContainsFinalizer(l.asked, v1alpha1.RequestFinalizer):
		return decision{verb: wait}
	case l.remediation == nil:
		return decision{verb: letGo}
	case !l.remediation.Ended():
		return decision{verb: wake, wait: recheck}
	case l.leaving:
		return decision{verb: wait, wait: recheck}
	}
	if d := l.says(l.ofRemediation(), 0); d.verb == write && !l.concluded() {
		return d
	}
	return decision{verb: letGo}
}

// begun reports whether a remediation was seen.
func (l *look) begun() bool {
	c := l.processing()
	return l.asked.Status.Remediation != "" && c != nil && c.Reason != v1alpha1.ReasonWaitsForAnother
}

// concluded reports whether nothing more is done for the request. That is never taken back: the
// driver may have gone on without us.
func (l *look) concluded() bool {
	c := l.processing()
	return c != nil && c.Status == metav1.ConditionFalse
}

// exhausted reports whether the conditions say that all steps were in vain.
func (l *look) exhausted() bool {
	return l.processing().Reason == v1alpha1.ReasonExhausted
}

func (l *look) processing() *metav1.Condition {
	return meta.FindStatusCondition(l.asked.Status.Conditions, v1alpha1.RequestProcessing)
}

// refused says why no remediation is made.
func (l *look) refused() verdict {
	if l.unclear.reason != "" {
		return l.unclear
	}
	policy := l.asked.Spec.Policy
	again := "; then delete this object, and its driver creates it anew"
	switch {
	case l.node == nil:
		return verdict{v1alpha1.ReasonNodeNotFound, fmt.Sprintf("there is no Node %s in this cluster", l.nodeName)}
	case l.policy == nil:
		return verdict{v1alpha1.ReasonPolicyNotFound, fmt.Sprintf("spec.policy: there is no RemedyPolicy %s: create it, or correct the template%s", policy, again)}
	case len(l.policy.Spec.Match) > 0:
		return verdict{v1alpha1.ReasonPolicyHasMatch, fmt.Sprintf(
			"spec.policy: RemedyPolicy %s has a match, so it starts by itself; name one without match in the template%s", policy, again)}
	case l.asked.Status.Remediation != "" && l.asked.Status.Remediation != match.RequestedName(l.asked, l.nodeName):
		return verdict{v1alpha1.ReasonNodeUnclear, fmt.Sprintf("it began for node %s, and names %s by now%s", l.asked.Status.NodeName, l.nodeName, again)}
	}
	switch selects, err := fleet.Selects(l.policy.Spec.NodeSelector, l.node); {
	case err != nil:
		return verdict{v1alpha1.ReasonNotSelected, fmt.Sprintf("RemedyPolicy %s: spec.nodeSelector cannot be read: %v", policy, err)}
	case !selects:
		return verdict{v1alpha1.ReasonNotSelected, fmt.Sprintf("RemedyPolicy %s does not select node %s: see its spec.nodeSelector", policy, l.nodeName)}
	default:
		return verdict{}
	}
}

// ofRemediation is what a remediation says to the driver.
func (l *look) ofRemediation() told {
	r := l.remediation
	if request := r.Spec.Request; request == nil || !request.Is(l.asked) {
		return left(verdict{v1alpha1.ReasonDuplicate, fmt.Sprintf("Remediation %s is not for this request", r.Name)})
	}
	v := verdict{r.State(), message(r, v1alpha1.RemediationProgressing)}
	if v.reason == "" {
		v = verdict{v1alpha1.ReasonWaiting, "its first decision is about to be made"}
	}
	gone := l.asked.DeletionTimestamp != nil
	switch v.reason {
	case v1alpha1.ReasonExhausted, v1alpha1.ReasonStopped:
		return over(v)
	case v1alpha1.ReasonReleased, v1alpha1.ReasonDeleted, v1alpha1.ReasonDuplicate:
		return left(v)
	case v1alpha1.ReasonReplaced:
		return told{metav1.ConditionFalse, metav1.ConditionTrue, v}
	case v1alpha1.ReasonRecovered, v1alpha1.ReasonRecoveredByItself:
		if gone {
			return told{metav1.ConditionFalse, metav1.ConditionTrue, v}
		}
	}
	if r.Ended() {
		return over(v)
	}
	if by := r.BlockedBy(); by != "" {
		v = verdict{by, message(r, v1alpha1.RemediationBlocked)}
	}
	return underWay(v)
}

// replaces reports whether a step is under way that has the machine replaced. A driver that finds the Node
// gone keeps its request then.
func (l *look) replaces() bool {
	if l.remediation == nil || l.remediation.Status.Action == "" {
		return false
	}
	step := l.remediation.Step(l.remediation.Status.Step)
	return step != nil && step.Replaces()
}

func message(r *v1alpha1.Remediation, kind string) string {
	if c := meta.FindStatusCondition(r.Status.Conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

// says is the decision to have the conditions say it, or to wait if they do.
func (l *look) says(t told, again time.Duration) decision {
	status := *l.asked.Status.DeepCopy()
	if l.nodeName != "" {
		status.NodeName = l.nodeName
	}
	set := func(kind string, is metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: is, Reason: reason, Message: cut.Head(message, maxSaid), ObservedGeneration: l.asked.Generation,
			LastTransitionTime: metav1.NewTime(l.now),
		})
	}
	set(v1alpha1.RequestProcessing, t.processing, t.reason, t.message)
	set(v1alpha1.RequestSucceeded, t.succeeded, t.reason, t.message)
	if t.processing == metav1.ConditionTrue && l.replaces() {
		set(v1alpha1.RequestNodeGoes, metav1.ConditionTrue, "NodeIsReplaced", "the machine of the node is being replaced, and its Node goes with it")
	} else {
		set(v1alpha1.RequestNodeGoes, metav1.ConditionFalse, "NodeStays", "nothing is under way that deletes the Node")
	}
	if equality.Semantic.DeepEqual(status, l.asked.Status) {
		return decision{verb: wait, wait: again}
	}
	return decision{verb: write, status: status, wait: again}
}
