package driven

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// aMachine is m17 of node w17.
func aMachine(conditions ...any) *unstructured.Unstructured {
	m := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"nodeRef": map[string]any{"name": "w17"}, "conditions": conditions,
	}}}
	m.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"})
	m.SetNamespace("fleet")
	m.SetName("m17")
	m.SetUID("machine-uid")
	return m
}

// ofMachine makes the request that of a MachineHealthCheck.
func ofMachine(l *look) {
	l.asked.Namespace, l.asked.Name = "fleet", "m17"
	l.asked.OwnerReferences = []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m17", UID: "machine-uid"}}
}

func condition(kind, status string) any { return map[string]any{"type": kind, "status": status} }

func reconciler(t *testing.T, broken func() error, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, o ...client.SubResourcePatchOption) error {
				if err := broken(); err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, obj, patch, o...)
			},
		}).Build()
	return &Reconciler{Client: c, Live: c, Clock: clocktesting.NewFakePassiveClock(now)}
}

// The condition makes the owner of the Machine replace it, so nobody else's Machine gets it, nor one twice.
func TestTheOwnerOfAMachineIsToldOnceAllWasInVain(t *testing.T) {
	fine := func() error { return nil }
	anew := aMachine()
	anew.SetUID("another-uid")
	for name, tt := range map[string]struct {
		machine *unstructured.Unstructured // nil: it is in another cluster
		broken  func() error
		want    string // the reason of the condition
		failure string // a part of it
	}{
		"it has no such condition": {machine: aMachine(condition("Ready", "True")), broken: fine, want: "WaitingForRemediation"},
		"it is to be fine":         {machine: aMachine(condition("OwnerRemediated", "True")), broken: fine, want: "WaitingForRemediation"},
		"its owner acts already":   {machine: aMachine(condition("OwnerRemediated", "False")), broken: fine, want: "<nil>"},
		"it was created anew":      {machine: anew, broken: fine, want: "none"},
		"it is in another cluster": {broken: fine},
		"the right to tell it is not there": {
			machine: aMachine(), want: "none", failure: "set controller.drivenBy of the chart",
			broken: func() error { return apierrors.NewForbidden(schema.GroupResource{}, "m17", errors.New("no")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if tt.machine != nil {
				objects = append(objects, tt.machine)
			}
			r := reconciler(t, tt.broken, objects...)
			l := aRequest(ofMachine)
			err := r.tellOwner(t.Context(), l.asked)
			if (err != nil) != (tt.failure != "") || err != nil && !strings.Contains(err.Error(), tt.failure) {
				t.Fatalf("got %v, want %q", err, tt.failure)
			}
			if tt.machine == nil {
				return
			}
			told := aMachine()
			if err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(told), told); err != nil {
				t.Fatal(err)
			}
			if got := reasonOf(told); got != tt.want {
				t.Errorf("the reason of OwnerRemediated is %s, want %s", got, tt.want)
			}
		})
	}
}

func reasonOf(machine *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(machine.Object, "status", "conditions")
	for _, item := range list {
		if c, _ := item.(map[string]any); c["type"] == ownerRemediated {
			if reason, is := c["reason"].(string); is {
				return reason
			}
			return "<nil>"
		}
	}
	return "none"
}

func TestTheNodeOfAMachine(t *testing.T) {
	without := aMachine()
	unstructured.RemoveNestedField(without.Object, "status", "nodeRef")
	for name, tt := range map[string]struct {
		machine      *unstructured.Unstructured
		uid          types.UID
		node, reason string
	}{
		"its nodeRef says it": {aMachine(), "machine-uid", "w17", ""},
		"it has no node":      {without, "machine-uid", "", "NodeNotFound"},
		"it was created anew": {aMachine(), "another-uid", "", "NodeNotFound"},
	} {
		if node, unclear := nodeOfMachine(tt.machine, tt.uid); node != tt.node || unclear.reason != tt.reason {
			t.Errorf("%s: %q, %v", name, node, unclear)
		}
	}
}

// A management cluster has the Machines of other clusters, whose nodes may be named as its own.
func TestANodeOfAnotherClusterIsNotTakenForThatOfTheMachine(t *testing.T) {
	marked := func(l *look) {
		l.node.Annotations = map[string]string{"cluster.x-k8s.io/machine": "m17", "cluster.x-k8s.io/cluster-namespace": "fleet"}
	}
	for name, tt := range map[string]struct {
		l       look
		unclear bool
	}{
		"it is marked as that of the Machine":      {aRequest(ofMachine, marked), false},
		"it is not":                                {aRequest(ofMachine), true},
		"it is marked as that of another Machine":  {aRequest(ofMachine, marked, func(l *look) { l.node.Annotations["cluster.x-k8s.io/machine"] = "m18" }), true},
		"no Machine is named":                      {aRequest(), false},
		"its driver has named the node by its own": {aRequest(ofMachine, func(l *look) { l.asked.Annotations = map[string]string{nodeNameAnnotation: "w17"} }), false},
	} {
		if got := tt.l.ofThisCluster(); (got.reason != "") != tt.unclear {
			t.Errorf("%s: %v", name, got)
		}
	}
}
