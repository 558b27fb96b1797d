//go:build e2e

package machine

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/vm"
)

// withContainerd adds this machine's containerd, as a unit and with the check of it.
func withContainerd(t *testing.T, o options) options {
	t.Helper()
	program, err := exec.LookPath("containerd")
	if err != nil {
		t.Skip("needs containerd: apt-get install containerd")
	}
	if o.files == nil {
		o.files, o.units = map[string]vm.File{}, map[string]string{}
	}
	o.checks += runtimeCheck
	o.files["/usr/bin/containerd"] = vm.File{From: program, Mode: 0o755}
	o.files[containerdConfig] = vm.File{Content: "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\nsnapshotter = \"native\"\n"}
	o.units["containerd.service"] = containerdUnit
	return o
}

// restartTime is what the restart of containerd may take: a busy machine may be slow to
// start it, which is no reason to kill it. The runner may be silent for a minute longer.
const restartTime = outage

// overdue is for an outage that is longer than the runner may be silent.
const overdue = 2 * restartTime

func TestAContainerRuntimeThatHangsIsRestartedOnceAlthoughTheAPIServerIsCutOff(t *testing.T) {
	s := begin(t)
	n := s.start("runtime", withContainerd(t, options{}))
	n.Until(moment, "the runtime is healthy", n.Is(runtimeCondition, corev1.ConditionFalse))
	policy := n.Shipped("container-runtime")
	policy.Steps[0].Timeout = *story.Duration(restartTime)
	n.Apply(n.name+"-container-runtime", policy)
	show := "systemctl show --value --property=MainPID,NRestarts containerd.service"
	before := strings.Fields(n.run(show))

	n.run("touch " + hold + "; kill -STOP " + before[0])
	n.Until(round, "the runtime is seen to hang", n.Is(runtimeCondition, corev1.ConditionTrue))
	n.Proved("a stopped containerd is seen: %s", n.Condition(runtimeCondition).Reason)
	action := n.claimed(v1alpha1.RemedyRestartUnit)
	n.Until(round, "containerd is being started", n.tries("systemctl show --property=ActiveState containerd.service | grep =activating"))
	n.cutOff()
	n.run("rm " + hold)
	n.Until(round, "containerd has another process", n.tries("test $(systemctl show --value --property=MainPID containerd.service) != "+before[0]+
		" && systemctl is-active containerd.service"))
	n.Until(overdue, "people are told that nobody reports", func() (bool, string) {
		got, blocked := story.State(n.Remediation())
		return strings.HasPrefix(blocked, "NoReport:"), fmt.Sprintf("remediation %s, blocked by %q", got, blocked)
	})
	n.reconnect(action)
	n.Until(round, "the node has recovered", n.Reaches(v1alpha1.ReasonRecovered))
	n.executed("restartUnit Succeeded")
	after := strings.Fields(n.run(show))
	result := n.Result(action.Name)
	if result.Unit == nil || result.Unit.State != "active (running)" {
		t.Errorf("the result is %+v", result)
	}
	if started := n.run("journalctl --no-pager --boot --unit=containerd.service | grep -c 'Started containerd'"); started != "2" || after[1] != before[1] {
		t.Errorf("containerd was started %s times, %s of them by itself, want twice", started, after[1])
	}
	n.inService()
	n.Proved("restarted once, cut off meanwhile for %s: MainPID %s, then %s", time.Since(n.cut.at).Round(time.Second), before[0], after[0])
}
