package outofservice

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
)

// fresh is how long ago the machine may have been read off when the taint is set. Whoever switches
// it on after that has not booted it so far that pods run.
const fresh = 15 * time.Second

// readings is what a process has seen of how often the machine of an action was read off: each
// number, and when it has asked last and been told so, the newest in the end.
type readings []reading

type reading struct {
	held int32
	at   time.Time
}

// off returns when the reading of this number has begun at the earliest, as far as is known; false:
// it may have begun before all that was seen. A reading begins after the number before it was
// kept: so after all that was asked when there was a number below that.
func (r readings) off(held int32) (time.Time, bool) {
	for i := len(r) - 1; i >= 0; i-- {
		if r[i].held <= held-2 {
			return r[i].at, true
		}
	}
	return time.Time{}, false
}

// facts are what the taint of a node depends on, read from the API server itself, the action or
// maintenance first. What there is none of is nil.
type facts struct {
	action *v1alpha1.NodeAction
	// maintenance is set if it is one by which the machine is off, and not an action.
	maintenance *v1alpha1.NodeMaintenance
	// word is set if the proof is a person's word, which the maintenance has.
	word        *v1alpha1.PersonsWord
	remediation *v1alpha1.Remediation
	policy      *v1alpha1.RemedyPolicy
	pause       *v1alpha1.RemediationBudget
	node        *corev1.Node
	// actions and maintenances are all of the node, if the proof is a person's word, and now is the
	// present time.
	actions      []v1alpha1.NodeAction
	maintenances []v1alpha1.NodeMaintenance
	now, asked   time.Time
	// renewed is when the kubelet has renewed its Lease, if the proof is a person's word; zero: nobody knows.
	renewed time.Time
	// off is how long ago the last reading of off may have begun, or that of a person's word, which was
	// asked for then, by a clock that nobody sets; negative: nobody knows.
	off time.Duration
}

// by is what the machine is off by, for people.
func (f facts) by() string {
	if f.maintenance != nil {
		return "maintenance " + f.maintenance.Name
	}
	return "action " + f.action.Name
}

// proof is what by has kept, kept as it is in the API. The rules before have asked whether there is
// a status.
func (f facts) proof() (proved proof.Proof, kept *v1alpha1.PowerProof, err error) {
	if f.maintenance != nil {
		proved, err = proof.OfMaintenance(f.maintenance)
		return proved, f.maintenance.Status.Power.Proof, err
	}
	proved, err = proof.OfAction(f.action)
	return proved, f.action.Status.Power.Proof, err
}

// of is which boot of which node was to end.
func (f facts) of() (node string, uid types.UID, bootID string) {
	if m := f.maintenance; m != nil {
		return m.Spec.NodeName, m.Status.NodeUID, m.Status.Power.BootID
	}
	return f.action.Spec.NodeName, f.action.Spec.NodeUID, f.action.Status.Claim.BootID
}

// rule is one that has to hold before the taint is set. It says what does not; "": it holds.
type rule struct {
	name  string
	holds func(facts) string
}

// rulesOfActions are asked in their order. Each later one may rely on those before it.
func rulesOfActions() []rule {
	return append([]rule{
		{"action under way", underWay},
		{"announced", announced},
		{"step wants it", stepWantsIt},
	}, rules()...)
}

// rules are those of actions and of maintenances.
func rules() []rule {
	return []rule{
		{"nobody holds it", nobodyHoldsIt},
		{"proof", proved},
		{"that boot of that node", thatBoot},
		{"not Ready", notReady},
		{"no taint of somebody else", noTaint},
		{"off now", offNow},
	}
}

// refusal returns the name of the first rule that does not hold, and what is not so; "": the taint
// may be set. It is pure.
func refusal(f facts) (name, why string) {
	all := rulesOfActions()
	switch {
	case f.word != nil:
		all = rulesOfWords()
	case f.maintenance != nil:
		all = rulesOfMaintenances()
	}
	for _, r := range all {
		if why := r.holds(f); why != "" {
			return r.name, why
		}
	}
	return "", ""
}

