package remediation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/internal/cut"
)

// maxSaid is how many bytes a maintenance says of why it is there, and for whom.
const maxSaid = 256

// parkedRecheck is for evidence that wakes nobody: the kubelet's Lease.
const parkedRecheck = 30 * time.Second

// maintenanceName is the name of the maintenance that the remediation announces now. Its
// version is part of it, so that no two announcements have the same one: what is there under
// this name is what this announcement has created, and what an earlier one creates late is a
// stray. The UID is part of it, too: a remediation that was deleted may have left one behind.
func maintenanceName(r *v1alpha1.Remediation) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s", r.UID, r.ResourceVersion))
	return r.Name + "-" + hex.EncodeToString(sum[:4])
}

// ownMaintenance reports whether the maintenance is a step of the remediation.
func ownMaintenance(r *v1alpha1.Remediation, m *v1alpha1.NodeMaintenance) bool {
	return m.Spec.Remediation != nil && m.Spec.Remediation.UID == r.UID
}

// wanted is the maintenance that the step needs.
func (s *situation) wanted(step *v1alpha1.Step) v1alpha1.NodeMaintenanceSpec {
	r := s.remediation
	return v1alpha1.NodeMaintenanceSpec{
		NodeName: r.Spec.NodeName, NodeUID: r.Spec.NodeUID,
		Reason:      cut.Head(step.Why()+", for "+cause(r), maxSaid),
		RequestedBy: cut.Head("policy "+r.Spec.Policy.Name, maxSaid),
		Remediation: &v1alpha1.RemediationReference{Name: r.Name, UID: r.UID},
		Drain:       step.Drain(),
		Power:       step.Power(), OutOfService: step.OutOfService(), Identify: step.Identify(),
	}
}

// drain is how far the drain of the maintenance is.
func (s *situation) drain() metav1.Condition {
	if s.maintenance != nil {
		if c := s.maintenance.Condition(v1alpha1.MaintenanceDrained); c != nil {
			return *c
		}
	}
	return metav1.Condition{Message: "begins"}
}

// drainStuck reports whether the drain may take for ever.
func (s *situation) drainStuck() bool {
	reason := s.drain().Reason
	return reason == v1alpha1.ReasonDrainTimedOut || reason == v1alpha1.ReasonVetoed
}

// sick reports whether the node is not known to be clear.
func (s *situation) sick(status *v1alpha1.RemediationStatus) bool {
	_, isClear := evidence.AllClear(s.proof(status).all())
	return !isClear
}

// forgetAnnounced takes back the announcement of a maintenance that nobody has created
// yet, or that may not cordon its node: it is announced again, under the permits for that,
// if it is still wanted. One that is there, or comes late, is a stray.
func (d *decision) forgetAnnounced(s situation) {
	if s.maintenance == nil && d.status.Phase() == v1alpha1.PhaseMaintenanceAnnounced || s.cameBack() {
		d.status.Maintenance = ""
	}
}

// cameBack reports whether the node is available, is about to be cordoned, and the permits
// are none for that: they were taken while the node was not, or returned.
func (s *situation) cameBack() bool {
	m := s.maintenance
	return m != nil && m.DeletionTimestamp == nil && !m.WasCordoned() && fleet.Available(s.node) &&
		!budget.MayTakeOut(s.budgets, s.node.Name, s.remediation.Name)
}

// notYetOut reports whether an attempt is under way for which the node was taken out, and is not out: pods have come, or
// nobody knows yet.
func (s *situation) notYetOut() bool {
	m := s.maintenance
	step := s.remediation.Step(s.remediation.Status.Step)
	return m != nil && m.DeletionTimestamp == nil && !m.Drained() && s.remediation.Status.Action != "" && step != nil && step.Disruptive()
}

// backInService reports whether the node is not, or no longer, out of service as the
// step needs it.
func (d *decision) backInService(s situation) bool {
	if !s.step(d.status.Step).Disruptive() {
		return false
	}
	m := s.maintenance
	return m == nil || m.DeletionTimestamp != nil || !m.Drained()
}

// releasedByAPerson reports whether a person has deleted the maintenance that the
// status names.
func (d *decision) releasedByAPerson(s situation) bool {
	return d.status.Maintenance != "" && (s.maintenance == nil || s.maintenance.DeletionTimestamp != nil)
}

// givenBack reports whether the maintenance that the status names was there, and is gone or
// being deleted.
func (s *situation) givenBack() bool {
	status := &s.remediation.Status
	if s.maintenance == nil {
		return status.Maintenance != "" && status.Phase() != v1alpha1.PhaseMaintenanceAnnounced
	}
	return s.maintenance.DeletionTimestamp != nil
}

