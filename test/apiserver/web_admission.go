package apiserver

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
)

// createNamespaces creates those that are in each cluster.
func (s *Server) createNamespaces() error {
	namespaces := s.byType[typeOf[corev1.Namespace]()]
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		_, err := s.create(namespaces, "", &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}},
			Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
			Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
		}, false)
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// admission is what admits requests.
func (s *Server) admission() admission.Interface {
	all := admissionChain{needsNamespace{s}}
	if s.options.Policies != nil {
		all = append(all, s.options.Policies.admission(s))
	}
	return all
}

// admissionChain asks one after another.
type admissionChain []admission.ValidationInterface

// Handles implements admission.Interface.
func (admissionChain) Handles(admission.Operation) bool { return true }

// Validate implements admission.ValidationInterface.
func (c admissionChain) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	for _, plugin := range c {
		if !plugin.Handles(a.GetOperation()) {
			continue
		}
		if err := plugin.Validate(ctx, a, o); err != nil {
			return err
		}
	}
	return nil
}

// needsNamespace refuses what would be created in a namespace that does not exist or ends.
type needsNamespace struct{ server *Server }

// Handles implements admission.Interface.
func (needsNamespace) Handles(o admission.Operation) bool { return o == admission.Create }

// Validate implements admission.ValidationInterface.
func (n needsNamespace) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetNamespace() == "" || a.GetKind().Kind == "Namespace" {
		return nil
	}
	_, err := n.server.get(n.server.byType[typeOf[corev1.Namespace]()], types.NamespacedName{Name: a.GetNamespace()})
	return err
}