// underWay: the remote runner keeps the machine off until it is told that the pods have moved. In no
// other phase it does.
func underWay(f facts) string {
	a := f.action
	switch {
	case a == nil:
		return "the action is gone"
	case a.DeletionTimestamp != nil:
		return fmt.Sprintf("action %s is being deleted", a.Name)
	case a.Finished() != nil:
		return fmt.Sprintf("action %s has ended", a.Name)
	case a.Spec.Executor != v1alpha1.ExecutorRemote || a.Status.Claim == nil || a.Status.Power == nil:
		return fmt.Sprintf("action %s is not that of a machine which is switched off", a.Name)
	case a.Status.Power.Phase != string(proof.ProvedOff):
		return fmt.Sprintf("action %s is in phase %s, in which the machine may be on", a.Name, a.Status.Power.Phase)
	default:
		return ""
	}
}

// announced: the action is that which its remediation waits for.
func announced(f facts) string {
	spec := &f.action.Spec
	switch r := f.remediation; {
	case r == nil || r.UID != spec.RemediationUID:
		return fmt.Sprintf("remediation %s is gone", spec.Remediation)
	case r.DeletionTimestamp != nil || r.Ended():
		return fmt.Sprintf("remediation %s has ended, or is being deleted", r.Name)
	case r.Status.Action != f.action.Name:
		return fmt.Sprintf("remediation %s does not wait for action %s", r.Name, f.action.Name)
	case r.Spec.NodeName != spec.NodeName || r.Spec.NodeUID != spec.NodeUID:
		return fmt.Sprintf("remediation %s is of another node", r.Name)
	default:
		return ""
	}
}

// stepWantsIt: both the policy as it is now and the remediation have the step.
func stepWantsIt(f facts) string {
	spec := &f.action.Spec
	if f.policy == nil || f.policy.UID != spec.Policy.UID || f.policy.DeletionTimestamp != nil {
		return fmt.Sprintf("policy %s is gone", spec.Policy.Name)
	}
	step := f.policy.StepWithHash(spec.StepHash)
	if step == nil {
		return fmt.Sprintf("policy %s does not have the step any more", f.policy.Name)
	}
	own := f.remediation.Step(spec.Step)
	if own == nil {
		return fmt.Sprintf("remediation %s has no step %d", f.remediation.Name, spec.Step)
	}
	switch hash, err := own.Hash(); {
	case err != nil || hash != spec.StepHash:
		return fmt.Sprintf("step %d of remediation %s is another one than that of the action", spec.Step, f.remediation.Name)
	case step.Reboot == nil || step.Reboot.Method != v1alpha1.RebootPowerCycle || !step.Reboot.OutOfService:
		return "the step does not say outOfService"
	case own.RequireApproval && !f.remediation.Approved(spec.Step):
		return fmt.Sprintf("step %d of remediation %s is not approved any more", spec.Step, f.remediation.Name)
	default:
		return ""
	}
}

// nobodyHoldsIt: what the remote runner has asked before each reading, asked once more where that
// costs nothing.
func nobodyHoldsIt(f facts) string {
	switch {
	case f.policy != nil && (f.policy.Spec.Paused || f.policy.Spec.Mode != "" && f.policy.Spec.Mode != v1alpha1.ModeEnforce):
		return fmt.Sprintf("policy %s is paused, or in mode %s", f.policy.Name, f.policy.Spec.Mode)
	case f.node == nil:
		return "the node is gone"
	case v1alpha1.Excluded(f.node):
		return "the node is excluded"
	case f.pause != nil && f.pause.Pauses(f.node):
		return "the cluster is paused"
	default:
		return ""
	}
}

// proved: what is kept is a proof for the boot that was to end.
func proved(f facts) string {
	node, _, bootID := f.of()
	p, _, err := f.proof()
	switch {
	case err != nil:
		return fmt.Sprintf("nothing proves that the machine is off: %v", err)
	case !p.Proves(node, bootID):
		return fmt.Sprintf("the proof of %s is not for boot %s, which it was to end", f.by(), bootID)
	default:
		return ""
	}
}

