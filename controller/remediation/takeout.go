package remediation

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/optimistic"
)

// maintenances reads whatever holds the node into the situation. That the one which the status
// names does not exist is never concluded from a cache that is behind.
func (o observer) maintenances(ctx context.Context, s *situation) error {
	var list v1alpha1.NodeMaintenanceList
	err := o.cache.List(ctx, &list, client.MatchingFields{index.MaintenancesByNode: s.remediation.Spec.NodeName})
	if err != nil {
		return fmt.Errorf("listing the maintenances of node %s: %w", s.remediation.Spec.NodeName, err)
	}
	for i := range list.Items {
		m := &list.Items[i]
		switch {
		case m.Name == s.remediation.Status.Maintenance:
			s.maintenance = m
		case ownMaintenance(s.remediation, m):
			s.strays = append(s.strays, *m)
		case s.node != nil && m.KeepsActionsFrom(s.node):
			s.held = append(s.held, *m)
		}
	}
	if name := s.remediation.Status.Maintenance; name != "" && s.maintenance == nil {
		var m v1alpha1.NodeMaintenance
		if found, err := o.get(ctx, name, &m); err != nil {
			return err
		} else if found {
			s.maintenance = &m
		}
	}
	return nil
}

// liveMaintenance has the maintenance that the status names as the API server has it now, and the node, too, if that
// is given back.
func (o observer) liveMaintenance(ctx context.Context, s *situation) (err error) {
	var m v1alpha1.NodeMaintenance
	switch err := o.live.Get(ctx, client.ObjectKeyFromObject(s.maintenance), &m); {
	case apierrors.IsNotFound(err):
		s.maintenance = nil
	case err != nil:
		return fmt.Errorf("reading maintenance %s: %w", s.maintenance.Name, err)
	default:
		s.maintenance = &m
	}
	if s.givenBack() {
		s.node, err = o.liveNode(ctx, &s.remediation.Spec)
	}
	return err
}

// takeOut takes the node out of service: for the remedy maintenance that is all, for other
// disruptive ones what comes first. It creates the maintenance that the decision's status names,
// or makes it what the decision wants.
func (r *Reconciler) takeOut(ctx context.Context, s situation, d decision) error {
	if s.maintenance != nil {
		return r.changeMaintenance(ctx, s.maintenance, d.maintenance)
	}
	name, spec := d.status.Maintenance, d.maintenance
	m := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{v1alpha1.MaintenanceFinalizer}},
		Spec:       spec,
	}
	if err := r.Client.Create(ctx, m, fieldmanager.Controller); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating maintenance %s: %w", name, err)
	}
	return nil
}

// changeMaintenance makes the maintenance what it should be. It fails with a conflict if anybody
// has changed it since it was observed.
func (r *Reconciler) changeMaintenance(ctx context.Context, m *v1alpha1.NodeMaintenance, spec v1alpha1.NodeMaintenanceSpec) error {
	changed := m.DeepCopy()
	changed.Spec = spec
	patch := optimistic.Since(m)
	if err := r.Client.Patch(ctx, changed, patch, fieldmanager.Controller); err != nil {
		return fmt.Errorf("changing maintenance %s: %w", m.Name, err)
	}
	return nil
}
