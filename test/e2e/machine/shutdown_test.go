//go:build e2e

package machine

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/e2e/story"
)

// isShutDown: a person has a machine shut down for a maintenance that frees what its drain leaves. A
// PodDisruptionBudget keeps the writer, which writes until the operating system shuts down. What is done
// meanwhile is done as long as nothing is proved.
func (n *node) isShutDown(d *disk, other *node, meanwhile func()) {
	n.Helper()
	s := &scenario{Story: n.Story, plane: n.plane}
	boots, events, orders := n.machine.Boots(), len(n.machine.Events()), names(n.actions())
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: writer, Namespace: metav1.NamespaceDefault},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": writer}},
		},
	}
	n.Must(n.plane.Create(n.Ctx, budget))
	m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: n.name + "-board"}, Spec: v1alpha1.NodeMaintenanceSpec{
		NodeName: n.name, Reason: "new board", Power: v1alpha1.PowerRequestOff, OutOfService: true,
		Drain: &v1alpha1.Drain{Timeout: *story.Duration(5 * time.Second), OnTimeout: v1alpha1.OnTimeoutProceed},
	}}
	n.Must(n.plane.Create(n.Ctx, m))
	since := newTimes()
	n.Until(moment, "the drain leaves the pod", func() (bool, string) {
		n.Must(n.plane.Get(n.Ctx, client.ObjectKeyFromObject(m), m))
		drained, drain := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.MaintenanceDrained), m.Status.Drain
		return drained != nil && drained.Reason == v1alpha1.ReasonDrainTimedOut && len(drain.Pods) == 1 && drain.Pods[0].Reason == v1alpha1.PodDisruptionBudget, fmt.Sprint(drained, drain)
	})
	since.add("drained", time.Now())
	power := func(done func(*v1alpha1.MaintenancePowerStatus) bool) func() (bool, string) {
		return func() (bool, string) {
			n.Must(n.plane.Get(n.Ctx, client.ObjectKeyFromObject(m), m))
			is := m.Status.Power
			return is != nil && done(is), fmt.Sprintf("%+v", is)
		}
	}
	n.Until(round, "the machine is off", power(func(is *v1alpha1.MaintenancePowerStatus) bool { return is.Phase == v1alpha1.PowerOff }))
	off := n.told("STOP")
	since.add("shut down", off)
	var told []string
	for _, e := range n.machine.Events()[events:] {
		if slices.Contains([]string{"POWERDOWN", "SHUTDOWN", "STOP", "RESET"}, e.Name) {
			told = append(told, e.Name+e.Data.Reason)
		}
	}
	if want := []string{"POWERDOWN", "SHUTDOWNguest-shutdown", "STOP"}; !slices.Equal(told, want) {
		n.Fatalf("QEMU tells of %q, want %q: its operating system has shut down", told, want)
	}
	n.Until(moment, "the node is given up", n.Is(corev1.NodeReady, corev1.ConditionUnknown))
	since.add("given up", time.Now())
	if pod := s.pod(); pod == nil || pod.Spec.NodeName != n.name || v1alpha1.IsOutOfService(n.Object()) || !slices.Equal(s.attachments(), []string{n.name}) {
		n.Fatalf("without a proof the pod is %+v, the taints are %+v, and volumes are attached to %q", pod, n.Object().Spec.Taints, s.attachments())
	}

	meanwhile()
	n.Until(round, "it is proved that the machine is off", power(func(is *v1alpha1.MaintenancePowerStatus) bool { return is.Proof != nil }))
	proof := m.Status.Power.Proof
	since.add("proved", proof.Second.Time.Time)
	if proof.Apart.Duration < 2*time.Minute || n.told("RESUME").After(off) {
		n.Fatalf("off at %s, last on at %s, its proof: %+v", off, n.told("RESUME"), proof)
	}
	n.Until(moment, "the taint is set", func() (bool, string) {
		mark, marked := v1alpha1.OutOfServiceMarkOf(n.Object())
		return v1alpha1.IsOutOfService(n.Object()) && marked && mark.Action == v1alpha1.ProofOfMaintenance(m.Name) && mark.BootID == proof.BootID, fmt.Sprint(n.Object().Spec.Taints, mark)
	})
	last := n.moves(d, other, boots[len(boots)-1], proof, since)

	if n.machine.HasPower() || !v1alpha1.IsOutOfService(n.Object()) {
		n.Fatalf("before its maintenance ends the machine has power: %t; the taints are %+v", n.machine.HasPower(), n.Object().Spec.Taints)
	}
	n.Must(n.plane.Delete(n.Ctx, m))
	since.add("the maintenance ends", time.Now())
	n.Until(round, "the machine has power again", func() (bool, string) { return n.machine.HasPower(), fmt.Sprint(n.machine.Events()) })
	since.add("on", n.told("RESUME"))
	n.isBack(len(boots)+1, since)
	n.Until(moment, "the maintenance is gone", func() (bool, string) {
		err := n.plane.Get(n.Ctx, client.ObjectKeyFromObject(m), m)
		return apierrors.IsNotFound(err), fmt.Sprintf("%v, %+v", err, m.Status)
	})
	n.inService()
	n.Must(n.plane.Delete(n.Ctx, budget))
	if got := names(n.actions()); got != orders {
		n.Fatalf("a policy has acted on a node in maintenance: its actions are %q, and were %q", got, orders)
	}
	other.writes(d, 10)
	n.Proved("a machine in maintenance was shut down in order, with a pod that its drain has left; after the maintenance had begun: %s", since)
	n.Proved("it was read off twice, %.1f s apart, %.1f s after its last write, number %d", proof.Apart.Seconds(), proof.Second.Time.Sub(last.at).Seconds(), last.number)
}
