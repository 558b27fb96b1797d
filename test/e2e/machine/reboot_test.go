//go:build e2e

package machine

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/e2e/story"
)

// rebooting is a policy for a deadlock whose first step is a reboot.
func rebooting(more ...v1alpha1.Step) v1alpha1.RemedyPolicySpec {
	return v1alpha1.RemedyPolicySpec{
		Match: []v1alpha1.ConditionMatch{{Type: deadlock, Status: corev1.ConditionTrue}},
		Steps: append([]v1alpha1.Step{{
			Reboot:        &v1alpha1.RebootRemedy{Method: v1alpha1.RebootSysRq, Drain: &v1alpha1.Drain{}},
			Timeout:       *story.Duration(boot),
			VerifyTimeout: *story.Duration(10 * time.Second),
		}}, more...),
		Recovery: v1alpha1.Recovery{HealthyFor: *story.Duration(3 * time.Second)},
	}
}

// rebootedOnce ends the test with an error unless QEMU has told of one reset, the kernel
// has made it by sysrq, and the action proves the machine's other boot ID.
func (n *node) rebootedOnce(action string) {
	n.Helper()
	boots := n.machine.Boots()
	if resets := n.machine.Resets(); resets != 1 || len(boots) != 2 || boots[0] == boots[1] {
		n.Fatalf("%d resets, boot IDs %q, want 1 and 2; QEMU tells of %v", resets, boots, n.machine.Events())
	}
	if result := n.Result(action); result.BootIDAfter != boots[1] {
		n.Fatalf("the result is %+v, want a reboot to %s", result, boots[1])
	}
	console, err := os.ReadFile(n.machine.Console())
	n.Must(err)
	if resets := strings.Count(string(console), "sysrq: Resetting"); resets != 1 {
		n.Fatalf("the kernel tells of %d resets by sysrq, want 1: %s", resets, n.machine.Console())
	}
}

func TestANodeThatARebootHealsIsBackInServiceAfterExactlyOneReset(t *testing.T) {
	s := begin(t)
	n := s.start("reboot", options{checks: noRuntimeCheck})
	n.Until(moment, "the detector reports no deadlock", n.Is(deadlock, corev1.ConditionFalse))
	n.Apply(n.name+"-"+"reboot", rebooting())

	n.run("touch " + untilBoot)
	action := n.claimed(v1alpha1.RemedyReboot)
	n.rebootsCutOff()
	n.reconnect(action)
	n.Until(round, "the node has recovered", n.Reaches(v1alpha1.ReasonRecovered))
	n.executed("reboot Succeeded")
	n.rebootedOnce(action.Name)
	n.inService()
	boots := n.machine.Boots()
	last := n.lastWords(action.Name)
	n.Proved("one reset by the guest, told by QEMU; boot ID %.8s…, then %.8s…; booted while cut off for %s; the last %d lines of the first boot's journal are in the action",
		boots[0], boots[1], outage, len(strings.Split(last, "\n")))
}

// lastWords waits until the action has what the boot has left that it has ended, and returns the end of
// its journal.
func (n *node) lastWords(action string) (text string) {
	n.Helper()
	n.Until(round, "what the boot before has left is collected", func() (bool, string) {
		for _, a := range n.actions() {
			left := a.Status.Aftermath
			if a.Name != action || left == nil {
				continue
			}
			for _, l := range left.Left {
				if l.Source == v1alpha1.LeftoverJournal {
					text = l.Text
				}
			}
			boots := n.machine.Boots()
			if text == "" || left.BootID != boots[len(boots)-1] || a.Status.Claim.BootID != boots[0] {
				n.Fatalf("of boots %q: %+v", boots, left)
			}
			return true, ""
		}
		return false, "nothing yet"
	})
	return text
}

// rebootsCutOff takes the cable when the machine resets itself, and waits for its boot.
func (n *node) rebootsCutOff() {
	n.Helper()
	n.Until(round, "the machine resets itself", func() (bool, string) { return n.machine.Resets() > 0, fmt.Sprint(n.machine.Events()) })
	n.cutOff()
	n.boots(2)
	n.cordoned()
}

func TestANodeThatComesBackUnhealthyIsNotRebootedAgainAndEndsInMaintenance(t *testing.T) {
	s := begin(t)
	n := s.start("maintenance", options{checks: noRuntimeCheck})
	n.Apply(n.name+"-"+"reboot", rebooting(v1alpha1.Step{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "a reboot has not helped"}}))
	n.comesBackUnhealthy(v1alpha1.ReasonInMaintenance)

	n.run("rm " + beyondBoot)
	n.Until(round, "the node has recovered", n.Reaches(v1alpha1.ReasonRecovered))
	n.inService()
	n.Proved("back in service by itself once the fault was removed")
}

func TestANodeThatComesBackUnhealthyIsExhaustedWithoutAFurtherStep(t *testing.T) {
	s := begin(t)
	n := s.start("exhausted", options{checks: noRuntimeCheck})
	n.Apply(n.name+"-"+"reboot", rebooting())
	n.comesBackUnhealthy(v1alpha1.ReasonExhausted)
}

// comesBackUnhealthy breaks the node in a way that a reboot does not heal, and sees it end
// in a state, after one reboot, out of service.
func (n *node) comesBackUnhealthy(end string) {
	n.Helper()
	n.Until(moment, "the detector reports no deadlock", n.Is(deadlock, corev1.ConditionFalse))
	n.run("touch " + beyondBoot + "; sync")
	action := n.claimed(v1alpha1.RemedyReboot)
	broken := n.Condition(deadlock).LastTransitionTime
	n.rebootsCutOff()
	booted := time.Now()
	n.reconnect(action)
	n.Until(round, "the detector reports the deadlock in this boot", n.Confirms(deadlock, corev1.ConditionTrue, booted))
	n.Until(round, "the remediation is "+end, n.Reaches(end))
	// Long enough for another reboot to begin.
	ended := n.Condition(deadlock).LastHeartbeatTime.Time
	n.Until(moment, "the deadlock has been reported for 10 s more", n.Confirms(deadlock, corev1.ConditionTrue, ended.Add(10*time.Second)))
	if got, blocked := story.State(n.Remediation()); got != end {
		n.Fatalf("the remediation is %s, blocked by %q, want %s", got, blocked, end)
	}
	n.rebootedOnce(action.Name)
	n.cordoned()
	if since := n.Condition(deadlock).LastTransitionTime; !since.Equal(&broken) {
		n.Fatalf("the deadlock is there since %s, and now seems to be since %s", broken, since)
	}
	n.Proved("%s, cordoned, after one reset while cut off for %s, with the fault confirmed after it: %s", end, outage, n.Condition(deadlock).Message)
}
