package runner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// fieldManager is the name under which the API server records our writes.
const fieldManager = "nodemend-runner"

// requestTimeout bounds one request, so that an API server that accepts
// connections and does not answer cannot hold the runner up.
const requestTimeout = 15 * time.Second

// api reads live, never from a cache, and writes what an action has come to.
type api struct {
	reader client.Reader
	writer client.StatusClient
}

// action returns nil if there is no such action.
func (a api) action(ctx context.Context, name string) (*v1alpha1.NodeAction, error) {
	action := &v1alpha1.NodeAction{}
	found, err := a.get(ctx, "NodeAction", name, action)
	if !found {
		return nil, err
	}
	return action, nil
}

// policy returns nil if there is no such policy.
func (a api) policy(ctx context.Context, name string) (*v1alpha1.RemedyPolicy, error) {
	policy := &v1alpha1.RemedyPolicy{}
	found, err := a.get(ctx, "RemedyPolicy", name, policy)
	if !found {
		return nil, err
	}
	return policy, nil
}

// node returns nil if there is no such node.
func (a api) node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	found, err := a.get(ctx, "Node", name, node)
	if !found {
		return nil, err
	}
	return node, nil
}

// get reports whether the object was read. An object that does not exist is
// no error; a kind that the API server does not serve, which is a 404 as
// well, is one.
func (a api) get(ctx context.Context, kind, name string, into client.Object) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := a.reader.Get(ctx, types.NamespacedName{Name: name}, into)
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err):
		return false, nil
	default:
		return false, fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
}

// updateStatus writes the action's status if nobody has written the action
// since it was read; otherwise the error is a conflict. After any other error
// the status may have been written or not: only a read can tell.
func (a api) updateStatus(ctx context.Context, action *v1alpha1.NodeAction) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return a.writer.Status().Update(ctx, action, client.FieldOwner(fieldManager))
}
