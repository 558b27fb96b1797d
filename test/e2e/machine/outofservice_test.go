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
	s.switches(config, dead.byIPMI(wrong), other.byRedfish(otherUUID))
	s.remoteRunner(config)

	const reserved = "reserved"
	other.taint(reserved + "=test:NoSchedule")
	s.startWriter(dead, other)
	dead.writes(d, 10)
	outOfService := powerCycled(v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle, OutOfService: true})
	dead.Apply("dead-outofservice", outOfService)

	boot := other.standsStill()
	dead.stoodStillUnproved(d)
	other.taint(reserved + "-")
	other.isPowerCycled("a Redfish service", boot)

	s.switches(config, dead.byIPMI(bmc), other.byIPMI(otherBMC))
	dead.dies(withoutCable(d), d, other)
	other.leaveAlone()
	other.Apply("other-outofservice", outOfService)
	other.dies(hanging(d, otherBMC), d, dead)

	s.switches(config, dead.byIPMI(bmc), other.byProgram(otherBMC))
	dead.isShutDown(d, other, func() { other.isPowerCycled("fence_ipmilan", other.standsStill()) })
	other.leaveAlone()
	other.freedBlindly(d, dead)
}

// taint sets a taint, as a person does, or takes it away.
func (n *node) taint(taint string) {
	n.Helper()
	_, err := n.plane.kubectl(n.Ctx, "taint", "node", n.name, taint)
	n.Must(err)
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

// death is a way in which a machine does not answer any more, with its power on.
type death struct {
	// as says of a machine, in the report, what it has done.
	as string
	// lives looks, once the node is given up, whether it is as said; ends is what is left to do before
	// the machine can answer in its next boot.
	begins, lives, ends func(n *node)
}

// withoutCable is that of a machine which has lost its cable, and writes on. Nobody can tell that from
// outside.
func withoutCable(d *disk) death {
	return death{
		as: "a machine without a cable wrote on",
		begins: func(n *node) {
			n.kubelet.cutOff.Store(true)
			n.Must(n.machine.SetLink(n.Ctx, false))
		},
		lives: func(n *node) { n.Helper(); n.writes(d, 1) },
		ends: func(n *node) {
			n.Must(n.machine.SetLink(n.Ctx, true))
			n.kubelet.cutOff.Store(false)
		},
	}
}

// hanging is that of a machine whose kernel hangs with interrupts off, which QEMU runs all the time. Its
// kubelet is silent by itself. It has no hardware watchdog, which would reset it.
func hanging(d *disk, bmc *ipmisim.Simulator) death {
	spins := func(n *node) {
		n.Helper()
		n.Until(moment, "each processor spins in the kernel, with interrupts off", func() (bool, string) {
			spins, where, err := n.machine.Spins(n.Ctx)
			n.Must(err)
			return spins, where
		})
	}
	return death{
		as:     "a kernel that hung with interrupts off did not heed its power button",
		begins: func(n *node) { n.Must(n.machine.Hang(n.Ctx)) },
		lives: func(n *node) {
			n.Helper()
			spins(n)
			before := len(d.history())
			n.chassis(bmc, "soft")
			n.Until(moment, "the power button is pushed", func() (bool, string) { return !n.told("POWERDOWN").IsZero(), fmt.Sprint(n.machine.Events()) })
			spins(n)
			if all := d.history()[before:]; len(all) > 0 || !n.machine.HasPower() {
				n.Fatalf("a machine that hangs has power: %t, and writes %s", n.machine.HasPower(), all)
			}
		},
		ends: func(*node) {},
	}
}

// dies: the power of a machine that does not answer is cut, which is proved, and the pod runs on the
// other node.
func (n *node) dies(how death, d *disk, other *node) {
	n.Helper()
	boots, events := n.machine.Boots(), len(n.machine.Events())
	how.begins(n)
	since := newTimes()
	n.Until(moment, "the node is given up", n.Is(corev1.NodeReady, corev1.ConditionUnknown))
	since.add("given up", time.Now())
	how.lives(n)
	var power *v1alpha1.PowerCycleStatus
	n.Until(round, "it is proved that the machine is off", func() (bool, string) {
		for _, a := range n.actions() {
			if a.Finished() == nil && a.Status.Power != nil && a.Status.Power.Proof != nil {
				power = a.Status.Power
				since.add("claimed", a.Status.Claim.Time.Time)
			}
		}
		got, blocked := story.State(n.Remediation())
		return power != nil, fmt.Sprintf("actions %q, remediation %s, blocked by %q", names(n.actions()), got, blocked)
	})
	off := n.told("STOP")
	since.add("off", off)
	since.add("proved", power.Proof.Second.Time.Time)
	if power.Proof.Apart.Duration < 5*time.Second {
		n.Fatalf("its proof: %+v", power.Proof)
	}
	for _, e := range n.machine.Events()[events:] {
		if slices.Contains([]string{"RESET", "SHUTDOWN", "WATCHDOG", "GUEST_PANICKED"}, e.Name) && e.At().Before(off) {
			n.Fatalf("before its power was cut the machine has ended by itself: %+v", e)
		}
	}
	n.Until(moment, "the taint is set", func() (bool, string) {
		return v1alpha1.IsOutOfService(n.Object()), fmt.Sprint(n.Object().Spec.Taints)
	})
	last := n.moves(d, other, boots[len(boots)-1], power.Proof, since)

	n.Until(round, "the machine has power again", func() (bool, string) { return !n.told("RESUME").Before(off), fmt.Sprint(n.machine.Events()) })
	since.add("on", n.told("RESUME"))
	how.ends(n)
	n.isBack(len(boots)+1, since)
	n.Until(round, "the node has recovered", n.Reaches(v1alpha1.ReasonRecovered))
	if history := n.Remediation().Status.History; len(history) != 1 || history[0].Outcome != v1alpha1.ReasonSucceeded {
		n.Fatalf("the history is %+v, want one power cycle", history)
	}
	n.inService()
	other.writes(d, 10)
	n.Proved("%s; after it had begun: %s", how.as, since)
	n.Proved("it was read off twice, %.1f s apart, %.1f s after its last write, number %d", power.Proof.Apart.Seconds(), power.Proof.Second.Time.Sub(last.at).Seconds(), last.number)
}

// moves waits until the pod writes on the other node. It ends the test with an error unless this boot was
// proved to be over before anything of it was freed, and has not written since. It returns its last write.
func (n *node) moves(d *disk, other *node, boot string, proof *v1alpha1.PowerProof, since *times) (last write) {
	n.Helper()
	s := &scenario{Story: n.Story, plane: n.plane}
	if ready := n.Condition(corev1.NodeReady); ready.Status != corev1.ConditionUnknown {
		n.Fatalf("pods and volumes are freed, and %s", story.Describe(ready))
	}
	other.writes(d, 10)
	all, writes := d.history(), d.unshared(s)
	at := len(all) - 1
	for all[at].machine == other.name {
		at--
	}
	last, moved, off, proved := all[at], all[at+1], n.told("STOP"), proof.Second.Time.Time
	// QEMU tells that it stands still before what is on its way has been written.
	if last.machine != n.name || last.boot != boot || proof.BootID != boot || last.at.After(proved) || off.After(proved) || !proof.First.Time.Time.Before(proved) {
		n.Fatalf("the last write of the machine that was cut is %s; then %s; it stood still at %s, its proof: %+v", last, moved, off, proof)
	}
	detached, wasDetached := d.changed(n.name, "")
	attached, wasAttached := d.changed("", other.name)
	if !wasDetached || !wasAttached || detached.Before(proved) || attached.Before(proved) {
		n.Fatalf("it is proved to be off at %s; detached at %s: %t, attached at %s: %t", proved, detached, wasDetached, attached, wasAttached)
	}
	if got := s.attachments(); !slices.Equal(got, []string{other.name}) {
		n.Fatalf("the volume is attached to %q", got)
	}
	since.add("detached", detached)
	since.add("attached elsewhere", attached)
	since.add("pod writes elsewhere", moved.at)
	n.Logf("%d writes, none by the wrong machine", writes)
	return last
}

// isBack waits until the machine is in this boot, counted from 1, and the taint is taken away.
func (n *node) isBack(boot int, since *times) {
	n.Helper()
	n.boots(boot)
	n.Until(moment, "the node is Ready again, in that boot", func() (bool, string) {
		ready, is := n.Is(corev1.NodeReady, corev1.ConditionTrue)()
		return ready && n.Object().Status.NodeInfo.BootID == n.machine.Boots()[boot-1], is
	})
	since.add("Ready", time.Now())
	n.Until(round, "the taint is taken away", func() (bool, string) {
		object := n.Object()
		return !v1alpha1.IsOutOfService(object) && object.Annotations[v1alpha1.OutOfServiceAnnotation] == "", fmt.Sprint(object.Spec.Taints, object.Annotations)
	})
	since.add("taint away", time.Now())
}

// times are how many seconds after the first of them something has happened.
type times struct {
	first time.Time
	parts []string
}

func newTimes() *times { return &times{first: time.Now()} }

func (t *times) add(what string, at time.Time) {
	t.parts = append(t.parts, fmt.Sprintf("%s %.1f s", what, at.Sub(t.first).Seconds()))
}

func (t *times) String() string { return strings.Join(t.parts, ", ") }

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
	n.kubelet.cutOff.Store(true)
	n.Must(n.machine.SetLink(n.Ctx, false))
	n.Until(moment, "the node is given up", n.Is(corev1.NodeReady, corev1.ConditionUnknown))
	n.taint(corev1.TaintNodeOutOfService + "=nodeshutdown:NoExecute")
	other.writes(d, 1)
	before := len(d.history())
	n.Until(moment, "the machine that has lost its disk writes to it", func() (bool, string) {
		return slices.ContainsFunc(d.history()[before:], func(w write) bool { return w.machine == n.name && w.wrong() }), fmt.Sprint(len(d.history()), " writes")
	})
	n.Proved("a taint that a person sets without a proof has two machines write to the disk: the storage sees it")
	n.taint(corev1.TaintNodeOutOfService + "-")
}
