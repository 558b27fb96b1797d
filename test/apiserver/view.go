package apiserver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// View is what a process has read of the kinds that it watches: a cache that is as far
// behind the server as whoever calls Next lets it be. Its objects must not be changed.
type View struct {
	server *Server
	kinds  map[*kind]*viewOf
	// current is after how many changes of the server nothing was unseen.
	current uint64
}

// viewOf is a view of one kind.
type viewOf struct {
	kind      *kind
	transform toolscache.TransformFunc
	version   uint64
	objects   map[types.NamespacedName]client.Object
	indexes   map[string]*index
}

// index finds objects by a value.
type index struct {
	values  client.IndexerFunc
	objects map[string]map[types.NamespacedName]client.Object
}

var (
	_ client.Reader       = (*View)(nil)
	_ client.FieldIndexer = (*View)(nil)
)

// View returns an empty view of no kind.
func (s *Server) View() *View { return &View{server: s, kinds: map[*kind]*viewOf{}} }

// Watch lets the view know a kind, whose objects go through the transform; nil: as they
// are. Relist reads them first.
func (v *View) Watch(obj client.Object, transform toolscache.TransformFunc) error {
	k, err := v.server.kindOf(obj)
	if err != nil {
		return err
	}
	v.current = 0
	v.kinds[k] = &viewOf{kind: k, transform: transform, objects: map[types.NamespacedName]client.Object{}, indexes: map[string]*index{}}
	return nil
}

// IndexField implements client.FieldIndexer, for a kind that is watched and not read yet.
func (v *View) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	of, err := v.of(obj)
	if err != nil {
		return err
	}
	of.indexes[field] = &index{values, map[string]map[types.NamespacedName]client.Object{}}
	return nil
}

func (v *View) of(obj client.Object) (*viewOf, error) {
	k, err := v.server.kindOf(obj)
	if err != nil {
		return nil, err
	}
	of := v.kinds[k]
	if of == nil {
		return nil, fmt.Errorf("the view does not watch %T", obj)
	}
	return of, nil
}

// Step is what a view has learned of one object. Old is nil for one that is new to the
// view, New for one that is gone.
type Step struct{ Old, New client.Object }

// Version returns the version up to which the view has seen what happened to a kind; ""
// for a kind that it does not know or has not read.
func (v *View) Version(obj client.Object) string {
	of, err := v.of(obj)
	if err != nil || of.version == 0 {
		return ""
	}
	return strconv.FormatUint(of.version, 10)
}

// Behind returns how many events of the kind the view has not seen.
func (v *View) Behind(obj client.Object) int {
	of, err := v.of(obj)
	if err != nil {
		return 0
	}
	events, err := v.server.since(of.kind, of.version)
	if err != nil {
		return 1
	}
	return len(events)
}

// Current reports whether the view has seen all events of its kinds.
func (v *View) Current() bool {
	v.server.mu.RLock()
	changes := v.server.changes
	v.server.mu.RUnlock()
	if v.current == changes && changes > 0 {
		return true
	}
	for k := range v.kinds {
		if v.Behind(k.object) > 0 {
			return false
		}
	}
	v.current = changes
	return true
}

// Oldest is the version of the kind that is the farthest behind.
func (v *View) Oldest() uint64 {
	oldest := v.server.Version()
	for _, of := range v.kinds {
		if of.version < oldest && v.Behind(of.kind.object) > 0 {
			oldest = of.version
		}
	}
	return oldest
}

// Next takes in the next event of a kind; false: there is none. After an expiry
// everything is read anew by Relist.
func (v *View) Next(obj client.Object) (Step, bool, error) {
	of, err := v.of(obj)
	if err != nil {
		return Step{}, false, err
	}
	events, err := v.server.since(of.kind, of.version)
	if err != nil || len(events) == 0 {
		return Step{}, false, err
	}
	e := events[0]
	of.version = e.Version
	if e.New == nil {
		return of.forget(keyOf(e.Last)), true, nil
	}
	step, err := of.learn(e.New)
	return step, true, err
}

