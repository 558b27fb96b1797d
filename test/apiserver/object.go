package apiserver

import (
	"reflect"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[*T]() }

// deepCopy returns a copy of an object that nobody else has.
func deepCopy(obj client.Object) client.Object { return obj.DeepCopyObject().(client.Object) }

// shallowCopy returns another object with the same parts, which must not be changed.
func shallowCopy(obj client.Object) client.Object {
	if unknown(obj) { // its metadata are a part
		return deepCopy(obj)
	}
	c := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	assign(c, obj)
	return c
}

func keyOf(obj client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// versionOf is the resourceVersion of a stored object.
func versionOf(obj client.Object) uint64 {
	version, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64) // stored ones have been numbered here
	return version
}

// assign makes obj what from is. Both are pointers of one type.
func assign(obj, from client.Object) { reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(from).Elem()) }

// normalize makes of an object what is left of it after it went through JSON: times have
// whole seconds, or microseconds, and lists and maps that are empty are not there.
func normalize(obj client.Object) {
	if unknown(obj) {
		return
	}
	v := reflect.ValueOf(obj).Elem()
	walkerOf(v.Type()).walk(v)
	obj.GetObjectKind().SetGroupVersionKind(noKind)
}

// walker normalizes values of a type. It is nil for a type that has nothing to
// normalize.
type walker func(reflect.Value)

func (w walker) walk(v reflect.Value) {
	if w != nil {
		w(v)
	}
}

// walkers are made once for each type.
var walkers sync.Map

func walkerOf(t reflect.Type) walker {
	if w, ok := walkers.Load(t); ok {
		return w.(walker)
	}
	// A type that contains itself is walked by whoever comes to be stored.
	walkers.Store(t, walker(func(v reflect.Value) {
		if w, ok := walkers.Load(t); ok {
			w.(walker).walk(v)
		}
	}))
	w := newWalker(t)
	walkers.Store(t, w)
	return w
}

func newWalker(t reflect.Type) walker {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return func(v reflect.Value) {
			at := v.Addr().Interface().(*metav1.Time)
			if !at.IsZero() {
				at.Time = at.UTC().Truncate(time.Second)
			}
		}
	case reflect.TypeFor[metav1.MicroTime]():
		return func(v reflect.Value) {
			at := v.Addr().Interface().(*metav1.MicroTime)
			if !at.IsZero() {
				at.Time = at.UTC().Truncate(time.Microsecond)
			}
		}
	case reflect.TypeFor[metav1.FieldsV1]():
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return structWalker(t)
	case reflect.Pointer:
		if element := walkerOf(t.Elem()); element != nil {
			return func(v reflect.Value) {
				if !v.IsNil() {
					element(v.Elem())
				}
			}
		}
	case reflect.Slice:
		element := walkerOf(t.Elem())
		return func(v reflect.Value) {
			if v.Len() == 0 && !v.IsNil() {
				v.SetZero()
			}
			if element != nil {
				for i := range v.Len() {
					element(v.Index(i))
				}
			}
		}
	case reflect.Map:
		return mapWalker(t)
	}
	return nil
}

func structWalker(t reflect.Type) walker {
	type field struct {
		index int
		walk  walker
	}
	var fields []field
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			continue
		}
		if w := walkerOf(t.Field(i).Type); w != nil {
			fields = append(fields, field{i, w})
		}
	}
	if fields == nil {
		return nil
	}
	return func(v reflect.Value) {
		for _, f := range fields {
			f.walk(v.Field(f.index))
		}
	}
}

func mapWalker(t reflect.Type) walker {
	element := walkerOf(t.Elem())
	return func(v reflect.Value) {
		if v.Len() == 0 && !v.IsNil() {
			v.SetZero()
			return
		}
		if element == nil {
			return
		}
		for entries := v.MapRange(); entries.Next(); {
			value := reflect.New(t.Elem()).Elem()
			value.Set(entries.Value())
			element(value)
			v.SetMapIndex(entries.Key(), value)
		}
	}
}
