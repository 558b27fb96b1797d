package apiserver

import (
	"cmp"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// get returns the stored object, which must not be changed.
func (s *Server) get(k *kind, key types.NamespacedName) (client.Object, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return k.get(key)
}

func (k *kind) get(key types.NamespacedName) (client.Object, error) {
	if obj, ok := k.objects[key]; ok {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(k.groupResource(), key.Name)
}

// Selection is what a list or a watch selects. The zero value selects all.
type Selection struct {
	Namespace string
	Labels    labels.Selector
	Fields    fields.Selector
}

// list returns the stored objects that are selected, by their names, which must not be
// changed, and the version of the list.
func (s *Server) list(k *kind, selection Selection) (objects []client.Object, version uint64, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	selects, err := k.selector(selection)
	if err != nil {
		return nil, 0, err
	}
	for _, obj := range k.objects {
		if selects(obj) {
			objects = append(objects, obj)
		}
	}
	slices.SortFunc(objects, byKey)
	return objects, s.version, nil
}

func byKey(a, b client.Object) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// selector returns what tells whether an object is selected.
func (k *kind) selector(selection Selection) (func(client.Object) bool, error) {
	var values []func(client.Object) bool
	if selection.Namespace != "" {
		values = append(values, func(o client.Object) bool { return o.GetNamespace() == selection.Namespace })
	}
	if selection.Labels != nil && !selection.Labels.Empty() {
		values = append(values, func(o client.Object) bool { return selection.Labels.Matches(labels.Set(o.GetLabels())) })
	}
	if selection.Fields != nil {
		for _, r := range selection.Fields.Requirements() {
			value, err := k.field(r.Field)
			if err != nil {
				return nil, err
			}
			negated := r.Operator == "!="
			values = append(values, func(o client.Object) bool { return (value(o) == r.Value) != negated })
		}
	}
	return func(o client.Object) bool {
		return !slices.ContainsFunc(values, func(holds func(client.Object) bool) bool { return !holds(o) })
	}, nil
}

// field returns the value of a field that can be selected by.
func (k *kind) field(name string) (func(client.Object) string, error) {
	switch name {
	case "metadata.name":
		return client.Object.GetName, nil
	case "metadata.namespace":
		if k.namespaced {
			return client.Object.GetNamespace, nil
		}
	}
	if value := k.fields[name]; value != nil {
		return value, nil
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", name))
}
