package apiserver

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// equal compares two objects as equality.Semantic does. That looks anew at each type each time;
// here it is looked at once.
func equal(a, b any) bool {
	if obj, ok := a.(client.Object); ok && unknown(obj) {
		return equality.Semantic.DeepEqual(a, b)
	}
	v, w := reflect.ValueOf(a), reflect.ValueOf(b)
	return v.Type() == w.Type() && comparerOf(v.Type())(v, w)
}

// comparer compares values of a type.
type comparer func(a, b reflect.Value) bool

// comparers are made once for each type. None of them contains itself.
var comparers sync.Map

func comparerOf(t reflect.Type) comparer {
	if c, ok := comparers.Load(t); ok {
		return c.(comparer)
	}
	c := newComparer(t)
	comparers.Store(t, c)
	return c
}

func newComparer(t reflect.Type) comparer {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return func(a, b reflect.Value) bool { return in[metav1.Time](a).Equal(in[metav1.Time](b)) }
	case reflect.TypeFor[metav1.MicroTime]():
		return func(a, b reflect.Value) bool { return in[metav1.MicroTime](a).Equal(in[metav1.MicroTime](b)) }
	case reflect.TypeFor[resource.Quantity]():
		return func(a, b reflect.Value) bool { return in[resource.Quantity](a).Cmp(*in[resource.Quantity](b)) == 0 }
	case reflect.TypeFor[metav1.FieldsV1]():
		return func(a, b reflect.Value) bool { return in[metav1.FieldsV1](a).Equal(*in[metav1.FieldsV1](b)) }
	}
	switch t.Kind() {
	case reflect.Struct:
		return structComparer(t)
	case reflect.Pointer:
		element := comparerOf(t.Elem())
		return func(a, b reflect.Value) bool {
			return a.Pointer() == b.Pointer() || !a.IsNil() && !b.IsNil() && element(a.Elem(), b.Elem())
		}
	case reflect.Slice:
		element := comparerOf(t.Elem())
		return func(a, b reflect.Value) bool {
			if a.Len() != b.Len() {
				return false
			}
			if a.Pointer() == b.Pointer() {
				return true
			}
			for i := range a.Len() {
				if !element(a.Index(i), b.Index(i)) {
					return false
				}
			}
			return true
		}
	case reflect.Map:
		return mapComparer(t)
	case reflect.String:
		return func(a, b reflect.Value) bool { return a.String() == b.String() }
	default:
		return reflect.Value.Equal
	}
}

// in returns the value, without a copy where there need be none.
func in[T any](v reflect.Value) *T {
	if v.CanAddr() {
		return v.Addr().Interface().(*T)
	}
	value := v.Interface().(T)
	return &value
}

func structComparer(t reflect.Type) comparer {
	fields := make([]comparer, t.NumField())
	for i := range fields {
		fields[i] = comparerOf(t.Field(i).Type)
	}
	return func(a, b reflect.Value) bool {
		for i, same := range fields {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
}

func mapComparer(t reflect.Type) comparer {
	element := comparerOf(t.Elem())
	return func(a, b reflect.Value) bool {
		if a.Len() != b.Len() {
			return false
		}
		if a.Pointer() == b.Pointer() {
			return true
		}
		for entries := a.MapRange(); entries.Next(); {
			if other := b.MapIndex(entries.Key()); !other.IsValid() || !element(entries.Value(), other) {
				return false
			}
		}
		return true
	}
}
