package worker

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// SpecChanged reports whether an update changes what is wanted: the spec, or the whole
// object. A cache that has missed a deletion shows the next object of the name as an update
// of the one before, and both may have the same generation.
func SpecChanged(old, updated client.Object) bool {
	return old.GetUID() != updated.GetUID() || old.GetGeneration() != updated.GetGeneration()
}

// OnSpec lets only those updates pass that SpecChanged is true of.
func OnSpec() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return SpecChanged(e.ObjectOld, e.ObjectNew) }}
}
