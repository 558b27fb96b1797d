//go:build integration

package interop

import (
	"fmt"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestClusterAPI(t *testing.T) {
	t.Parallel()
	w := newClusterAPI(t)
	for _, scene := range []struct {
		says string
		play func(*clusterAPI)
	}{
		{"a MachineHealthCheck has a node healed, and nothing of it holds what comes after", (*clusterAPI).heals},
		{"a MachineSet replaces the Machine of which all was in vain", (*clusterAPI).replaces},
		{"a Machine that is deleted while a step runs is let go of", (*clusterAPI).letsGo},
		{"a Machine that the step replace deletes is replaced by its MachineSet", (*clusterAPI).deletes},
		{"one of a MachineDeployment is replaced by its MachineSet, and nothing else of it changes", (*clusterAPI).deletesOfDeployment},
		{"one that a MachineHealthCheck selects is marked, and replaced by its MachineSet", (*clusterAPI).marks},
		{"one that its MachineHealthCheck and a policy want to be replaced is replaced once", (*clusterAPI).both},
		{"one for which a MachineHealthCheck has asked Nodemend is replaced by the last step", (*clusterAPI).replacesAsAsked},
	} {
		t.Run(scene.says, func(t *testing.T) {
			t.Parallel()
			scene.play(w.of(t))
		})
	}
}

// broken is the condition for which the MachineHealthChecks remediate.
const broken = "Broken"

func (w *clusterAPI) heals() {
	machines := w.drivenSet("healed", 1, gentle(), reboot())
	of := machines[0]
	m := w.machine(of.node)
	m.onReset = func() {
		m.set(broken, false)
		m.set("Sick", false)
	}
	m.start()

	m.set(broken, true)
	w.Eventually(w.request).WithArguments(of).ShouldNot(BeNil())
	w.Expect(w.request(of).Spec.Policy).To(Equal("healed"))
	w.Eventually(w.state).WithArguments("healed", of.node).Should(Equal(v1alpha1.ReasonRecovered))
	w.Expect(w.history("healed", of.node)).To(Equal([]string{"1 Succeeded", "2 Succeeded"}))
	w.Expect(m.resets.Load()).To(BeEquivalentTo(1))
	asked := w.remediation("healed", of.node).Spec.Request
	w.Expect(asked.OwnedBy("cluster.x-k8s.io", "Machine", of.name)).To(BeTrue(), "%v", asked)
	w.Eventually(w.request).WithArguments(of).Should(BeNil())
	w.isGivenBack("healed")

	// Nobody has told the owner to act, and it has not.
	is := w.read(of.name)
	w.Expect(is.GetUID()).To(Equal(of.uid))
	w.Expect(condition(is, "OwnerRemediated")).To(BeEmpty())

	// Cluster API never takes this one back. A step that somebody else has not asked for is not held by it.
	w.Expect(condition(is, "ExternallyRemediated")).To(HavePrefix("False/"))
	w.Expect(condition(is, "HealthCheckSucceeded")).To(HavePrefix("True/"))
	w.policy("healed-later", "healed", "Sick", reboot())
	m.set("Sick", true)
	w.Eventually(w.state).WithArguments("healed-later", of.node).Should(Equal(v1alpha1.ReasonRecovered))
	w.Expect(m.resets.Load()).To(BeEquivalentTo(2))
	w.isGivenBack("healed")
}

func (w *clusterAPI) replaces() {
	machines := w.drivenSet("replaced", 2, gentle())
	sick, well := machines[0], machines[1]
	m := w.machine(sick.node)
	m.start()

	m.set(broken, true)
	w.isReplaced("replaced", sick, well)
	w.Expect(w.history("replaced", sick.node)).To(Equal([]string{"1 Succeeded"}))
}

func (w *clusterAPI) letsGo() {
	hold := w.t.TempDir() + "/hold"
	w.Expect(os.WriteFile(hold, nil, 0o600)).To(Succeed())
	step := gentle()
	step.Command.Argv = []string{"/bin/sh", "-c", fmt.Sprintf("while [ -e %s ]; do sleep 0.1; done", hold)}
	machines := w.drivenSet("deleted", 2, step)
	of, well := machines[0], machines[1]
	m := w.machine(of.node)
	m.start()

	m.set(broken, true)
	w.Eventually(w.state).WithArguments("deleted", of.node).Should(Equal(v1alpha1.ReasonActing))
	w.Expect(w.client.Delete(w.ctx, w.read(of.name))).To(Succeed())
	w.isReplaced("deleted", of, well)
}

func (w *clusterAPI) deletes() {
	machines := w.machineSet("deletes", 2)
	w.isReplacedByUs("deletes", machines, v1alpha1.ReplaceDelete)
}

func (w *clusterAPI) deletesOfDeployment() {
	machines := w.machineDeployment("deployed", 2)
	w.policy("deployed", "deployed", "Sick", replace())
	sick, well := machines[0], machines[1]
	m := w.machine(sick.node)
	m.start()

	m.set("Sick", true)
	w.Eventually(w.replaced).WithArguments("deployed", sick.node).ShouldNot(BeNil())
	is := w.replaced("deployed", sick.node)
	w.Expect(is.Owner.Kind).To(Equal("MachineSet"))
	w.Expect(is.Owner.Name).To(HavePrefix("deployed-"))
	w.Expect(is.Method).To(Equal(v1alpha1.ReplaceDelete))
	w.isReplaced("deployed", sick, well)
	w.Expect(w.state("deployed", sick.node)).To(Equal(v1alpha1.ReasonReplaced))
	w.Expect(w.list(machineAPI, "MachineSet", "cluster.x-k8s.io/deployment-name", "deployed")).To(HaveLen(1))
}

func (w *clusterAPI) marks() {
	machines := w.machineSet("marks", 2)
	// For what makes it act by itself nobody waits here.
	w.healthCheck("marks", "NeverSeen", "")
	w.isReplacedByUs("marks", machines, v1alpha1.ReplaceRemediate)
}

// both have the same reason to act, and nobody has told one of them to leave it to the other one.
func (w *clusterAPI) both() {
	machines := w.machineSet("both", 2)
	w.healthCheck("both", "Sick", "")
	w.policy("both", "both", "Sick", replace())
	sick, well := machines[0], machines[1]
	m := w.machine(sick.node)
	m.start()

	m.set("Sick", true)
	w.isReplaced("both", sick, well)
	w.Expect(w.state("both", sick.node)).To(BeElementOf(v1alpha1.ReasonReplaced, v1alpha1.ReasonNodeGone))
}

// isReplacedByUs wants the first of two Machines to be replaced by a step of a policy of the name, in this way.
func (w *clusterAPI) isReplacedByUs(name string, machines []capiMachine, method v1alpha1.ReplaceMethod) {
	w.t.Helper()
	w.policy(name, name, "Sick", gentle(), replace())
	sick, well := machines[0], machines[1]
	m := w.machine(sick.node)
	m.start()

	m.set("Sick", true)
	w.isBeingReplaced(name, sick, method)
	w.isReplaced(name, sick, well)
	w.Expect(w.state(name, sick.node)).To(Equal(v1alpha1.ReasonReplaced))
	w.Expect(w.history(name, sick.node)).To(Equal([]string{"1 Succeeded", "2 Replaced"}))
}

func (w *clusterAPI) replacesAsAsked() {
	machines := w.drivenSet("asked", 2, gentle(), replace())
	sick, well := machines[0], machines[1]
	m := w.machine(sick.node)
	m.start()

	m.set(broken, true)
	w.isBeingReplaced("asked", sick, v1alpha1.ReplaceDelete)
	w.isReplaced("asked", sick, well)
	w.Expect(w.state("asked", sick.node)).To(Equal(v1alpha1.ReasonReplaced))
	w.Expect(w.history("asked", sick.node)).To(Equal([]string{"1 Succeeded", "2 Replaced"}))
}

// isBeingReplaced wants the remote runner to have written which machine it has replaced, before it is gone, and by
// whom.
func (w *clusterAPI) isBeingReplaced(policy string, of capiMachine, method v1alpha1.ReplaceMethod) {
	w.t.Helper()
	w.Eventually(w.replaced).WithArguments(policy, of.node).ShouldNot(BeNil())
	is := w.replaced(policy, of.node)
	w.Expect(is.Machine).To(Equal(v1alpha1.ExternalObject{APIVersion: machineAPI, Kind: "Machine", Namespace: "default", Name: of.name, UID: of.uid}))
	w.Expect(is.Owner.Kind + " " + is.Owner.Name).To(Equal("MachineSet " + policy))
	w.Expect(is.Method).To(Equal(method))
	w.Expect(is.Wanted).To(BeEquivalentTo(2))
}

// isReplaced wants a Machine to be gone, with all that was its, another one in its place, and the other one of the
// MachineSet as it was.
func (w *clusterAPI) isReplaced(set string, gone, other capiMachine) {
	w.t.Helper()
	w.Eventually(w.read).WithArguments(gone.name).Should(BeNil())
	w.Eventually(w.node).WithArguments(gone.node).Should(BeNil())
	w.Eventually(w.request).WithArguments(gone).Should(BeNil(), "by its finalizer, too")
	w.Eventually(w.ended).WithArguments(set, gone.node).Should(BeTrue())
	w.Eventually(func() (names []string) {
		for _, m := range w.machines(set) {
			names = append(names, m.name)
		}
		return names
	}).Should(And(HaveLen(2), ContainElement(other.name), Not(ContainElement(gone.name))))
	w.Expect(w.read(other.name).GetUID()).To(Equal(other.uid))
	w.isGivenBack(set)
}

// request is what the MachineHealthCheck of a Machine has asked for; nil: nothing.
func (w *clusterAPI) request(of capiMachine) *v1alpha1.NodemendRemediation {
	w.t.Helper()
	var r v1alpha1.NodemendRemediation
	err := w.client.Get(w.ctx, types.NamespacedName{Namespace: "default", Name: of.name}, &r)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.Expect(err).NotTo(HaveOccurred())
	return &r
}

// read is the Machine of this name; nil: there is none.
func (w *clusterAPI) read(name string) *unstructured.Unstructured {
	w.t.Helper()
	return w.get(machineAPI, "Machine", "default", name)
}
