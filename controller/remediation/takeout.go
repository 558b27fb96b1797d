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

// byMaintenance executes by a NodeMaintenance, which takes the node out of service: for a
// maintenance that is all, for other disruptive remedies what comes first.
type byMaintenance struct{}

// observe implements executor. It reads whatever holds the node.
func (byMaintenance) observe(ctx context.Context, o observer, s *situation) error {
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
		case s.node != nil && m.Holds(s.node):
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

// start implements executor. It creates the maintenance, or makes it what it should be.
func (by byMaintenance) start(ctx context.Context, r *Reconciler, s situation, d decision) error {
	if s.maintenance != nil {
		return by.change(ctx, r, s.maintenance, d.maintenance)
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

// cancel implements executor. Nothing more is evicted; the node stays as it is until it is given
// back.
func (by byMaintenance) cancel(ctx context.Context, r *Reconciler, s situation, d decision) error {
	return by.change(ctx, r, s.maintenance, d.maintenance)
}

// change makes the maintenance what it should be. It fails with a conflict if anybody has changed
// it since it was observed.
func (byMaintenance) change(ctx context.Context, r *Reconciler, m *v1alpha1.NodeMaintenance, spec v1alpha1.NodeMaintenanceSpec) error {
	changed := m.DeepCopy()
	changed.Spec = spec
	patch := optimistic.Since(m)
	if err := r.Client.Patch(ctx, changed, patch, fieldmanager.Controller); err != nil {
		return fmt.Errorf("changing maintenance %s: %w", m.Name, err)
	}
	return nil
}
