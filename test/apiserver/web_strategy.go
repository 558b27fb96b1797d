package apiserver

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// strategies are what the API server does with writes of a kind of Kubernetes. That code
// is in k8s.io/kubernetes, which nobody can link: this is what matters of it.
type strategies struct{ main, status strategy }

type strategy interface {
	rest.RESTCreateUpdateStrategy
	rest.RESTDeleteStrategy
	rest.ResetFieldsStrategy
}

func strategiesOf(k *kind, scheme *runtime.Scheme) strategies {
	base := mainStrategy{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator, kind: k}
	all := strategies{main: base, status: statusStrategy{base}}
	if _, ok := k.object.(*corev1.Pod); ok {
		all.main = podStrategy{base}
	}
	return all
}

// singular is the name of one object of the kind.
func (k *kind) singular() string { return strings.ToLower(k.gvk.Kind) }

// returnsDeleted tells whether a deletion is answered with the object.
func (k *kind) returnsDeleted() bool {
	_, ok := k.object.(*corev1.Pod)
	return ok
}

// mainStrategy is that of objects without their status.
type mainStrategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind *kind
}

// NamespaceScoped implements rest.RESTCreateStrategy.
func (m mainStrategy) NamespaceScoped() bool { return m.kind.namespaced }

// PrepareForCreate implements rest.RESTCreateStrategy.
func (m mainStrategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	object := obj.(client.Object)
	switch object := object.(type) {
	case *corev1.Pod:
		object.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qosOf(object)}
	case *corev1.Namespace:
		object.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
		object.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
	case *corev1.Node: // may be created with a status
	default:
		if m.kind.copyStatus != nil {
			m.kind.copyStatus(object, m.kind.object)
		}
	}
	if m.kind.sameSpec != nil {
		object.SetGeneration(1)
	}
}

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (m mainStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	object, before := obj.(client.Object), old.(client.Object)
	if m.kind.copyStatus != nil {
		m.kind.copyStatus(object, before)
	}
	if m.kind.sameSpec != nil && !m.kind.sameSpec(before, object) {
		object.SetGeneration(before.GetGeneration() + 1)
	}
}

// Validate implements rest.RESTCreateStrategy: names alone.
func (m mainStrategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	valid := validation.NameIsDNSSubdomain
	if m.kind.resource == "namespaces" {
		valid = validation.NameIsDNSLabel
	}
	return validation.ValidateObjectMeta(obj.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta), m.kind.namespaced, valid, field.NewPath("metadata"))
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (mainStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (mainStrategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (mainStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// Canonicalize implements rest.RESTCreateStrategy.
func (mainStrategy) Canonicalize(runtime.Object) {}

// AllowCreateOnUpdate implements rest.RESTUpdateStrategy: Leases and Events can be made so.
func (m mainStrategy) AllowCreateOnUpdate(context.Context) bool {
	return m.kind.resource == "leases" || m.kind.resource == "events"
}

// AllowUnconditionalUpdate implements rest.RESTUpdateStrategy.
func (m mainStrategy) AllowUnconditionalUpdate(context.Context) bool {
	return m.kind.resource != "leases" && m.kind.resource != "poddisruptionbudgets"
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (m mainStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if !m.kind.status {
		return nil
	}
	return m.reset(fieldpath.MakePathOrDie("status"))
}

func (m mainStrategy) reset(paths ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(m.kind.gvk.GroupVersion().String()): fieldpath.NewSet(paths...)}
}

// statusStrategy is that of the status.
type statusStrategy struct{ mainStrategy }

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (t statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	after := obj.(client.Object)
	kept := deepCopy(old.(client.Object))
	t.kind.copyStatus(kept, after)
	if pod, ok := after.(*corev1.Pod); ok {
		pod.DeletionTimestamp, pod.OwnerReferences = nil, kept.GetOwnerReferences()
		if status := &kept.(*corev1.Pod).Status; status.QOSClass == "" {
			status.QOSClass = old.(*corev1.Pod).Status.QOSClass
		}
	}
	copyMeta(kept, after)
	assign(after, kept)
}

// copyMeta gives into the metadata of from.
func copyMeta(into, from client.Object) {
	at := from.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
	at.DeepCopyInto(into.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta))
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (t statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if _, ok := t.kind.object.(*corev1.Pod); ok {
		return t.reset(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "deletionTimestamp"),
			fieldpath.MakePathOrDie("metadata", "ownerReferences"))
	}
	return t.reset(fieldpath.MakePathOrDie("spec"))
}

// podStrategy gives pods time to end.
type podStrategy struct{ mainStrategy }

// CheckGracefulDelete implements rest.RESTGracefulDeleteStrategy.
func (p podStrategy) CheckGracefulDelete(_ context.Context, obj runtime.Object, options *metav1.DeleteOptions) bool {
	if options == nil {
		return false
	}
	period := p.kind.grace(obj.(client.Object), *options)
	options.GracePeriodSeconds = &period
	return true
}
