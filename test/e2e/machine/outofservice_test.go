//go:build e2e

package machine

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/ipmisim"
)

const (
	deadUUID  = "4c4c4544-0032-3810-8052-b4c04f4a5731"
	otherUUID = "4c4c4544-0032-3810-8052-b4c04f4a5732"
)

// A disk that fences nobody is the hardest case: nothing but the proof keeps the boot that is over
// from it. The storage itself is asked, which has seen each write.
func TestAPodRunsElsewhereOnceItsMachineIsProvedToBeOffAndNoWriteOfItComesLater(t *testing.T) {
	s := begin(t)
	if _, err := exec.LookPath("fence_ipmilan"); err != nil {
		t.Skip("needs fence_ipmilan: apt-get install fence-agents")
	}
	d, err := startDisk()
	s.Must(err)
	s.Cleanup(d.stop)
	bmc, wrong := ipmisim.StartAs(t, deadUUID), ipmisim.Start(t)
	dead := s.start("dead", withDisk(d, "dead", deadUUID, bmc))
	otherBMC := ipmisim.StartAs(t, otherUUID)
	other := s.start("other", withDisk(d, "other", otherUUID, otherBMC))
	dead.hasDriver()
	other.hasDriver()
	s.attaches(d)
	config := filepath.Join(s.plane.dir, "remote.yaml")
	s.switches(config, dead.byIPMI(wrong))
	s.remoteRunner(config)

	other.cordon("true")
	s.startWriter(dead, other)
	dead.writes(d, 10)
	dead.Apply("dead-outofservice", powerCycled(v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle, OutOfService: true}))

	dead.stoodStillUnproved(d)
	s.switches(config, dead.byIPMI(bmc))
	other.cordon("false")
	dead.cutOffUntilProved(d, other)
	other.freedBlindly(d, dead)
	s.switchedOtherwise(config, dead, other, otherBMC)
}

