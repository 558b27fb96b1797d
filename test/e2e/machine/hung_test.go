//go:build e2e

package machine

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/e2e/story"
)

func TestACommandAndARebootWorkWhileSystemdAndItsBusHang(t *testing.T) {
	s := begin(t)
	n := s.start("hung", options{checks: noRuntimeCheck})
	n.Until(moment, "the detector reports no deadlock", n.Is(deadlock, corev1.ConditionFalse))
	policy := rebooting()
	policy.Steps = append([]v1alpha1.Step{{
		// Its effect does not survive the boot, and its output is seen only if it has ended.
		Command:       &v1alpha1.CommandRemedy{Script: "echo ran >>/var/lib/ran; " + held + "; cat /proc/1/comm"},
		VerifyTimeout: *story.Duration(5 * time.Second),
	}}, policy.Steps...)
	n.Apply(n.name+"-"+"reboot", policy)

	n.Must(n.machine.SetSystemdHangs(n.Ctx, true))
	if n.run("timeout 5 systemctl is-active dbus.service || echo hangs") != "hangs" {
		t.Fatal("systemd answers")
	}
	n.run("touch " + hold + " " + untilBoot)
	command := n.claimed(v1alpha1.RemedyCommand)
	n.Until(round, "the command runs", n.tries("test -e /var/lib/ran"))
	n.cutOff()
	n.run("rm " + hold)
	n.reconnect(command)
	reboot := n.claimed(v1alpha1.RemedyReboot)
	n.boots(2)
	n.Until(round, "the node has recovered", n.Reaches(v1alpha1.ReasonRecovered))
	n.executed("command Succeeded", "reboot Succeeded")
	result := n.Result(command.Name)
	if result.Execution != v1alpha1.ExecutionDirect || strings.TrimSpace(result.Output) != "systemd" {
		t.Errorf("the result is %+v, want a direct execution", result)
	}
	if ran := n.run("cat /var/lib/ran"); ran != "ran" {
		t.Errorf("the command ran %d times, want once", strings.Count(ran, "ran"))
	}
	n.Proved("a command was executed once, %s, cut off meanwhile for %s", result.Execution, outage)
	n.rebootedOnce(reboot.Name)
	n.inService()
	n.Proved("then one reset by SysRq; systemd answered nothing before it")
}
