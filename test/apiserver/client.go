package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Request is one request of a Client.
type Request struct {
	// Verb as in RBAC: get, list, create, update, patch, delete; evict for an eviction.
	Verb string
	// Kind of the object, and what subresource of it, "" for none.
	Kind, Subresource string
	// Name of the object, "" for a list.
	Name string
}

// IsWrite reports whether the request may change something.
func (r Request) IsWrite() bool { return r.Verb != "get" && r.Verb != "list" }

// String is the request in words: "patch Remediation/status n1-abc".
func (r Request) String() string {
	text := r.Verb + " " + r.Kind
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	return text
}

// Gate carries a request to the server: serve executes it there and returns its answer.
// A Gate may wait before and after, not serve at all, or return an error in the place of
// the answer.
type Gate func(ctx context.Context, r Request, serve func() error) error

// Client is a client.Client that reads and writes typed objects without JSON, as one
// user. What it reads is the server's present state.
type Client struct {
	server *Server
	user   string
	gate   Gate
}

var _ client.Client = (*Client)(nil)

// Client returns a client for a user, whose requests pass the gate; nil: directly.
func (s *Server) Client(user string, gate Gate) *Client {
	if gate == nil {
		gate = func(_ context.Context, _ Request, serve func() error) error { return serve() }
	}
	return &Client{server: s, user: user, gate: gate}
}

// request passes a request through the gate, unless the caller's context has ended.
func (c *Client) request(ctx context.Context, r Request, serve func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.gate(ctx, r, serve)
}

// Get implements client.Reader.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	k, err := c.server.kindOf(obj)
	if err != nil {
		return err
	}
	return c.object(ctx, Request{Verb: "get", Kind: k.gvk.Kind, Name: key.Name}, obj, func() (client.Object, error) {
		return c.server.get(k, key)
	})
}

// object passes a request through the gate and gives obj the object that is its answer.
func (c *Client) object(ctx context.Context, r Request, obj client.Object, serve func() (client.Object, error)) error {
	var stored client.Object
	err := c.request(ctx, r, func() (err error) {
		stored, err = serve()
		return err
	})
	if err == nil { // not before: whoever gave up waiting may use the object
		assign(obj, deepCopy(stored))
	}
	return err
}

// List implements client.Reader.
func (c *Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	k, err := c.server.kindOfList(list)
	if err != nil {
		return err
	}
	var options client.ListOptions
	options.ApplyOptions(opts)
	var objects []client.Object
	var version uint64
	err = c.request(ctx, Request{Verb: "list", Kind: k.gvk.Kind}, func() (err error) {
		objects, version, err = c.server.list(k, selectionOf(&options))
		return err
	})
	if err != nil {
		return err
	}
	list.SetResourceVersion(fmt.Sprint(version))
	return fill(list, objects, true)
}

func selectionOf(o *client.ListOptions) Selection {
	return Selection{Namespace: o.Namespace, Labels: o.LabelSelector, Fields: o.FieldSelector}
}

// fill makes the objects, or copies of them, the items of a list.
func fill(list client.ObjectList, objects []client.Object, copied bool) error {
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	v := reflect.ValueOf(items).Elem()
	v.Set(reflect.MakeSlice(v.Type(), len(objects), len(objects)))
	for i, obj := range objects {
		if copied {
			obj = deepCopy(obj)
		}
		v.Index(i).Set(reflect.ValueOf(obj).Elem())
	}
	return nil
}

// Create implements client.Writer.
func (c *Client) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	var options client.CreateOptions
	options.ApplyOptions(opts)
	k, err := c.server.kindOf(obj)
	if err != nil {
		return err
	}
	sent := deepCopy(obj)
	return c.object(ctx, Request{Verb: "create", Kind: k.gvk.Kind, Name: obj.GetName()}, obj, func() (client.Object, error) {
		return c.server.create(k, c.user, sent, len(options.DryRun) > 0)
	})
}

// Delete implements client.Writer.
func (c *Client) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	k, err := c.server.kindOf(obj)
	if err != nil {
		return err
	}
	var options client.DeleteOptions
	options.ApplyOptions(opts)
	key := keyOf(obj)
	return c.request(ctx, Request{Verb: "delete", Kind: k.gvk.Kind, Name: obj.GetName()}, func() error {
		_, err := c.server.delete(k, c.user, key, *options.AsDeleteOptions())
		return err
	})
}

// Update implements client.Writer.
func (c *Client) Update(ctx context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return c.update(ctx, obj, main)
}

func (c *Client) update(ctx context.Context, obj client.Object, part subresource) error {
	sent := deepCopy(obj)
	return c.change(ctx, "update", obj, part, "", func(client.Object) (client.Object, error) { return sent, nil })
}

