package apiserver_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/apiserver"
)

// seam is a client of a server of its own.
type seam struct {
	client.Client
	// read is what was read or written last, by kind and name.
	read map[string]client.Object
	// news tells whether the last answer had another version than that before.
	news bool
}

// remembered returns what was read last, or a new object.
func (s *seam) remembered(obj client.Object) client.Object {
	if had := s.read[keyOf(obj)]; had != nil {
		return had.DeepCopyObject().(client.Object)
	}
	return obj.DeepCopyObject().(client.Object)
}

func keyOf(obj client.Object) string { return fmt.Sprintf("%T %s", obj, obj.GetName()) }

// operation is what is done to both seams alike. It returns the object as answered, nil
// for none.
type operation struct {
	name string
	do   func(t *testing.T, s *seam) (client.Object, error)
}

// TestBothSeamsAnswerAlike makes the same random requests of a typed client and through
// HTTP, each to a server of its own.
func TestBothSeamsAnswerAlike(t *testing.T) {
	definitions, err := apiserver.Define(deploy.CRDs)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			typed, http := newSeams(t, definitions)
			random := rand.New(rand.NewPCG(seed, 0))
			for i := range 100 {
				op := choose(random)
				a, errA := op.do(t, typed)
				b, errB := op.do(t, http)
				if typed.news != http.news {
					t.Fatalf("request %d, %s: a new version: typed: %t; HTTP: %t", i, op.name, typed.news, http.news)
				}
				if reasonOf(errA) != reasonOf(errB) {
					t.Fatalf("request %d, %s: typed: %v; HTTP: %v", i, op.name, errA, errB)
				}
				if diff := cmp.Diff(strip(a), strip(b)); diff != "" && errA == nil {
					t.Fatalf("request %d, %s (-typed +HTTP):\n%s", i, op.name, diff)
				}
			}
		})
	}
}

func newSeams(t *testing.T, definitions *apiserver.Definitions) (typed, http *seam) {
	t.Helper()
	newServer := func() *apiserver.Server {
		s, err := apiserver.New(apiserver.Options{Definitions: definitions, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	scheme, err := apiserver.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(&rest.Config{Host: "http://simulated", QPS: -1, Transport: newServer().Transport(userNamed(""))}, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &seam{Client: newServer().Client("admin", nil), read: map[string]client.Object{}}, &seam{Client: c, read: map[string]client.Object{}}
}

// reasonOf an error is what a program decides by.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	return string(apierrors.ReasonForError(err))
}

// strip removes what each server chooses, and what a typed client does not have.
func strip(obj client.Object) client.Object {
	if obj == nil {
		return nil
	}
	obj = obj.DeepCopyObject().(client.Object)
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetManagedFields(nil)
	obj.SetCreationTimestamp(metav1.Time{})
	if obj.GetDeletionTimestamp() != nil {
		obj.SetDeletionTimestamp(&metav1.Time{})
	}
	obj.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(""))
	return obj
}

// prototypes are objects as they are created.
func prototypes(name string) []client.Object {
	meta := metav1.ObjectMeta{Name: name}
	return []client.Object{
		&corev1.Node{ObjectMeta: meta},
		&v1alpha1.RemediationBudget{ObjectMeta: meta, Spec: v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromInt32(1))}},
		&v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"nodemend.dev/x"}}, Spec: v1alpha1.NodeMaintenanceSpec{NodeName: name, Reason: "DIMM"}},
		&v1alpha1.NodeMaintenance{ObjectMeta: meta, Spec: v1alpha1.NodeMaintenanceSpec{Reason: "invalid"}},
	}
}

