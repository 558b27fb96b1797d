package runner

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
)

const maintenanceResource = "nodemaintenances"

// MaintenanceAPI is what a MaintenanceWorker asks and tells the API server. All is read live; an
// object that is not there is nil.
type MaintenanceAPI interface {
	Node(ctx context.Context, name string) (*corev1.Node, error)
	Remediation(ctx context.Context, name string) (*v1alpha1.Remediation, error)
	Policy(ctx context.Context, name string) (*v1alpha1.RemedyPolicy, error)
	Budget(ctx context.Context, name string) (*v1alpha1.RemediationBudget, error)
	Request(ctx context.Context, request *v1alpha1.Request) (*v1alpha1.NodemendRemediation, error)
	// Holds and Twin are as in RemoteAPI.
	Holds(ctx context.Context, node string) (Holds, error)
	Twin(ctx context.Context, node string, machine power.UUID) (string, error)
	// Actions returns all that are for the node of this name.
	Actions(ctx context.Context, node string) ([]v1alpha1.NodeAction, error)
	// UpdateMaintenance writes the status of a maintenance, and fails with a conflict if anybody
	// has written the maintenance since it was read.
	UpdateMaintenance(ctx context.Context, m *v1alpha1.NodeMaintenance) error
}

var _ MaintenanceAPI = remoteAPI{}

// maintenances lists and watches all of them.
func (a remoteAPI) maintenances() cache.ListerWatcher {
	return cache.NewListWatchFromClient(a.own, maintenanceResource, metav1.NamespaceNone, fields.Everything())
}

// Actions implements MaintenanceAPI.
func (a remoteAPI) Actions(ctx context.Context, node string) ([]v1alpha1.NodeAction, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var list v1alpha1.NodeActionList
	of := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()}
	if err := a.own.Get().Resource(actionResource).VersionedParams(&of, metav1.ParameterCodec).Do(ctx).Into(&list); err != nil {
		return nil, fmt.Errorf("listing the NodeActions of node %s: %w", node, err)
	}
	return list.Items, nil
}

// UpdateMaintenance implements MaintenanceAPI.
func (a remoteAPI) UpdateMaintenance(ctx context.Context, m *v1alpha1.NodeMaintenance) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	written := &v1alpha1.NodeMaintenance{}
	err := a.own.Put().Resource(maintenanceResource).Name(m.Name).SubResource("status").
		Param("fieldManager", a.manager).Body(m).Do(ctx).Into(written)
	if err != nil {
		return err
	}
	*m = *written
	return nil
}