// change passes an update through the gate and gives obj what came of it.
func (c *Client) change(ctx context.Context, verb string, obj client.Object, part subresource, manager string,
	change func(present client.Object) (client.Object, error),
) error {
	k, err := c.server.kindOf(obj)
	if err != nil {
		return err
	}
	key := keyOf(obj)
	r := Request{Verb: verb, Kind: k.gvk.Kind, Subresource: string(part), Name: key.Name}
	return c.object(ctx, r, obj, func() (client.Object, error) {
		return c.server.update(k, c.user, key, part, func(present client.Object) (client.Object, error) {
			changed, err := change(present)
			if err == nil {
				manageCordon(present, changed, cmp.Or(manager, c.user))
			}
			return changed, err
		})
	})
}

// Patch implements client.Writer.
func (c *Client) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	var options client.PatchOptions
	options.ApplyOptions(opts)
	return c.patch(ctx, obj, patch, main, options.FieldManager)
}

func (c *Client) patch(ctx context.Context, obj client.Object, patch client.Patch, part subresource, manager string) error {
	// A patch under optimistic locking, made from the present version, gives what it was
	// made for. That spares the search most of its time.
	if from, ok := patch.(interface{ Base() client.Object }); ok {
		k, err := c.server.kindOf(obj)
		if err != nil {
			return err
		}
		version, sent := from.Base().GetResourceVersion(), deepCopy(obj)
		return c.change(ctx, "patch", obj, part, manager, func(present client.Object) (client.Object, error) {
			if version != present.GetResourceVersion() {
				return nil, k.conflict(present.GetName())
			}
			return sent, nil
		})
	}
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	return c.change(ctx, "patch", obj, part, manager, func(present client.Object) (client.Object, error) {
		return apply(present, patch.Type(), data)
	})
}

// apply returns what a patch makes of an object.
func apply(present client.Object, patchType types.PatchType, data []byte) (client.Object, error) {
	if node, isNode := present.(*corev1.Node); isNode && patchType == types.StrategicMergePatchType {
		if merged, ok := mergeConditions(node, data); ok {
			return sameUID(merged, present)
		}
	}
	before, err := json.Marshal(present)
	if err != nil {
		return nil, err
	}
	var after []byte
	switch patchType {
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, data)
	case types.StrategicMergePatchType:
		after, err = strategicpatch.StrategicMergePatch(before, data, present)
	case types.JSONPatchType:
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(data); err == nil {
			if after, err = patch.Apply(before); err != nil {
				return nil, apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "", err.Error(), 0, false)
			}
		}
	default:
		return nil, fmt.Errorf("the simulated API server applies no patch of type %s", patchType)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	changed := reflect.New(reflect.TypeOf(present).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(after, changed); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return sameUID(changed, present)
}

// sameUID refuses to change the UID of an object.
func sameUID(changed, present client.Object) (client.Object, error) {
	if changed.GetUID() != present.GetUID() {
		return nil, apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, present.GetName(), "metadata.uid: Invalid value: field is immutable", 0, false)
	}
	return changed, nil
}

// errNotServed is the error of what nobody needs.
var errNotServed = errors.New("the simulated API server does not serve this")

// Apply implements client.Writer.
func (c *Client) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errNotServed
}

// DeleteAllOf implements client.Writer.
func (c *Client) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errNotServed
}

// Status implements client.StatusClient.
func (c *Client) Status() client.SubResourceWriter { return statusWriter{c} }

// SubResource implements client.SubResourceClientConstructor.
func (c *Client) SubResource(string) client.SubResourceClient { return nil }

// Scheme implements client.Client.
func (c *Client) Scheme() *runtime.Scheme { return c.server.scheme }

// RESTMapper implements client.Client.
func (c *Client) RESTMapper() meta.RESTMapper { return nil }

// GroupVersionKindFor implements client.Client.
func (c *Client) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(obj, c.server.scheme)
}

// IsObjectNamespaced implements client.Client.
func (c *Client) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	k, err := c.server.kindOf(obj)
	return err == nil && k.namespaced, err
}

// statusWriter writes the status subresource.
type statusWriter struct{ client *Client }

// Create implements client.SubResourceWriter.
func (w statusWriter) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errNotServed
}

// Update implements client.SubResourceWriter.
func (w statusWriter) Update(ctx context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	return w.client.update(ctx, obj, status)
}

// Patch implements client.SubResourceWriter.
func (w statusWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return w.client.patch(ctx, obj, patch, status, "")
}

// Apply implements client.SubResourceWriter.
func (w statusWriter) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errNotServed
}

// Evict tells a pod to end unless a PodDisruptionBudget keeps it, as a request to its
// eviction subresource does.
func (c *Client) Evict(ctx context.Context, key client.ObjectKey, options *metav1.DeleteOptions) error {
	return c.request(ctx, Request{Verb: "evict", Kind: "Pod", Name: key.Name}, func() error {
		return c.server.evict(c.user, key, options)
	})
}