// thatBoot: nobody has seen another boot of the node than that which is over, and the machine whose
// power was read is the node's.
func thatBoot(f facts) string {
	info := &f.node.Status.NodeInfo
	_, uid, _ := f.of()
	_, p, _ := f.proof()
	is, err := power.ParseUUID(info.SystemUUID)
	switch {
	case f.node.UID != uid:
		return fmt.Sprintf("node %s was registered anew", f.node.Name)
	case f.node.DeletionTimestamp != nil:
		return fmt.Sprintf("node %s is being deleted", f.node.Name)
	case info.BootID != p.BootID:
		return fmt.Sprintf("node %s has booted: its boot ID is %s, and the proof is for %s", f.node.Name, info.BootID, p.BootID)
	case err != nil || is.String() != p.Machine:
		return fmt.Sprintf("the machine of node %s is %s, and the proof is for %s", f.node.Name, info.SystemUUID, p.Machine)
	case len(validation.IsValidLabelValue(taintValue(p.BootID))) > 0:
		return fmt.Sprintf("the boot ID %q of node %s can't be in the value of a taint", p.BootID, f.node.Name)
	default:
		return ""
	}
}

// notReady: a node that answers is not off, whatever its switch says.
func notReady(f facts) string {
	ready := v1alpha1.FindNodeCondition(f.node, string(corev1.NodeReady))
	if ready == nil || ready.Status != corev1.ConditionUnknown {
		return fmt.Sprintf("Ready of node %s is not Unknown: so nobody says that it does not answer", f.node.Name)
	}
	return ""
}

func noTaint(f facts) string {
	if _, marked := f.node.Annotations[v1alpha1.OutOfServiceAnnotation]; marked || v1alpha1.IsOutOfService(f.node) {
		return fmt.Sprintf("node %s has such a taint, or our mark of one, already", f.node.Name)
	}
	return ""
}

// offNow: the machine was read off just now.
func offNow(f facts) string {
	if f.off < 0 || f.off > fresh {
		return fmt.Sprintf("it was not read off within %s: that is awaited", fresh)
	}
	return ""
}

func taintValue(bootID string) string { return v1alpha1.OutOfServiceMark{BootID: bootID}.Taint().Value }

// next is what is done about a node with our mark.
type next string

const (
	// leave: the mark or the taint is as nobody of us has left it, and a person has to look.
	leave next = "Leave"
	// unmark: somebody has taken the taint away, so the mark is over.
	unmark next = "Unmark"
	// remove: the taint and its mark.
	remove next = "Remove"
	// tell that nothing is left which the taint could free.
	tell next = "Tell"
	// wait for what is left, or for the node.
	wait next = "Wait"
)

// after says what is done about a node with our mark, and why. left is what the taint has not freed
// yet. lasts is the name of the maintenance for which the machine is off, as long as it has not
// ended. It is pure.
func after(node *corev1.Node, left []Left, lasts string) (do next, why string) {
	mark, readable := v1alpha1.OutOfServiceMarkOf(node)
	own, others := mark.OutOfService(node)
	bootID := node.Status.NodeInfo.BootID
	ready := v1alpha1.FindNodeCondition(node, string(corev1.NodeReady))
	isReady := ready != nil && ready.Status == corev1.ConditionTrue
	switch {
	case !readable:
		return leave, fmt.Sprintf("its annotation %s can't be read: somebody has written %q", v1alpha1.OutOfServiceAnnotation, node.Annotations[v1alpha1.OutOfServiceAnnotation])
	case own < 0:
		if others {
			return unmark, "its taint out-of-service is another one than ours: somebody else's, who takes it away"
		}
		return unmark, "somebody has taken the taint out-of-service away"
	case bootID == mark.BootID && isReady:
		return leave, fmt.Sprintf("it answers with boot %s, which was proved to be over: its switch does not tell the truth, or switches another machine, or whose word it was is mistaken. Its volumes may be in use twice. Switch it off by hand", mark.BootID)
	case bootID == "" || bootID == mark.BootID:
		if len(left) == 0 && !mark.Moved {
			return tell, "its pods and volumes are freed"
		}
		return wait, "it has not booted since it was switched off"
	case !isReady:
		return wait, "it has booted, and is not Ready"
	case lasts != "":
		return wait, "it has booted, and takes no pods until maintenance " + lasts + " has ended"
	case len(left) > 0:
		return wait, "it has booted, and not all is freed"
	default:
		return remove, fmt.Sprintf("it is Ready with boot %s, and nothing of boot %s is left", bootID, mark.BootID)
	}
}