// Relist reads a kind anew, as after a watch that broke, and returns what is other than
// what the view had.
func (v *View) Relist(obj client.Object) ([]Step, error) {
	of, err := v.of(obj)
	if err != nil {
		return nil, err
	}
	objects, version, err := v.server.list(of.kind, Selection{})
	if err != nil {
		return nil, err
	}
	of.version = version
	gone := maps.Clone(of.objects)
	var steps []Step
	for _, obj := range objects {
		delete(gone, keyOf(obj))
		if had := of.objects[keyOf(obj)]; had != nil && had.GetResourceVersion() == obj.GetResourceVersion() {
			continue
		}
		step, err := of.learn(obj)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	left := slices.SortedFunc(maps.Values(gone), byKey)
	for _, obj := range left {
		steps = append(steps, of.forget(keyOf(obj)))
	}
	return steps, nil
}

func (o *viewOf) learn(obj client.Object) (Step, error) {
	if o.transform != nil {
		kept, err := o.transform(shallowCopy(obj))
		if err != nil {
			return Step{}, err
		}
		obj = kept.(client.Object)
	}
	key := keyOf(obj)
	step := Step{Old: o.objects[key], New: obj}
	o.unindex(key, step.Old)
	o.objects[key] = obj
	for _, i := range o.indexes {
		for _, value := range i.values(obj) {
			if i.objects[value] == nil {
				i.objects[value] = map[types.NamespacedName]client.Object{}
			}
			i.objects[value][key] = obj
		}
	}
	return step, nil
}

func (o *viewOf) forget(key types.NamespacedName) Step {
	step := Step{Old: o.objects[key]}
	o.unindex(key, step.Old)
	delete(o.objects, key)
	return step
}

func (o *viewOf) unindex(key types.NamespacedName, old client.Object) {
	if old == nil {
		return
	}
	for _, i := range o.indexes {
		for _, value := range i.values(old) {
			delete(i.objects[value], key)
			if len(i.objects[value]) == 0 {
				delete(i.objects, value)
			}
		}
	}
}

// Get implements client.Reader.
func (v *View) Get(_ context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	of, err := v.of(obj)
	if err != nil {
		return err
	}
	had := of.objects[key]
	if had == nil {
		return apierrors.NewNotFound(of.kind.groupResource(), key.Name)
	}
	var options client.GetOptions
	options.ApplyOptions(opts)
	if options.UnsafeDisableDeepCopy == nil || !*options.UnsafeDisableDeepCopy {
		had = deepCopy(had)
	}
	assign(obj, had)
	return nil
}

// List implements client.Reader. As in controller-runtime's caches a field is that of an
// index.
func (v *View) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var options client.ListOptions
	options.ApplyOptions(opts)
	k, err := v.server.kindOfList(list)
	if err != nil {
		return err
	}
	of := v.kinds[k]
	if of == nil {
		return fmt.Errorf("the view does not watch %T", list)
	}
	found := of.objects
	if options.FieldSelector != nil && !options.FieldSelector.Empty() {
		want := options.FieldSelector.Requirements()[0]
		i := of.indexes[want.Field]
		if i == nil {
			return fmt.Errorf("the view of %s has no index %s", k.gvk.Kind, want.Field)
		}
		found = i.objects[want.Value]
	}
	objects := make([]client.Object, 0, len(found))
	for _, obj := range found {
		if options.LabelSelector == nil || options.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
			objects = append(objects, obj)
		}
	}
	slices.SortFunc(objects, byKey)
	return fill(list, objects, options.UnsafeDisableDeepCopy == nil || !*options.UnsafeDisableDeepCopy)
}

// All returns the objects of a kind, in no order.
func All[T client.Object](v *View) []T {
	var none T
	of, err := v.of(none)
	if err != nil {
		return nil
	}
	all := make([]T, 0, len(of.objects))
	for _, obj := range of.objects {
		all = append(all, obj.(T))
	}
	return all
}

// cachedClient reads from a view and writes through a client.
type cachedClient struct {
	*Client
	view *View
}

// Cached returns a client that reads from the view and writes as c does.
func (c *Client) Cached(v *View) client.Client { return cachedClient{c, v} }

// Get implements client.Reader.
func (c cachedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.view.Get(ctx, key, obj, opts...)
}

// List implements client.Reader.
func (c cachedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.view.List(ctx, list, opts...)
}
