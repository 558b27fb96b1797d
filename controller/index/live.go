package index

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Live returns a client without a cache that finds by the same indexes. What the API
// server does not select by is listed whole: for one look, not for a loop.
func Live(ctx context.Context, c client.Client) (client.Client, error) {
	l := live{Client: c, values: values{}}
	return l, Register(ctx, l.values)
}

type live struct {
	client.Client
	values values
}

// values has the functions of the indexes, by the name of the index.
type values map[string]client.IndexerFunc

// IndexField remembers the function.
func (v values) IndexField(_ context.Context, _ client.Object, index string, value client.IndexerFunc) error {
	v[index] = value
	return nil
}

// List lists what an index finds.
func (l live) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(opts)
	if asked.FieldSelector == nil || asked.FieldSelector.Empty() {
		return l.Client.List(ctx, list, opts...)
	}
	want := asked.FieldSelector.Requirements()[0]
	value, known := l.values[want.Field]
	if !known || want.Field == ByNode { // all kinds that are indexed by it can be selected by it
		return l.Client.List(ctx, list, opts...)
	}
	asked.FieldSelector = fields.Everything()
	if err := l.Client.List(ctx, list, &asked); err != nil {
		return err
	}
	var found []runtime.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("listing by index %s: a %T is no object", want.Field, item)
		}
		for _, v := range value(obj) {
			if v == want.Value {
				found = append(found, item)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return meta.SetList(list, found)
}