// draining reports whether the node is being taken out for the step, and is not out yet.
func (d *decision) draining(s situation) bool {
	step := s.step(d.status.Step)
	return step.Disruptive() && d.status.Maintenance != "" && s.maintenance != nil && !s.maintenance.Drained() &&
		equality.Semantic.DeepEqual(s.maintenance.Spec, s.wanted(step))
}

// parked waits, without a permit, for a node that is out of service to recover.
func (d decision) parked(s situation) decision {
	text := "out of service until it has recovered; " + lastRecord(&d.status).Message
	if why := evidence.Why(s.proof(&d.status).all()); why != "" {
		text += "; not proved yet: " + why
	}
	d.progressing(s.now, v1alpha1.ReasonInMaintenance, head(text))
	d.unblocked(s.now)
	d.effect, d.wait = release, parkedRecheck
	return d
}

// calmed stops what is evicted from the node: whatever asked for it is over, or held.
// What was done already stays done.
func (d decision) calmed(s situation) decision {
	m := s.maintenance
	if d.status.Maintenance == "" || m == nil || m.DeletionTimestamp != nil || m.Drained() || m.Spec.Drain == nil {
		return d
	}
	d.maintenance = *m.Spec.DeepCopy()
	d.maintenance.Drain, d.maintenance.Power, d.maintenance.OutOfService = nil, "", false
	d.effect = calm
	return d
}

// leftBehind ends a remediation that a person has deleted while the node is sick: it
// stays out of service until a person gives it back.
func (d decision) leftBehind(s situation, reason, message string) decision {
	if calmed := d.calmed(s); calmed.effect == calm {
		calmed.wait = time.Second
		return calmed
	}
	name := d.status.Maintenance
	d = d.ended(s.now, metav1.ConditionUnknown, reason,
		fmt.Sprintf("%s; the node is still sick and stays out of service: kubectl delete nodemaintenance %s", message, name))
	d.status.Maintenance = name
	return d
}

// unnamed returns the maintenances of the remediation that its status does not name:
// whatever was announced once and came late, too.
func (r *Reconciler) unnamed(ctx context.Context, remediation *v1alpha1.Remediation) ([]v1alpha1.NodeMaintenance, error) {
	var list v1alpha1.NodeMaintenanceList
	err := r.Client.List(ctx, &list, client.MatchingFields{index.MaintenancesByNode: remediation.Spec.NodeName}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the maintenances of node %s: %w", remediation.Spec.NodeName, err)
	}
	return slices.DeleteFunc(list.Items, func(m v1alpha1.NodeMaintenance) bool {
		return !ownMaintenance(remediation, &m) || m.Name == remediation.Status.Maintenance || m.DeletionTimestamp != nil
	}), nil
}

// giveBack deletes maintenances, which gives their nodes back.
func (r *Reconciler) giveBack(ctx context.Context, maintenances []v1alpha1.NodeMaintenance) error {
	var errs []error
	for i := range maintenances {
		m := &maintenances[i]
		obj := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, obj, client.Preconditions{UID: &m.UID})); err != nil {
			errs = append(errs, fmt.Errorf("deleting maintenance %s: %w", m.Name, err))
		}
	}
	return errors.Join(errs...)
}

// orphans returns the maintenances that a remediation has left behind that is gone. One
// that its tombstone names is there for a person to delete, or with the tombstone.
func (r *Reconciler) orphans(ctx context.Context, name string) ([]v1alpha1.NodeMaintenance, error) {
	var list v1alpha1.NodeMaintenanceList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing maintenances: %w", err)
	}
	name = strings.TrimSuffix(name, tombstoneSuffix)
	var left []v1alpha1.NodeMaintenance
	for i := range list.Items {
		m := &list.Items[i]
		if m.Spec.Remediation == nil || m.Spec.Remediation.Name != name || m.DeletionTimestamp != nil {
			continue
		}
		gone, err := r.forgotten(ctx, m)
		if err != nil {
			return nil, err
		}
		if gone {
			left = append(left, *m)
		}
	}
	return left, nil
}

// forgotten reports whether neither the maintenance's remediation nor its tombstone is
// there any more, as the API server has it now.
func (r *Reconciler) forgotten(ctx context.Context, m *v1alpha1.NodeMaintenance) (bool, error) {
	var remediation, tombstone v1alpha1.Remediation
	name := m.Spec.Remediation.Name
	read := func(name string, into *v1alpha1.Remediation) error {
		if err := client.IgnoreNotFound(r.Live.Get(ctx, types.NamespacedName{Name: name}, into)); err != nil {
			return fmt.Errorf("reading remediation %s: %w", name, err)
		}
		return nil
	}
	if err := read(name, &remediation); err != nil {
		return false, err
	}
	if err := read(tombstoneName(&v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: name}}), &tombstone); err != nil {
		return false, err
	}
	return remediation.UID != m.Spec.Remediation.UID && tombstone.Status.Maintenance != m.Name, nil
}
