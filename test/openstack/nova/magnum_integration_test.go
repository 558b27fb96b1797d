//go:build integration

package nova

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/machines"
	played "github.com/nodemend/nodemend/test/openstack"
)

func TestARealMagnumTakesWhatItIsAsked(t *testing.T) {
	const one, master = "4c4c4544-0032-3810-8052-b4c04f4a0001", "4c4c4544-0032-3810-8052-b4c04f4a0009"
	cluster := &played.Cluster{UUID: "2c4c4544-0032-3810-8052-b4c04f4a0000", Groups: []*played.Group{
		{UUID: "3c4c4544-0032-3810-8052-b4c04f4a0001", Name: "default-master", Role: "master", Count: 1, Addresses: []string{"10.0.0.9"}},
		{UUID: "3c4c4544-0032-3810-8052-b4c04f4a0002", Name: "default-worker", Role: "worker", Count: 3, Addresses: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}},
	}}
	magnum := StartMagnum(t, cluster)
	cloud := played.Start(t, played.Active(one, "w1", "10.0.0.1"), played.Active(master, "m1", "10.0.0.9"))
	cloud.Container = magnum.URL()
	node := func(name, id, address string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "openstack:///" + id},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
		}
	}
	here := fake.NewClientBuilder().WithObjects(node("w1", one, "10.0.0.1"), node("m1", master, "10.0.0.9")).Build()
	m := machines.New(machines.Options{
		Config: func() (*remote.Replace, error) {
			return &remote.Replace{Magnum: &remote.Magnum{Cluster: cluster.UUID, OpenStack: remote.OpenStack{CloudsFile: cloud.File()}}}, nil
		},
		Here:      func() (client.Client, error) { return here, nil },
		Elsewhere: func(string) (client.Client, error) { return nil, errors.New("there is no other cluster") },
	})
	refused := func(n *corev1.Node, says string) {
		t.Helper()
		if _, refusal, err := m.Of(t.Context(), n, nil); err != nil || !strings.Contains(refusal, says) {
			t.Errorf("got %q, %v, want %s", refusal, err, says)
		}
	}
	refused(node("m1", master, "10.0.0.9"), "which is of the control plane")
	machine, refusal, err := m.Of(t.Context(), node("w1", one, "10.0.0.1"), nil)
	if err != nil || refusal != "" {
		t.Fatalf("refused: %s, %v", refusal, err)
	}
	sentAt := metav1.NewTime(time.Now().Add(-time.Hour))
	status := &v1alpha1.ReplaceStatus{Machine: machine.Object, Owner: machine.Owner, Method: machine.Method, SentAt: &sentAt}
	if group, err := m.Group(t.Context(), status); err != nil || group.Wants != 3 || !slices.Equal(group.Nodes, []string{"w1"}) {
		t.Errorf("got %+v, %v", group, err)
	}
	for range 2 { // the second one finds the mark
		if err := m.Send(t.Context(), machine, "action"); err != nil {
			t.Error(err)
		}
	}
	if got, want := magnum.Told(), []string{"default-worker 3 " + one}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	seen, err := m.Look(t.Context(), status, "action", time.Now())
	if err != nil || !seen.There || !seen.Leaving || !strings.Contains(seen.Said, "UPDATE_IN_PROGRESS") {
		t.Errorf("got %+v, %v", seen, err)
	}
	if err := m.TakeBack(t.Context(), status, seen); !apierrors.IsConflict(err) {
		t.Errorf("it is at work: got %v", err)
	}
	refused(node("w1", one, "10.0.0.1"), "in the name of NodeAction action")
}
