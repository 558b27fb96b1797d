package apiserver

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bookmarkEvery is how often a watch that asks for bookmarks gets one.
const bookmarkEvery = time.Minute

// Watch implements storage.Interface. The watch ends with the context, with Stop, or by
// Server.Disconnect.
func (r *registry) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	start, err := r.Versioner().ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{registry: r, key: key, opts: opts, version: start, events: make(chan watch.Event), stop: cancel, disconnected: r.server.disconnected()}
	if err := w.begin(); err != nil {
		cancel()
		return nil, err
	}
	go w.run(ctx)
	return w, nil
}

// begin finds what is told first: what comes later has a version of its own.
func (w *watcher) begin() (err error) {
	wanted := w.opts.SendInitialEvents
	if wanted == nil && w.version != 0 || wanted != nil && !*wanted {
		if w.version == 0 {
			w.version = w.server.Version()
		}
		return nil
	}
	if err := w.notNewer(w.opts.ResourceVersion); err != nil {
		return err
	}
	w.present, w.version, err = w.at(0)
	return err
}

// watcher tells of the changes of objects.
type watcher struct { //nolint:gocritic // what begins it stands before it
	*registry
	key     string
	opts    storage.ListOptions
	version uint64
	// present is what was there when the watch began, if that is to be told.
	present []client.Object
	events  chan watch.Event
	stop    context.CancelFunc
	// disconnected is closed when the server disconnects all watches.
	disconnected <-chan struct{}
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.stop() }

// errOver ends a watch without a word.
var errOver = errors.New("the watch is over")

func (w *watcher) run(ctx context.Context) {
	defer close(w.events)
	defer w.stop()
	err := w.tell(ctx)
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		object := status.Status()
		_ = w.send(ctx, watch.Error, &object) // then the watcher has gone
	}
}

func (w *watcher) tell(ctx context.Context) error {
	if err := w.tellPresent(ctx); err != nil {
		return err
	}
	var bookmarks <-chan time.Time
	if w.opts.Predicate.AllowWatchBookmarks {
		ticker := time.NewTicker(bookmarkEvery)
		defer ticker.Stop()
		bookmarks = ticker.C
	}
	for {
		changed := w.server.bell()
		events, err := w.server.since(w.kind, w.version)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := w.tellOf(ctx, e); err != nil {
				return err
			}
			w.version = e.Version
		}
		select {
		case <-ctx.Done():
			return errOver
		case <-w.disconnected:
			return errOver
		case <-changed:
		case <-bookmarks:
			if err := w.bookmark(ctx, w.server.Version(), nil); err != nil {
				return err
			}
		}
	}
}

// tellPresent tells of what is there, if the watch is to begin with that.
func (w *watcher) tellPresent(ctx context.Context) error {
	for _, stored := range w.present {
		if obj, err := w.selected(stored); err != nil {
			return err
		} else if obj != nil {
			if err := w.send(ctx, watch.Added, obj); err != nil {
				return err
			}
		}
	}
	if wanted := w.opts.SendInitialEvents; wanted != nil && *wanted && w.opts.Predicate.AllowWatchBookmarks {
		return w.bookmark(ctx, w.version, map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return nil
}

// selected returns the object if the watch is about it, else nil.
func (w *watcher) selected(stored client.Object) (runtime.Object, error) {
	if stored == nil {
		return nil, nil
	}
	key := w.registry.key(stored)
	if w.opts.Recursive && !strings.HasPrefix(key, strings.TrimSuffix(w.key, "/")+"/") || !w.opts.Recursive && key != w.key {
		return nil, nil
	}
	obj, err := w.outward(stored)
	if err != nil {
		return nil, err
	}
	if ok, err := w.opts.Predicate.Matches(obj); err != nil || !ok {
		return nil, err
	}
	return obj, nil
}

// tellOf tells of an event. An object that is not selected any more counts as deleted.
func (w *watcher) tellOf(ctx context.Context, e Event) error {
	old, err := w.selected(e.Old)
	if err != nil {
		return err
	}
	updated, err := w.selected(e.New)
	if err != nil {
		return err
	}
	switch {
	case updated != nil && old != nil:
		return w.send(ctx, watch.Modified, updated)
	case updated != nil:
		return w.send(ctx, watch.Added, updated)
	case old == nil:
		return nil
	}
	if e.Last != nil {
		if old, err = w.outward(e.Last); err != nil {
			return err
		}
	}
	if err := w.Versioner().UpdateObject(old, e.Version); err != nil {
		return err
	}
	return w.send(ctx, watch.Deleted, old)
}

func (w *watcher) bookmark(ctx context.Context, version uint64, annotations map[string]string) error {
	obj := w.empty()
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	accessor.SetAnnotations(annotations)
	if err := w.Versioner().UpdateObject(obj, version); err != nil {
		return err
	}
	return w.send(ctx, watch.Bookmark, obj)
}

func (w *watcher) send(ctx context.Context, eventType watch.EventType, obj runtime.Object) error {
	select {
	case w.events <- watch.Event{Type: eventType, Object: obj}:
		return nil
	case <-ctx.Done():
		return errOver
	case <-w.disconnected:
		return errOver
	}
}
