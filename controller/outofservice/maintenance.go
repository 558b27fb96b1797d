package outofservice

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// rulesOfMaintenances are asked in their order. Each later one may rely on those before it. Who else
// holds the node, and whether it is cordoned, the remote runner has asked before each reading.
func rulesOfMaintenances() []rule {
	return append([]rule{
		{"maintenance wants it", wantsIt},
		{"policy wants it", policyWantsIt},
	}, rules()...)
}

// wantsIt: the maintenance holds the node, and the remote runner has read off by it.
func wantsIt(f facts) string {
	m := f.maintenance
	switch p := m.Status.Power; {
	case m.DeletionTimestamp != nil:
		return fmt.Sprintf("maintenance %s has ended", m.Name)
	case m.Spec.Power != v1alpha1.PowerRequestOff || !m.Spec.OutOfService:
		return fmt.Sprintf("maintenance %s does not say outOfService", m.Name)
	case f.node != nil && !m.Holds(f.node):
		return fmt.Sprintf("maintenance %s is for an earlier node", m.Name)
	case m.Spec.Drain == nil || !m.Drained():
		return fmt.Sprintf("the drain of maintenance %s has not ended", m.Name)
	case p == nil || p.Phase != v1alpha1.PowerOff:
		return fmt.Sprintf("the machine of maintenance %s is not known to be off", m.Name)
	default:
		return ""
	}
}

// policyWantsIt: of a maintenance that is a step, both the policy as it is now and the remediation
// have that.
func policyWantsIt(f facts) string {
	of, r := f.maintenance.Spec.Remediation, f.remediation
	if of == nil {
		return ""
	}
	if r == nil || r.UID != of.UID || r.DeletionTimestamp != nil || r.Ended() || r.Status.Maintenance != f.maintenance.Name {
		return fmt.Sprintf("remediation %s is gone, has ended, or does not name maintenance %s", of.Name, f.maintenance.Name)
	}
	if f.policy == nil || f.policy.UID != r.Spec.Policy.UID || f.policy.DeletionTimestamp != nil {
		return fmt.Sprintf("policy %s is gone", r.Spec.Policy.Name)
	}
	own := r.Step(r.Status.Step)
	if own == nil || !own.OutOfService() {
		return fmt.Sprintf("step %d of remediation %s does not say outOfService", r.Status.Step, r.Name)
	}
	switch hash, err := own.Hash(); {
	case err != nil || f.policy.StepWithHash(hash) == nil:
		return fmt.Sprintf("policy %s does not have the step any more", f.policy.Name)
	case own.RequireApproval && !r.Approved(r.Status.Step):
		return fmt.Sprintf("step %d of remediation %s is not approved any more", r.Status.Step, r.Name)
	default:
		return ""
	}
}

// maintenanceWaits reports whether the remote runner has said of a maintenance that its machine is
// proved to be off, and pods and volumes are to be freed.
func maintenanceWaits(m *v1alpha1.NodeMaintenance) bool {
	p := m.Status.Power
	return m.DeletionTimestamp == nil && m.Spec.OutOfService && p != nil && p.Phase == v1alpha1.PowerOff && p.Proof != nil && p.Held > 0
}

// lasting returns the name of the maintenance for which the pods and volumes of the node were freed,
// as long as it has not ended; "": none.
func lasting(node *corev1.Node, m *v1alpha1.NodeMaintenance) string {
	if m != nil && m.KeepsOutOfService(node) {
		return m.Name
	}
	return ""
}
