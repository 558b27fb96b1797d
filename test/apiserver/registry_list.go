package apiserver

import (
	"context"
	"math"
	"reflect"
	"slices"
	"sort"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GetList implements storage.Interface. As etcd does, it lists what was there at a
// version, in the order of keys.
func (r *registry) GetList(_ context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	prefix := strings.TrimSuffix(key, "/") + "/"
	version, start, err := storage.ValidateListOptions(prefix, r.Versioner(), opts)
	if err != nil {
		return err
	}
	if err := r.notNewer(opts.ResourceVersion); err != nil {
		return err
	}
	if opts.ResourceVersion == "0" && opts.ResourceVersionMatch != metav1.ResourceVersionMatchExact {
		opts.Predicate.Limit = 0 // the API server's cache answers, which has no pieces
	}
	objects, at, err := r.at(version)
	if err != nil {
		return err
	}
	var found []client.Object
	for _, obj := range objects {
		if k := r.key(obj); opts.Recursive && strings.HasPrefix(k, prefix) && k >= start || !opts.Recursive && k == key {
			found = append(found, obj)
		}
	}
	items, last, more, err := r.choose(found, &opts.Predicate)
	if err != nil {
		return err
	}
	next, remaining, err := storage.PrepareContinueToken(last, prefix, int64(at), int64(len(found)), more, opts)
	if err != nil {
		return err
	}
	into, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	v := reflect.ValueOf(into).Elem()
	v.Set(reflect.MakeSlice(v.Type(), 0, len(items)))
	for _, item := range items {
		v.Set(reflect.Append(v, reflect.ValueOf(item).Elem()))
	}
	return r.Versioner().UpdateList(list, at, next, remaining)
}

// choose returns the objects of a piece of a list, the key of the last, and whether there
// are more.
func (r *registry) choose(found []client.Object, p *storage.SelectionPredicate) (items []runtime.Object, last string, more bool, err error) {
	for i, stored := range found {
		obj, err := r.outward(stored)
		if err != nil {
			return nil, "", false, err
		}
		selected, err := p.Matches(obj)
		if err != nil {
			return nil, "", false, err
		}
		if !selected {
			continue
		}
		items = append(items, obj)
		if p.Limit > 0 && int64(len(items)) == p.Limit {
			return items, r.key(stored), i < len(found)-1, nil
		}
	}
	return items, "", false, nil
}

// at returns the objects that were there at a version, by their keys; 0 or less: now.
func (r *registry) at(version int64) ([]client.Object, uint64, error) {
	s, k := r.server, r.kind
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := uint64(math.MaxUint64)
	if version > 0 {
		at = uint64(version)
	}
	if at < k.compacted {
		return nil, 0, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.")
	}
	present := make(map[types.NamespacedName]client.Object, len(k.objects))
	for key, obj := range k.objects {
		present[key] = obj
	}
	first := sort.Search(len(k.log), func(i int) bool { return k.log[i].Version > at })
	for _, e := range slices.Backward(k.log[first:]) {
		switch {
		case e.Old != nil:
			present[keyOf(e.Old)] = e.Old
		case e.New != nil:
			delete(present, keyOf(e.New))
		}
	}
	objects := make([]client.Object, 0, len(present))
	for _, obj := range present {
		objects = append(objects, obj)
	}
	slices.SortFunc(objects, func(a, b client.Object) int { return strings.Compare(r.key(a), r.key(b)) })
	return objects, min(at, s.version), nil
}
