package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// RemoteAPI is what a RemoteWorker asks and tells the API server.
type RemoteAPI interface {
	API
	// Lease returns that of the node's kubelet, live; nil: there is none.
	Lease(ctx context.Context, node string) (*coordinationv1.Lease, error)
	// Twin returns the name of another node whose systemUUID a switch can't tell from this
	// machine's; "": there is none.
	Twin(ctx context.Context, node string, machine power.UUID) (string, error)
	// Ready counts those of the nodes of these names that are Ready, but the one of this UID.
	Ready(ctx context.Context, names []string, but types.UID) (int32, error)
	// Holds returns what keeps actions from the node of this name, live.
	Holds(ctx context.Context, node string) (Holds, error)
}

// Holds is what may keep actions from a node.
type Holds struct {
	// Budgets are all that there are.
	Budgets []v1alpha1.RemediationBudget
	// Maintenances are those of the node's name.
	Maintenances []v1alpha1.NodeMaintenance
}

// nodesAtOnce is how many nodes are listed at a time.
const nodesAtOnce = 500

// remoteAPI is api, and reads the Leases of kubelets.
type remoteAPI struct {
	api
	leases rest.Interface
}

// newRemoteAPI is newAPI for the remote runner.
func newRemoteAPI(cfg *rest.Config, clock *serverclock.Clock) (remoteAPI, error) {
	known, err := newAPI(cfg, clock)
	if err != nil {
		return remoteAPI{}, err
	}
	known.manager = remoteManager
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		return remoteAPI{}, fmt.Errorf("registering the API kinds: %w", err)
	}
	metav1.AddToGroupVersion(scheme, coordinationv1.SchemeGroupVersion)
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(clock.Wrap)
	cfg.GroupVersion, cfg.APIPath = &coordinationv1.SchemeGroupVersion, "/apis"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	leases, err := rest.RESTClientFor(cfg)
	if err != nil {
		return remoteAPI{}, fmt.Errorf("setting up the connection to the API server: %w", err)
	}
	return remoteAPI{api: known, leases: leases}, nil
}

// Twin implements RemoteAPI. It lists all nodes, in pieces.
func (a remoteAPI) Twin(ctx context.Context, node string, machine power.UUID) (string, error) {
	alike := machine.Alike()
	for from := ""; ; {
		list, err := a.nodesFrom(ctx, from, nodesAtOnce)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			other := &list.Items[i]
			is, err := power.ParseUUID(other.Status.NodeInfo.SystemUUID)
			if err == nil && other.Name != node && slices.Contains(alike, is) {
				return other.Name, nil
			}
		}
		if from = list.Continue; from == "" {
			return "", nil
		}
	}
}

// Ready implements RemoteAPI. It lists all nodes, in pieces.
func (a remoteAPI) Ready(ctx context.Context, names []string, but types.UID) (ready int32, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	among := map[string]bool{}
	for _, name := range names {
		among[name] = true
	}
	for from := ""; ; {
		list, err := a.nodesFrom(ctx, from, nodesAtOnce)
		if err != nil {
			return 0, err
		}
		for i := range list.Items {
			node := &list.Items[i]
			if among[node.Name] && node.UID != but && isReady(node) {
				ready++
			}
		}
		if from = list.Continue; from == "" {
			return ready, nil
		}
	}
}

// Holds implements RemoteAPI.
func (a remoteAPI) Holds(ctx context.Context, node string) (Holds, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var budgets v1alpha1.RemediationBudgetList
	if err := a.own.Get().Resource("remediationbudgets").Do(ctx).Into(&budgets); err != nil {
		return Holds{}, fmt.Errorf("listing the RemediationBudgets: %w", err)
	}
	var maintenances v1alpha1.NodeMaintenanceList
	of := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()}
	if err := a.own.Get().Resource("nodemaintenances").VersionedParams(&of, metav1.ParameterCodec).Do(ctx).Into(&maintenances); err != nil {
		return Holds{}, fmt.Errorf("listing the NodeMaintenances of node %s: %w", node, err)
	}
	return Holds{Budgets: budgets.Items, Maintenances: maintenances.Items}, nil
}

// isReady reports whether the node is Ready.
func isReady(node *corev1.Node) bool {
	c := v1alpha1.FindNodeCondition(node, string(corev1.NodeReady))
	return c != nil && c.Status == corev1.ConditionTrue
}

func (a remoteAPI) nodesFrom(ctx context.Context, from string, limit int64) (*corev1.NodeList, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list := &corev1.NodeList{}
	err := a.core.Get().Resource("nodes").VersionedParams(&metav1.ListOptions{Limit: limit, Continue: from}, metav1.ParameterCodec).Do(ctx).Into(list)
	if err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	return list, nil
}

// allNodes lists and watches the nodes.
func (a remoteAPI) allNodes() cache.ListerWatcher {
	return cache.NewListWatchFromClient(a.core, "nodes", metav1.NamespaceNone, fields.Everything())
}

// WriteCondition implements FenceAPI. It fails if there is another node of that name by now.
func (a remoteAPI) WriteCondition(ctx context.Context, node *corev1.Node, c corev1.NodeCondition) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID},
		"status":   map[string]any{"conditions": []corev1.NodeCondition{c}},
	})
	if err != nil {
		return err
	}
	return a.core.Patch(types.StrategicMergePatchType).Resource("nodes").Name(node.Name).SubResource("status").
		Param("fieldManager", a.manager).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json").
		Body(data).Do(ctx).Error()
}

// Lease implements RemoteAPI.
func (a remoteAPI) Lease(ctx context.Context, node string) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	err := a.leases.Get().Namespace(corev1.NamespaceNodeLease).Resource("leases").Name(node).Do(ctx).Into(lease)
	switch {
	case err == nil:
		return lease, nil
	case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err):
		return nil, nil
	default:
		return nil, fmt.Errorf("reading the Lease of node %s: %w", node, err)
	}
}