func (n *node) cordon(cordoned string) {
	n.Helper()
	n.Must(n.plane.Patch(n.Ctx, n.Object(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":`+cordoned+`}}`))))
}

// writes waits until the machine, in the boot that it is in, has written so often to its disk since
// now.
func (n *node) writes(d *disk, times int) {
	n.Helper()
	n.writesAfter(d, len(d.history()), times)
}

// writesAfter is writes, after so many writes of all machines. It returns the machine's last one.
func (n *node) writesAfter(d *disk, before, times int) (last write) {
	n.Helper()
	boots := n.machine.Boots()
	n.Until(round, fmt.Sprintf("%s has written %d times", n.name, times), func() (bool, string) {
		seen := 0
		for _, w := range d.history()[before:] {
			if w.machine == n.name && w.boot == boots[len(boots)-1] {
				seen, last = seen+1, w
			}
		}
		return seen >= times, fmt.Sprintf("%d times, last %s", seen, last)
	})
	return last
}

// unshared ends the test with an error if a machine has written while the disk was not its own, or
// not after what was written last.
func (d *disk) unshared(s *scenario) (writes int) {
	s.Helper()
	all := d.history()
	for i, w := range all {
		if w.wrong() || i > 0 && w.number != all[i-1].number+1 {
			s.Fatalf("of %d writes: %s; before it: %s", len(all), w, all[max(0, i-1)])
		}
	}
	return len(all)
}

// stoodStillUnproved: the hypervisor stops the machine. The BMC that is configured is of another
// one, and proves nothing: so nothing is freed, and the machine goes on where it was.
func (n *node) stoodStillUnproved(d *disk) {
	n.Helper()
	s := &scenario{Story: n.Story, plane: n.plane}
	n.kubelet.cutOff.Store(true)
	n.Must(n.machine.Pause(n.Ctx))
	before := len(d.history())
	n.Until(moment, "the node is given up", n.Is(corev1.NodeReady, corev1.ConditionUnknown))
	n.Until(moment, "the pod is told to end", func() (bool, string) {
		pod := s.pod()
		return pod != nil && pod.DeletionTimestamp != nil, fmt.Sprintf("%+v", pod)
	})
	var refused string
	n.Until(round, "the remote runner refuses", func() (bool, string) {
		for _, a := range n.actions() {
			if f := a.Finished(); f != nil && f.Reason == v1alpha1.ReasonRefused {
				refused = f.Message
			}
		}
		got, blocked := story.State(n.Remediation())
		return refused != "", fmt.Sprintf("actions %q, remediation %s, blocked by %q", names(n.actions()), got, blocked)
	})
	n.Until(moment, "Ready is Unknown, still", n.Is(corev1.NodeReady, corev1.ConditionUnknown))
	if pod := s.pod(); pod == nil || pod.Spec.NodeName != n.name || v1alpha1.IsOutOfService(n.Object()) {
		n.Fatalf("without a proof the pod is %+v, and the taints are %+v", pod, n.Object().Spec.Taints)
	}
	if got := s.attachments(); !slices.Equal(got, []string{n.name}) {
		n.Fatalf("without a proof the volume is attached to %q", got)
	}
	if all := d.history(); len(all) > before+1 { // one may have been on its way
		n.Fatalf("while it stood still the machine has written: %s", all[before+1:])
	}
	n.Must(n.machine.Resume(n.Ctx))
	last := n.writesAfter(d, before, 5)
	n.kubelet.cutOff.Store(false)
	if boots := n.machine.Boots(); len(boots) != 1 {
		n.Fatalf("the machine has booted: %q", boots)
	}
	n.Until(round, "the node has recovered", n.Reaches(v1alpha1.ReasonRecoveredByItself))
	n.inService()
	n.writes(d, 10)
	n.Proved("a machine that its hypervisor had stopped, with a BMC that is not its own: %s; its pod and its volume stayed, told to end as it was, and it went on writing, at number %d; %d writes, none by the wrong machine",
		refused, last.number, d.unshared(s))
}

// cutOffUntilProved: the machine has lost its cable, and writes on. Nobody can tell that from
// outside. Its power is cut, which is proved, and the pod runs on the other node.
func (n *node) cutOffUntilProved(d *disk, other *node) {
	n.Helper()
	s := &scenario{Story: n.Story, plane: n.plane}
	first := n.machine.Boots()[0]
	n.kubelet.cutOff.Store(true)
	n.Must(n.machine.SetLink(n.Ctx, false))
	silent := time.Now()
	var parts []string
	after := func(what string, at time.Time) {
		parts = append(parts, fmt.Sprintf("%s %.1f s", what, at.Sub(silent).Seconds()))
	}
	n.Until(moment, "the node is given up", n.Is(corev1.NodeReady, corev1.ConditionUnknown))
	after("given up", time.Now())
	n.writes(d, 1)
	var power *v1alpha1.PowerCycleStatus
	n.Until(round, "it is proved that the machine is off", func() (bool, string) {
		for _, a := range n.actions() {
			if a.Finished() == nil && a.Status.Power != nil && a.Status.Power.Proof != nil {
				power = a.Status.Power
				after("claimed", a.Status.Claim.Time.Time)
			}
		}
		got, blocked := story.State(n.Remediation())
		return power != nil, fmt.Sprintf("actions %q, remediation %s, blocked by %q", names(n.actions()), got, blocked)
	})
	off := n.told("STOP")
	after("off", off)
	after("proved", power.Proof.Second.Time.Time)
	n.Until(moment, "the taint is set", func() (bool, string) {
		return v1alpha1.IsOutOfService(n.Object()), fmt.Sprint(n.Object().Spec.Taints)
	})
	if ready := n.Condition(corev1.NodeReady); ready.Status != corev1.ConditionUnknown {
		n.Fatalf("pods and volumes are freed, and %s", story.Describe(ready))
	}
	other.writes(d, 10)
	d.unshared(s)
	all := d.history()
	at := slices.IndexFunc(all, func(w write) bool { return w.machine == other.name })
	last, moved := all[at-1], all[at]
	// QEMU tells that it stands still before what is on its way has been written.
	if proved := power.Proof.Second.Time.Time; last.boot != first || last.at.After(proved) || off.After(proved) {
		n.Fatalf("the last write of the machine that was cut is %s; then %s; it stood still at %s, its proof: %+v", last, moved, off, power.Proof)
	}
	detached, wasDetached := d.changed(n.name, "")
	attached, wasAttached := d.changed("", other.name)
	if !wasDetached || !wasAttached || detached.Before(power.Proof.Second.Time.Time) {
		n.Fatalf("it is proved to be off at %s; detached at %s: %t, attached at %s: %t", power.Proof.Second.Time, detached, wasDetached, attached, wasAttached)
	}
	after("detached", detached)
	after("attached elsewhere", attached)
	after("pod writes elsewhere", moved.at)

	n.Until(round, "the machine has power again", func() (bool, string) { return !n.told("RESUME").Before(off), fmt.Sprint(n.machine.Events()) })
	after("on", n.told("RESUME"))
	n.Must(n.machine.SetLink(n.Ctx, true))
	n.kubelet.cutOff.Store(false)
	n.boots(2)
	n.Until(moment, "the node is Ready again", n.Is(corev1.NodeReady, corev1.ConditionTrue))
	after("Ready", time.Now())
	n.Until(round, "the taint is taken away", func() (bool, string) {
		object := n.Object()
		return !v1alpha1.IsOutOfService(object) && object.Annotations[v1alpha1.OutOfServiceAnnotation] == "", fmt.Sprint(object.Spec.Taints, object.Annotations)
	})
	after("taint away", time.Now())
	n.Until(round, "the node has recovered", n.Reaches(v1alpha1.ReasonRecovered))
	if history := n.Remediation().Status.History; len(history) != 1 || history[0].Outcome != v1alpha1.ReasonSucceeded {
		n.Fatalf("the history is %+v, want one power cycle", history)
	}
	n.inService()
	other.writes(d, 10)
	n.Proved("a machine without a cable wrote on; after the cable was pulled: %s", strings.Join(parts, ", "))
	n.Proved("its last write, number %d, came %.1f s before it was proved to be off, and %.1f s before its disk was attached elsewhere; %d writes, none by the wrong machine",
		last.number, power.Proof.Second.Time.Sub(last.at).Seconds(), attached.Sub(last.at).Seconds(), d.unshared(s))
}

// told returns when QEMU has told something last.
func (n *node) told(event string) (at time.Time) {
	for _, e := range n.machine.Events() {
		if e.Name == event {
			at = e.At()
		}
	}
	return at
}

// freedBlindly: a person sets the taint of a machine that is only cut off. The storage sees what
// comes of it, so it would have seen it before.
func (n *node) freedBlindly(d *disk, other *node) {
	n.Helper()
	s := &scenario{Story: n.Story, plane: n.plane}
	n.kubelet.cutOff.Store(true)
	n.Must(n.machine.SetLink(n.Ctx, false))
	n.Until(moment, "the node is given up", n.Is(corev1.NodeReady, corev1.ConditionUnknown))
	_, err := n.plane.kubectl(n.Ctx, "taint", "node", n.name, corev1.TaintNodeOutOfService+"=nodeshutdown:NoExecute")
	s.Must(err)
	other.writes(d, 1)
	before := len(d.history())
	n.Until(moment, "the machine that has lost its disk writes to it", func() (bool, string) {
		return slices.ContainsFunc(d.history()[before:], func(w write) bool { return w.machine == n.name && w.wrong() }), fmt.Sprint(len(d.history()), " writes")
	})
	n.Proved("a taint that a person sets without a proof has two machines write to the disk: the storage sees it")
	_, err = n.plane.kubectl(n.Ctx, "taint", "node", n.name, corev1.TaintNodeOutOfService+"-")
	s.Must(err)
}
