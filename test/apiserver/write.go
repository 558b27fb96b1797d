package apiserver

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var noKind schema.GroupVersionKind

// create stores a new object, which is the server's from then on, and returns it as
// stored. A dry run stores nothing.
func (s *Server) create(k *kind, by string, obj client.Object, dryRun bool) (client.Object, error) {
	stored, err := s.createLocked(k, obj, dryRun)
	if err == nil && !dryRun {
		s.tell(by, nil, stored)
	}
	return stored, err
}

func (s *Server) createLocked(k *kind, stored client.Object, dryRun bool) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	normalize(stored)
	if stored.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	if stored.GetName() == "" && stored.GetGenerateName() != "" {
		stored.SetName(fmt.Sprintf("%s%05x", stored.GetGenerateName(), s.uids+1))
	}
	if k.status && k.rules != nil {
		k.copyStatus(stored, k.object)
	}
	stored.SetDeletionTimestamp(nil)
	stored.SetDeletionGracePeriodSeconds(nil)
	stored.SetGeneration(0)
	if k.sameSpec != nil {
		stored.SetGeneration(1)
	}
	if !k.namespaced {
		stored.SetNamespace("")
	}
	if k.rules != nil && (k.byPeople || !s.options.Trusting) {
		if err := k.decode(stored); err != nil {
			return nil, err
		}
		if err := k.validate(stored, nil, false); err != nil {
			return nil, err
		}
	}
	if _, exists := k.objects[keyOf(stored)]; exists {
		return nil, apierrors.NewAlreadyExists(k.groupResource(), stored.GetName())
	}
	if dryRun {
		return stored, nil
	}
	stored.SetUID(s.newUID())
	stored.SetCreationTimestamp(metav1.NewTime(s.now()))
	s.put(k, nil, stored)
	return stored, nil
}

// put stores an object under a new version. The mutex is held.
func (s *Server) put(k *kind, old, stored client.Object) {
	version := s.nextVersion()
	stored.SetResourceVersion(strconv.FormatUint(version, 10))
	k.objects[keyOf(stored)] = stored
	k.record(Event{Version: version, Old: old, New: stored})
	s.ring()
}

// remove removes an object. The mutex is held.
func (s *Server) remove(k *kind, old client.Object) { s.removeAs(k, old, shallowCopy(old)) }

// removeAs removes an object of which last, a copy, is told. The mutex is held.
func (s *Server) removeAs(k *kind, old, last client.Object) {
	version := s.nextVersion()
	last.SetResourceVersion(strconv.FormatUint(version, 10))
	delete(k.objects, keyOf(old))
	k.record(Event{Version: version, Old: old, Last: last})
	s.ring()
}

// replace stores an object in the place of old, nil for none. It reports whether that was
// the present one: otherwise nothing is stored.
func (s *Server) replace(k *kind, by string, old, stored client.Object) bool {
	if !s.ifPresent(k, old, stored, func() { s.put(k, old, stored) }) {
		return false
	}
	s.tell(by, old, stored)
	return true
}

// discard removes old, of which last is told. It reports whether old was the present one:
// otherwise nothing is removed.
func (s *Server) discard(k *kind, by string, old, last client.Object) bool {
	if !s.ifPresent(k, old, old, func() { s.removeAs(k, old, last) }) {
		return false
	}
	s.tell(by, old, nil)
	return true
}

// ifPresent does something under the mutex if old is the present object of the name.
func (s *Server) ifPresent(k *kind, old, named client.Object, do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.objects[keyOf(named)] != old {
		return false
	}
	do()
	return true
}

// subresource is the part of an object that an update is about.
type subresource string

const (
	main   subresource = ""
	status subresource = "status"
)

// update replaces an object by what change makes of the present one, which it must not
// change; what it returns is the server's. It returns the object as stored. A resourceVersion that is not the present one is a
// conflict.
func (s *Server) update(k *kind, by string, key types.NamespacedName, part subresource,
	change func(present client.Object) (client.Object, error),
) (client.Object, error) {
	old, stored, gone, err := s.updateLocked(k, key, part, change)
	switch {
	case err != nil || old == stored:
	case gone:
		s.tell(by, old, nil)
	default:
		s.tell(by, old, stored)
	}
	return stored, err
}

func (s *Server) updateLocked(k *kind, key types.NamespacedName, part subresource,
	change func(client.Object) (client.Object, error),
) (old, stored client.Object, gone bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, err = k.get(key); err != nil {
		return nil, nil, false, err
	}
	changed, err := change(old)
	if err != nil {
		return nil, nil, false, err
	}
	if version := changed.GetResourceVersion(); version != "" && version != old.GetResourceVersion() {
		return nil, nil, false, k.conflict(key.Name)
	}
	normalize(changed)
	stored = k.prepare(old, changed, part)
	if equal(old, stored) {
		return old, old, false, nil
	}
	if err := s.accept(k, part, old, stored); err != nil {
		return nil, nil, false, err
	}
	if stored.GetDeletionTimestamp() != nil && len(stored.GetFinalizers()) == 0 && len(old.GetFinalizers()) > 0 {
		s.remove(k, stored)
		return old, stored, true, nil
	}
	s.put(k, old, stored)
	return old, stored, false, nil
}