func choose(random *rand.Rand) operation {
	all := prototypes(string(rune('a' + random.IntN(3))))
	of := all[random.IntN(len(all))]
	fresh, value := random.IntN(3) > 0, fmt.Sprint(random.IntN(3))
	operations := []operation{
		{"create", func(t *testing.T, s *seam) (client.Object, error) {
			obj := of.DeepCopyObject().(client.Object)
			return s.keep(obj, s.Create(t.Context(), obj))
		}},
		{"get", func(t *testing.T, s *seam) (client.Object, error) {
			obj := reflect.New(reflect.TypeOf(of).Elem()).Interface().(client.Object)
			return s.keep(obj, s.Get(t.Context(), client.ObjectKeyFromObject(of), obj))
		}},
		{"update", func(t *testing.T, s *seam) (client.Object, error) {
			obj := s.changed(t, of, fresh, value)
			return s.keep(obj, s.Update(t.Context(), obj))
		}},
		{"update the status", func(t *testing.T, s *seam) (client.Object, error) {
			obj := s.changed(t, of, fresh, value)
			return s.keep(obj, s.Status().Update(t.Context(), obj))
		}},
		{"patch", func(t *testing.T, s *seam) (client.Object, error) {
			obj := s.remembered(of)
			return s.keep(obj, s.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"`+value+`"}}}`))))
		}},
		{"patch by what was read", func(t *testing.T, s *seam) (client.Object, error) {
			obj := s.changed(t, of, fresh, value)
			patch := client.MergeFromWithOptions(s.remembered(of), client.MergeFromWithOptimisticLock{})
			return s.keep(obj, s.Patch(t.Context(), obj, patch))
		}},
		{"patch the status by what was read", func(t *testing.T, s *seam) (client.Object, error) {
			obj := s.changed(t, of, fresh, value)
			patch := client.MergeFrom(s.remembered(of))
			return s.keep(obj, s.Status().Patch(t.Context(), obj, patch))
		}},
		{"remove the finalizers", func(t *testing.T, s *seam) (client.Object, error) {
			obj := s.remembered(of)
			return s.keep(obj, s.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		}},
		{"delete", func(t *testing.T, s *seam) (client.Object, error) {
			obj := s.remembered(of)
			if fresh {
				return nil, s.Delete(t.Context(), obj)
			}
			return nil, s.Delete(t.Context(), obj, client.Preconditions{UID: ptr.To(obj.GetUID()), ResourceVersion: ptr.To(obj.GetResourceVersion())})
		}},
	}
	op := operations[random.IntN(len(operations))]
	op.name += " " + keyOf(of)
	return op
}

// keep remembers an answer.
func (s *seam) keep(obj client.Object, err error) (client.Object, error) {
	if err == nil {
		had := s.read[keyOf(obj)]
		s.news = had == nil || had.GetResourceVersion() != obj.GetResourceVersion()
		s.read[keyOf(obj)] = obj.DeepCopyObject().(client.Object)
	}
	return obj, err
}

// changed returns the object with changes, as it is or as it was read last.
func (s *seam) changed(t *testing.T, of client.Object, fresh bool, value string) client.Object {
	t.Helper()
	if fresh {
		obj := reflect.New(reflect.TypeOf(of).Elem()).Interface().(client.Object)
		_, _ = s.keep(obj, s.Get(t.Context(), client.ObjectKeyFromObject(of), obj)) // if there is none, the change tells
	}
	obj := s.remembered(of)
	obj.SetAnnotations(map[string]string{"value": value})
	switch obj := obj.(type) {
	case *corev1.Node:
		obj.Spec.Unschedulable = value == "1"
		obj.Status.Conditions = []corev1.NodeCondition{{Type: "Sick", Status: corev1.ConditionStatus(value)}}
	case *v1alpha1.RemediationBudget:
		obj.Spec.PauseReason = value
		permits := map[string]v1alpha1.Permit{}
		for i := range len(value) + int(value[0]-'1'+1)/2 {
			permits[fmt.Sprint("node-", i)] = v1alpha1.Permit{Remediation: "r" + value}
		}
		obj.Status.Groups = map[string]v1alpha1.BudgetGroup{"-": {Permits: permits}}
	case *v1alpha1.NodeMaintenance:
		obj.Spec.Reason = value
		obj.Status.Conditions = []metav1.Condition{{Type: "Cordoned", Status: metav1.ConditionTrue, Reason: "R" + value, LastTransitionTime: metav1.Unix(1e9, 0)}}
	}
	return obj
}
