package apiserver

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// someNode has one of a few values in a field of each sort that there is.
func someNode(random *rand.Rand) client.Object {
	at := time.Unix(1700000000+int64(random.IntN(2)), 0)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:                       "n",
		Labels:                     one(random, nil, map[string]string{}, map[string]string{"a": "b"}, map[string]string{"a": "c"}, map[string]string{"b": "b"}),
		DeletionGracePeriodSeconds: maybe(random, int64(random.IntN(2))),
		Finalizers:                 one(random, nil, []string{}, []string{"x"}, []string{"y"}),
		CreationTimestamp:          metav1.NewTime(one(random, at, at.UTC())),
		ManagedFields:              []metav1.ManagedFieldsEntry{{FieldsV1: one(random, nil, &metav1.FieldsV1{}, metav1.NewFieldsV1("{}"))}},
	}}
	n.Spec.Unschedulable = random.IntN(2) == 0
	n.Status.Allocatable = corev1.ResourceList{"cpu": one(random, resource.MustParse("1"), resource.MustParse("1000m"), resource.MustParse("2"))}
	n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", LastTransitionTime: metav1.NewTime(at)}}
	n.Status.Config = one(random, nil, &corev1.NodeConfigStatus{}, &corev1.NodeConfigStatus{Error: "no"})
	return n
}

func TestEqualIsTheSemanticEqualityOfTheAPIServer(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	same := 0
	for range 3000 {
		a, b := someNode(random), someNode(random)
		if random.IntN(2) == 0 {
			b = a.DeepCopyObject().(client.Object)
			b.SetFinalizers(one(random, a.GetFinalizers(), nil, []string{"y"}))
			b.SetDeletionGracePeriodSeconds(one(random, a.GetDeletionGracePeriodSeconds(), ptr.To[int64](1)))
		}
		want := equality.Semantic.DeepEqual(a, b)
		if got := equal(a, b); got != want {
			t.Fatalf("%v and %v: %t, want %t", a, b, got, want)
		}
		if want {
			same++
		}
	}
	if same == 0 {
		t.Error("none were equal")
	}
}