// accept applies the rules of the kind to an update.
func (s *Server) accept(k *kind, part subresource, old, stored client.Object) error {
	if k.rules == nil || s.options.Trusting && k.trusted(part, old, stored) {
		return nil
	}
	if s.options.Trusting && (part == status || !k.byPeople) {
		return k.validate(stored, old, true)
	}
	if part == main {
		if err := k.decode(stored); err != nil {
			return err
		}
	}
	return k.validate(stored, old, false)
}

// trusted reports whether a Trusting server applies no rules to an update.
func (k *kind) trusted(part subresource, old, stored client.Object) bool {
	if part == status {
		return !k.capped || plain(old, stored)
	}
	// No rule knows more of the metadata than the name.
	return !k.byPeople && !k.capped || stored.GetGeneration() == old.GetGeneration()
}

// prepare returns the object that an update of a part of old makes, without its version.
// It may have parts of both.
func (k *kind) prepare(old, changed client.Object, part subresource) client.Object {
	switch {
	case part == status:
		stored := shallowCopy(old)
		k.copyStatus(stored, changed)
		if k.rules == nil { // the kinds of Kubernetes take metadata along
			stored.SetLabels(changed.GetLabels())
			stored.SetAnnotations(changed.GetAnnotations())
		}
		return stored
	case k.status:
		k.copyStatus(changed, old)
	}
	stored := changed
	stored.SetUID(old.GetUID())
	stored.SetResourceVersion(old.GetResourceVersion())
	stored.SetCreationTimestamp(old.GetCreationTimestamp())
	stored.SetDeletionTimestamp(old.GetDeletionTimestamp())
	stored.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	stored.SetGeneration(old.GetGeneration())
	if stored.GetManagedFields() == nil {
		stored.SetManagedFields(old.GetManagedFields())
	}
	if k.sameSpec != nil && !k.sameSpec(old, stored) {
		stored.SetGeneration(old.GetGeneration() + 1)
	}
	return stored
}

func (k *kind) conflict(name string) error {
	return apierrors.NewConflict(k.groupResource(), name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

// delete begins to delete an object, or removes it if nothing keeps it. It returns the
// object as it is then.
func (s *Server) delete(k *kind, by string, key types.NamespacedName, options metav1.DeleteOptions) (client.Object, error) {
	old, stored, gone, err := s.deleteLocked(k, key, options)
	switch {
	case err != nil || old == stored && !gone:
	case gone:
		s.tell(by, old, nil)
	default:
		s.tell(by, old, stored)
	}
	return stored, err
}

func (s *Server) deleteLocked(k *kind, key types.NamespacedName, options metav1.DeleteOptions) (old, stored client.Object, gone bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, err = k.get(key); err != nil {
		return nil, nil, false, err
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.GetUID() {
			return nil, nil, false, apierrors.NewConflict(k.groupResource(), key.Name,
				fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, old.GetUID())) //nolint:staticcheck // as the API server says it
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return nil, nil, false, apierrors.NewConflict(k.groupResource(), key.Name,
				fmt.Errorf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *p.ResourceVersion, old.GetResourceVersion())) //nolint:staticcheck // as the API server says it
		}
	}
	grace := k.grace(old, options)
	if len(old.GetFinalizers()) == 0 && grace == 0 {
		s.remove(k, old)
		return old, old, true, nil
	}
	if at := old.GetDeletionTimestamp(); at != nil && (grace == 0 || old.GetDeletionGracePeriodSeconds() != nil && *old.GetDeletionGracePeriodSeconds() <= grace) {
		return old, old, false, nil
	}
	stored = shallowCopy(old)
	stored.SetDeletionTimestamp(&metav1.Time{Time: s.now().Add(time.Duration(grace) * time.Second)})
	stored.SetDeletionGracePeriodSeconds(&grace)
	if k.sameSpec != nil {
		stored.SetGeneration(old.GetGeneration() + 1)
	}
	s.put(k, old, stored)
	return old, stored, false, nil
}

// grace is how many seconds an object has to end: only pods have any.
func (k *kind) grace(obj client.Object, options metav1.DeleteOptions) int64 {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return 0
	}
	switch {
	case options.GracePeriodSeconds != nil:
		return *options.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return *pod.Spec.TerminationGracePeriodSeconds
	default:
		return corev1.DefaultTerminationGracePeriodSeconds
	}
}

// decode fills in the defaults.
func (k *kind) decode(obj client.Object) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	k.rules.Default(object)
	decoded := k.object.DeepCopyObject().(client.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, decoded); err != nil {
		return err
	}
	assign(obj, decoded)
	obj.GetObjectKind().SetGroupVersionKind(noKind)
	return nil
}

// validate applies the rules of the kind, or only those in CEL.
func (k *kind) validate(obj, old client.Object, celOnly bool) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	var before map[string]any
	if old != nil {
		if before, err = runtime.DefaultUnstructuredConverter.ToUnstructured(old); err != nil {
			return err
		}
	}
	var errs field.ErrorList
	if celOnly {
		errs = k.rules.ValidateCEL(background, object, before)
	} else {
		errs, _ = k.rules.Validate(background, object, before)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(k.gvk.GroupKind(), obj.GetName(), errs)
	}
	return nil
}
