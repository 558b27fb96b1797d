package outofservice

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// rulesOfWords are those of a person's word that the machine is off. Nothing reads it off then. That
// the boot is over stays true whatever comes later, so all that says that it is not, or that there is a
// newer one, is asked. Each later rule may rely on those before it.
func rulesOfWords() []rule {
	return []rule{
		{"word stands", wordStands},
		{"nobody holds it", nobodyHoldsIt},
		{"not Ready", notReady},
		{"word is for that boot", wordIsForThatBoot},
		{"silent since", silentSince},
		{"nothing on it writes", nothingWrites},
		{"cordoned", cordoned},
		{"no taint of somebody else", noTaint},
		{"no switch says on", noSwitchSaysOn},
		{"stands now", standsNow},
	}
}

// wordStands: a person has given it, in a maintenance that holds the node. Whose name it may have,
// admission has asked.
func wordStands(f facts) string {
	switch m := f.maintenance; {
	case m.DeletionTimestamp != nil:
		return fmt.Sprintf("maintenance %s has ended", m.Name)
	case !m.Spec.OutOfService || m.Spec.Remediation != nil:
		return fmt.Sprintf("maintenance %s does not say outOfService, or is the step of a policy", m.Name)
	case f.node != nil && !m.Holds(f.node):
		return fmt.Sprintf("maintenance %s is for an earlier node", m.Name)
	case f.word.Kind != v1alpha1.KindPersonsWord || f.word.By == "":
		return fmt.Sprintf("what maintenance %s says is nobody's word", m.Name)
	default:
		return ""
	}
}

// cordoned: the maintenance has taken the node out, and nobody has given it back.
func cordoned(f facts) string {
	if !f.maintenance.WasCordoned() || f.maintenance.Status.NodeUID != f.node.UID || !f.node.Spec.Unschedulable {
		return fmt.Sprintf("node %s is not cordoned for maintenance %s: that is awaited", f.node.Name, f.maintenance.Name)
	}
	return ""
}

// wordIsForThatBoot: nobody has seen another boot of the node than that which is said to be over.
func wordIsForThatBoot(f facts) string {
	bootID := f.node.Status.NodeInfo.BootID
	switch {
	case f.node.UID != f.word.NodeUID:
		return fmt.Sprintf("node %s was registered anew since", f.node.Name)
	case f.node.DeletionTimestamp != nil:
		return fmt.Sprintf("node %s is being deleted", f.node.Name)
	case bootID == "":
		return fmt.Sprintf("node %s has no boot ID (status.nodeInfo.bootID), so no word can be for its boot", f.node.Name)
	case bootID != f.word.BootID:
		return fmt.Sprintf("node %s has booted: its boot ID is %s, and the word is for %s", f.node.Name, bootID, f.word.BootID)
	case len(validation.IsValidLabelValue(taintValue(bootID))) > 0:
		return fmt.Sprintf("the boot ID %q of node %s can't be in the value of a taint", bootID, f.node.Name)
	default:
		return ""
	}
}

// silentSince: the node has not answered since the word was given, which would have shown that it was
// wrong. Both times are what the Node has said: no two clocks are compared.
func silentSince(f facts) string {
	ready := v1alpha1.FindNodeCondition(f.node, string(corev1.NodeReady))
	if f.word.SilentSince.IsZero() {
		return fmt.Sprintf("it does not say since when node %s was silent: it was written by an earlier version, or the CustomResourceDefinitions are of one. Apply those of this version, then: kubectl nodemend fence confirm %[1]s", f.node.Name)
	}
	if !ready.LastTransitionTime.Equal(&f.word.SilentSince) {
		return fmt.Sprintf("node %s has answered since that was said: Ready is Unknown since %s, and it was said of a silence since %s. Look at the machine again, then: kubectl nodemend fence confirm %s",
			f.node.Name, ready.LastTransitionTime.UTC().Format(time.RFC3339), f.word.SilentSince.UTC().Format(time.RFC3339), f.node.Name)
	}
	return ""
}

