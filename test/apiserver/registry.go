package apiserver

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// registry is a kind's part of the store as the API server's own registry wants its etcd.
// All that is above etcd in a real API server is the same code here.
type registry struct {
	server *Server
	kind   *kind
	// prefix of the kind's keys.
	prefix string
	empty  func() runtime.Object
}

var _ storage.Interface = (*registry)(nil)

// Versioner implements storage.Interface.
func (r *registry) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

// name of the object of a key.
func (r *registry) name(key string) types.NamespacedName {
	name := strings.TrimPrefix(strings.TrimPrefix(key, r.prefix), "/")
	if namespace, rest, ok := strings.Cut(name, "/"); ok && r.kind.namespaced {
		return types.NamespacedName{Namespace: namespace, Name: rest}
	}
	return types.NamespacedName{Name: name}
}

// key of an object, as etcd has it.
func (r *registry) key(obj client.Object) string {
	if r.kind.namespaced {
		return r.prefix + "/" + obj.GetNamespace() + "/" + obj.GetName()
	}
	return r.prefix + "/" + obj.GetName()
}

// present returns the stored object of a key, nil if there is none.
func (r *registry) present(key string) client.Object {
	obj, err := r.server.get(r.kind, r.name(key))
	if err != nil {
		return nil
	}
	return obj
}

func by(ctx context.Context) string {
	if user, ok := request.UserFrom(ctx); ok {
		return user.GetName()
	}
	return ""
}

// Create implements storage.Interface.
func (r *registry) Create(ctx context.Context, key string, obj, out runtime.Object, _ uint64) error {
	if version, err := r.Versioner().ObjectResourceVersion(obj); err == nil && version != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	obj = obj.DeepCopyObject()
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	accessor.SetUID(r.server.nextUID())
	accessor.SetCreationTimestamp(metav1.NewTime(r.server.now()))
	stored, err := r.inward(obj)
	if err != nil {
		return err
	}
	if !r.server.replace(r.kind, by(ctx), nil, stored) {
		return storage.NewKeyExistsError(key, 0)
	}
	return r.give(stored, out)
}

// give makes out what is stored.
func (r *registry) give(stored client.Object, out runtime.Object) error {
	if out == nil {
		return nil
	}
	obj, err := r.outward(stored)
	if err == nil {
		reflect.ValueOf(out).Elem().Set(reflect.ValueOf(obj).Elem())
	}
	return err
}

// Get implements storage.Interface.
func (r *registry) Get(_ context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	if err := r.notNewer(opts.ResourceVersion); err != nil {
		return err
	}
	switch stored := r.present(key); {
	case stored != nil:
		return r.give(stored, out)
	case opts.IgnoreNotFound:
		return runtime.SetZeroValue(out)
	default:
		return storage.NewKeyNotFoundError(key, 0)
	}
}

// notNewer refuses a version that there is not yet.
func (r *registry) notNewer(version string) error {
	want, err := r.Versioner().ParseResourceVersion(version)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if present := r.server.Version(); want > present {
		return storage.NewTooLargeResourceVersionError(want, present, 1)
	}
	return nil
}

// Delete implements storage.Interface.
func (r *registry) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions,
) error {
	for {
		stored := r.present(key)
		if stored == nil {
			return storage.NewKeyNotFoundError(key, 0)
		}
		obj, err := r.outward(stored)
		if err != nil {
			return err
		}
		if preconditions != nil {
			if err := preconditions.Check(key, obj); err != nil {
				return err
			}
		}
		if err := validate(ctx, obj); err != nil {
			return err
		}
		last := r.last(stored)
		if r.server.discard(r.kind, by(ctx), stored, last) {
			return r.give(last, out)
		}
	}
}

// GuaranteedUpdate implements storage.Interface.
func (r *registry) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, _ runtime.Object,
) error {
	for {
		stored := r.present(key)
		if stored == nil && !ignoreNotFound {
			return storage.NewKeyNotFoundError(key, 0)
		}
		present, version := r.empty(), uint64(0)
		if stored != nil {
			var err error
			if present, err = r.outward(stored); err != nil {
				return err
			}
			version = versionOf(stored)
		}
		if err := preconditions.Check(key, present); err != nil {
			return err
		}
		changed, _, err := update(present, storage.ResponseMeta{ResourceVersion: version})
		if err != nil {
			return err
		}
		done, err := r.write(ctx, stored, changed, out)
		if done || err != nil {
			return err
		}
	}
}

// write stores an object in the place of another. It is not done if somebody else has
// written meanwhile.
func (r *registry) write(ctx context.Context, stored client.Object, changed, out runtime.Object) (done bool, err error) {
	changed = changed.DeepCopyObject()
	accessor, err := meta.Accessor(changed)
	if err != nil {
		return false, err
	}
	accessor.SetResourceVersion("")
	if stored == nil {
		accessor.SetUID(r.server.nextUID())
		accessor.SetCreationTimestamp(metav1.NewTime(r.server.now()))
	} else if accessor.GetDeletionTimestamp() != nil && stored.GetDeletionTimestamp() == nil {
		grace := time.Duration(0)
		if seconds := accessor.GetDeletionGracePeriodSeconds(); seconds != nil {
			grace = time.Duration(*seconds) * time.Second
		}
		at := metav1.NewTime(r.server.now().Add(grace))
		accessor.SetDeletionTimestamp(&at)
	}
	updated, err := r.inward(changed)
	if err != nil {
		return false, err
	}
	if stored != nil && r.same(stored, updated) {
		r.forget(updated)
		return true, r.give(stored, out)
	}
	if !r.server.replace(r.kind, by(ctx), stored, updated) {
		r.forget(updated)
		return false, nil
	}
	return true, r.give(updated, out)
}

// Stats implements storage.Interface.
func (r *registry) Stats(context.Context) (storage.Stats, error) { return storage.Stats{}, nil }

// ReadinessCheck implements storage.Interface.
func (r *registry) ReadinessCheck() error { return nil }

// RequestWatchProgress implements storage.Interface.
func (r *registry) RequestWatchProgress(context.Context) error { return nil }

// GetCurrentResourceVersion implements storage.Interface.
func (r *registry) GetCurrentResourceVersion(context.Context) (uint64, error) {
	return r.server.Version(), nil
}

// EnableResourceSizeEstimation implements storage.Interface.
func (r *registry) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// CompactRevision implements storage.Interface.
func (r *registry) CompactRevision() int64 { return 0 }
