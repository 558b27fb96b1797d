package apiserver

import (
	"maps"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// forms are our kinds' objects as they were written through HTTP: "90s" is not 1m30s
// there, and a field that is false is not one that is absent. The store has them typed.
type forms struct {
	mu sync.Mutex
	of map[client.Object]map[string]any
}

func (f *forms) get(obj client.Object) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[obj]
}

func (f *forms) set(obj client.Object, form map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[client.Object]map[string]any{}
	}
	f.of[obj] = form
}

// keep drops the forms of what is neither stored nor told of any more.
func (f *forms) keep(kinds []*kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.of) == 0 {
		return
	}
	kept := map[client.Object]map[string]any{}
	for _, k := range kinds {
		for _, obj := range k.objects {
			kept[obj] = f.of[obj]
		}
		for _, e := range k.log {
			for _, obj := range []client.Object{e.Old, e.New, e.Last} {
				kept[obj] = f.of[obj]
			}
		}
	}
	maps.DeleteFunc(kept, func(_ client.Object, form map[string]any) bool { return form == nil })
	f.of = kept
}

// outward returns an object as the registry wants it, which may be changed: in its own
// type, or unstructured if the kind is ours.
func (r *registry) outward(obj client.Object) (runtime.Object, error) {
	if r.kind.rules == nil {
		return deepCopy(obj), nil
	}
	form := r.server.web.forms.get(obj)
	if form == nil {
		var err error
		if form, err = runtime.DefaultUnstructuredConverter.ToUnstructured(obj); err != nil {
			return nil, err
		}
	} else {
		form = runtime.DeepCopyJSON(form)
	}
	out := &unstructured.Unstructured{Object: form}
	out.SetGroupVersionKind(r.kind.gvk)
	out.SetResourceVersion(obj.GetResourceVersion())
	return out, nil
}

// inward returns an object as the store has it. It keeps the form.
func (r *registry) inward(obj runtime.Object) (client.Object, error) {
	if r.kind.rules == nil {
		stored := obj.(client.Object)
		stored.GetObjectKind().SetGroupVersionKind(noKind)
		return stored, nil
	}
	form := obj.(*unstructured.Unstructured).Object
	stored := reflect.New(reflect.TypeOf(r.kind.object).Elem()).Interface().(client.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(form, stored); err != nil {
		return nil, err
	}
	normalize(stored)
	r.server.web.forms.set(stored, form)
	return stored, nil
}

// forget drops the form of an object that has not been stored.
func (r *registry) forget(obj client.Object) {
	r.server.web.forms.mu.Lock()
	defer r.server.web.forms.mu.Unlock()
	delete(r.server.web.forms.of, obj)
}

// last returns the object as it is told of when it has gone.
func (r *registry) last(obj client.Object) client.Object {
	last := shallowCopy(obj)
	if form := r.server.web.forms.get(obj); form != nil {
		r.server.web.forms.set(last, form)
	}
	return last
}

// same reports whether an update changes nothing.
func (r *registry) same(stored, updated client.Object) bool {
	before, err := r.outward(stored)
	if err != nil {
		return false
	}
	after, err := r.outward(updated)
	if err != nil {
		return false
	}
	before.(metav1.Object).SetResourceVersion("")
	after.(metav1.Object).SetResourceVersion("")
	return equal(before, after)
}
