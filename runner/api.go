package runner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/coreapi"
	"github.com/nodemend/nodemend/internal/serverclock"
)

const (
	// fieldManager and remoteManager are the names under which the API server records
	// what a node's runner writes, and the remote one.
	fieldManager  = "nodemend-runner"
	remoteManager = "nodemend-remote-runner"

	// requestTimeout bounds one request, so that an API server that accepts
	// connections and does not answer cannot hold the runner up.
	requestTimeout = 15 * time.Second

	actionResource  = "nodeactions"
	requestResource = "nodemendremediations"
)

// api reads live, never from a cache, and writes what an action has come to. Only
// the kinds that a runner needs are known: nothing is asked for at the start, and
// nothing is kept in memory.
type api struct {
	own  rest.Interface // nodemend.dev
	core rest.Interface

	manager string // of the fields that are written
}

// newAPI returns a client whose answers teach the clock the server's time.
func newAPI(cfg *rest.Config, clock *serverclock.Clock) (api, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(clock.Wrap)
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return api{}, fmt.Errorf("setting up the connection to the API server: %w", err)
	}
	core, err := coreapi.NewWithClient(cfg, httpClient)
	if err != nil {
		return api{}, err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return api{}, fmt.Errorf("registering the API kinds: %w", err)
	}
	metav1.AddToGroupVersion(scheme, v1alpha1.GroupVersion)
	cfg.GroupVersion = &v1alpha1.GroupVersion
	cfg.APIPath = "/apis"
	cfg.ContentType = runtime.ContentTypeJSON
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	own, err := rest.RESTClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return api{}, fmt.Errorf("setting up the connection to the API server: %w", err)
	}
	return api{own: own, core: core, manager: fieldManager}, nil
}

// actions lists and watches the actions that have this value in a field: of a node, say.
func (a api) actions(field, value string) cache.ListerWatcher {
	return cache.NewListWatchFromClient(a.own, actionResource, metav1.NamespaceNone, fields.OneTermEqualSelector(field, value))
}

// Action implements API.
func (a api) Action(ctx context.Context, name string) (*v1alpha1.NodeAction, error) {
	return get(ctx, a.own, actionResource, "NodeAction", name, &v1alpha1.NodeAction{})
}

// Remediation implements API.
func (a api) Remediation(ctx context.Context, name string) (*v1alpha1.Remediation, error) {
	return get(ctx, a.own, "remediations", "Remediation", name, &v1alpha1.Remediation{})
}

// Policy implements API.
func (a api) Policy(ctx context.Context, name string) (*v1alpha1.RemedyPolicy, error) {
	return get(ctx, a.own, "remedypolicies", "RemedyPolicy", name, &v1alpha1.RemedyPolicy{})
}

// Node implements API.
func (a api) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return get(ctx, a.core, "nodes", "Node", name, &corev1.Node{})
}

// Budget implements API.
func (a api) Budget(ctx context.Context, name string) (*v1alpha1.RemediationBudget, error) {
	return get(ctx, a.own, "remediationbudgets", "RemediationBudget", name, &v1alpha1.RemediationBudget{})
}

// Request implements API.
func (a api) Request(ctx context.Context, request *v1alpha1.Request) (*v1alpha1.NodemendRemediation, error) {
	return getIn(ctx, a.own, request.Namespace, requestResource, "NodemendRemediation", request.Name, &v1alpha1.NodemendRemediation{})
}

// get returns nil if the API server says that there is no such object. A kind that
// it does not serve, which is a 404 as well, is an error.
func get[T runtime.Object](ctx context.Context, from rest.Interface, resource, kind, name string, into T) (T, error) {
	return getIn(ctx, from, metav1.NamespaceNone, resource, kind, name, into)
}

// getIn is get for an object in a namespace.
func getIn[T runtime.Object](ctx context.Context, from rest.Interface, namespace, resource, kind, name string, into T) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var none T
	err := from.Get().NamespaceIfScoped(namespace, namespace != metav1.NamespaceNone).Resource(resource).Name(name).Do(ctx).Into(into)
	switch {
	case err == nil:
		return into, nil
	case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err):
		return none, nil
	default:
		return none, fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
}

// UpdateStatus implements API.
func (a api) UpdateStatus(ctx context.Context, action *v1alpha1.NodeAction) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	written := &v1alpha1.NodeAction{}
	err := a.own.Put().Resource(actionResource).Name(action.Name).SubResource("status").
		Param("fieldManager", a.manager).Body(action).Do(ctx).Into(written)
	if err != nil {
		return err
	}
	*action = *written
	return nil
}