// nothingWrites: where only the kubelet is dead, the detector writes on; and a kubelet that is reached
// again renews its Lease before it says that it is Ready.
func nothingWrites(f facts) string {
	if f.now.Sub(f.renewed) <= v1alpha1.Silence {
		return fmt.Sprintf("the kubelet of node %s renewed its Lease at %s, so it ran then. Is its machine the one that is off? A word counts once nothing was heard of it for %s",
			f.node.Name, f.renewed.UTC().Format(time.RFC3339), v1alpha1.Silence)
	}
	if last := v1alpha1.LastWritten(f.node); f.now.Sub(last) <= v1alpha1.Silence {
		return fmt.Sprintf("something on node %s wrote its status at %s, so it ran then. Is its machine the one that is off? A word counts once nothing on it has written for %s",
			f.node.Name, last.UTC().Format(time.RFC3339), v1alpha1.Silence)
	}
	return ""
}

// noSwitchSaysOn: where a remote runner can read the power, it has not read it on last, and is not about
// to switch it.
func noSwitchSaysOn(f facts) string {
	if fence := v1alpha1.FenceOf(f.node, f.now); fence.Fenceable && fence.Reason != v1alpha1.FenceAnswersOff {
		return fmt.Sprintf("the switch of node %s has said on when it was asked last, at %s. Have it asked again: kubectl nodemend fence check %s",
			f.node.Name, fence.Checked.UTC().Format(time.RFC3339), f.node.Name)
	}
	for i := range f.maintenances {
		p := f.maintenances[i].Status.Power
		if p == nil {
			continue
		}
		switch p.Phase {
		case v1alpha1.PowerWaiting, v1alpha1.PowerOff, v1alpha1.PowerWasOff, v1alpha1.PowerLeftOff:
		default:
			return fmt.Sprintf("maintenance %s says that the power of the machine is in phase %s, in which it may be on", f.maintenances[i].Name, p.Phase)
		}
	}
	for i := range f.actions {
		if a := &f.actions[i]; a.Finished() == nil && a.Status.Power != nil {
			return fmt.Sprintf("action %s switches the machine, and has not ended", a.Name)
		}
	}
	return ""
}

// standsNow: it was read just now. Whoever takes it back to boot the machine may do so at any time.
func standsNow(f facts) string {
	if f.off < 0 || f.off > fresh {
		return fmt.Sprintf("it was not read within %s: that is awaited", fresh)
	}
	return ""
}

// evidence is the proof in words, which the rules have asked.
func (f facts) evidence() string {
	if f.word != nil {
		text := fmt.Sprintf("%s has said at %s that the machine is off, for boot %s", f.word.By, f.word.Time.UTC().Format(time.RFC3339), f.word.BootID)
		if f.word.Reason != "" {
			text += ": " + f.word.Reason
		}
		return text
	}
	proved, _, _ := f.proof()
	return proved.String()
}

// wordWaits reports whether a person has said in a maintenance that the machine is off.
func wordWaits(m *v1alpha1.NodeMaintenance) bool {
	return m.DeletionTimestamp == nil && m.Spec.OutOfService && m.Spec.MachineOff != nil
}

// RefusesWord returns why the word of a person would free nothing now, which the maintenance has, or is to
// have: what the controller asks, of what was read of the node, when its Lease was renewed, all its actions
// and maintenances, and the pause of the cluster. "": it would.
func RefusesWord(m *v1alpha1.NodeMaintenance, node *corev1.Node, renewed time.Time, actions []v1alpha1.NodeAction, maintenances []v1alpha1.NodeMaintenance,
	pause *v1alpha1.RemediationBudget, now time.Time,
) string {
	_, why := refusal(facts{maintenance: m, word: m.Spec.MachineOff, node: node, renewed: renewed, actions: actions, maintenances: maintenances, pause: pause, now: now})
	return why
}
