package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// evictionStorage serves the eviction subresource of pods.
type evictionStorage struct {
	server *Server
	pods   rest.Getter
}

var (
	_ = rest.NamedCreater(&evictionStorage{})
	_ = rest.GroupVersionKindProvider(&evictionStorage{})
)

// New implements rest.Storage.
func (e *evictionStorage) New() runtime.Object { return &policyv1.Eviction{} }

// Destroy implements rest.Storage.
func (e *evictionStorage) Destroy() {}

// GroupVersionKind implements rest.GroupVersionKindProvider.
func (e *evictionStorage) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return policyv1.SchemeGroupVersion.WithKind("Eviction")
}

// AcceptsGroupVersion implements rest.GroupVersionAcceptor.
func (e *evictionStorage) AcceptsGroupVersion(version schema.GroupVersion) bool {
	return version == policyv1.SchemeGroupVersion
}

// Create implements rest.NamedCreater: it evicts a pod.
func (e *evictionStorage) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	eviction, ok := obj.(*policyv1.Eviction)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Eviction object: %T", obj))
	}
	if eviction.Name != name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	if err := validate(ctx, eviction.DeepCopyObject()); err != nil {
		return nil, err
	}
	deletion := eviction.DeleteOptions
	if deletion == nil {
		deletion = &metav1.DeleteOptions{}
	}
	if len(deletion.DryRun) == 0 {
		deletion.DryRun = slices.Clone(options.DryRun)
	}
	namespace, _ := request.NamespaceFrom(ctx)
	err := e.server.evict(by(ctx), types.NamespacedName{Namespace: namespace, Name: name}, deletion)
	switch {
	case errors.Is(err, errTwoBudgets): // an answer, not an error: the request has the status Created
		return errTwoBudgets.ErrStatus.DeepCopy(), nil
	case err != nil:
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}
