//go:build e2e

package machine

import (
	"path"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/vm"
)

// podUnit plays the pod of a DaemonSet that installs a role: it starts only where the
// container runtime does, and what ends in it is started anew as by a kubelet.
const podUnit = `[Unit]
Requires=containerd.service
After=containerd.service
StartLimitIntervalSec=0
[Service]
ExecStart=@ExecStart@
Restart=always
RestartSec=10s
`

// pod has a role installed as a unit of the host.
func (n *node) pod(role string, files map[string]vm.File, units map[string]string) {
	n.Helper()
	credentials := "/var/lib/pods/" + role
	command := append([]string{
		agent, "host-units", "install", "--role=" + role, "--host-root=/", "--credentials-dir=" + credentials,
		"--server=" + n.plane.server(), "--node-name=" + n.name, "--",
	}, flags(role)...)
	units["pod-"+role+".service"] = strings.Replace(podUnit, "@ExecStart@", strings.Join(command, " "), 1)
	config := n.account(role)
	files[path.Join(credentials, "token")] = vm.File{Content: config.BearerToken, Mode: 0o600}
	files[path.Join(credentials, "ca.crt")] = vm.File{Content: string(config.CAData)}
}

func TestHostUnitsReportFixAndProveOnANodeThatBootsWithABrokenRuntime(t *testing.T) {
	s := begin(t)
	n := s.start("host-units", withContainerd(t, options{hostUnits: true}))
	n.Until(round, "the installed detector reports a healthy runtime", n.Is(runtimeCondition, corev1.ConditionFalse))
	const agents = "nodemend-detector.service nodemend-runner.service"
	n.installed()
	n.Proved("installed by their pods: %s", agents)
	const good = "/var/lib/good.toml"
	n.Apply(n.name+"-"+"broken-configuration", v1alpha1.RemedyPolicySpec{
		Match: []v1alpha1.ConditionMatch{{Type: runtimeCondition, Status: corev1.ConditionTrue}},
		Steps: []v1alpha1.Step{{
			Command: &v1alpha1.CommandRemedy{Script: "cp " + good + " " + containerdConfig + " && systemctl restart containerd.service && echo mended"},
		}},
		Recovery: v1alpha1.Recovery{HealthyFor: *story.Duration(3 * time.Second)},
	})

	n.run("cp " + containerdConfig + " " + good + "; echo broken >" + containerdConfig + "; sync")
	broken := time.Now()
	n.cutOff()
	n.Must(n.machine.Reset(n.Ctx))
	n.boots(2)
	if out := n.run("systemctl is-active containerd.service pod-detector.service pod-runner.service; true"); strings.Contains("\n"+out+"\n", "\nactive\n") {
		t.Fatalf("containerd and the pods are %q although containerd is broken", out)
	}
	n.Until(round, "the units run", n.tries("systemctl is-active nodemend-detector.service && systemctl is-active nodemend-runner.service"))
	n.reconnect()
	back := time.Now()
	n.Until(round, "the detector's unit reports the runtime of this boot", n.Confirms(runtimeCondition, corev1.ConditionTrue, broken))
	n.Proved("after a boot without a runtime, cut off for %s, the unit reports: %s", outage, n.Condition(runtimeCondition).Reason)
	action := n.claimed(v1alpha1.RemedyCommand)
	n.Proved("acted on %.0f s after it was back", time.Since(back).Seconds())
	n.Until(round, "the node has recovered", n.Reaches(v1alpha1.ReasonRecovered))
	n.executed("command Succeeded")
	result := n.Result(action.Name)
	if strings.TrimSpace(result.Output) != "mended" { // in whatever way it was executed
		t.Errorf("the result is %+v", result)
	}
	n.Proved("the runner's unit has run a command, %s: %s", result.Execution, strings.TrimSpace(result.Output))
	if out := n.run("systemctl is-active containerd.service"); out != "active" {
		t.Errorf("containerd is %s", out)
	}
	n.inService()

	// The pods find all as they have left it.
	pids := "systemctl show --value --property=MainPID " + agents
	before := n.run(pids)
	n.run("systemctl start pod-detector.service pod-runner.service")
	n.installed()
	if after := n.run(pids); after != before {
		t.Errorf("the pods that came back have restarted the units: main processes %q, then %q", before, after)
	}
	n.Proved("pods that came back have left the units alone")
}

// installed waits until the pods of this boot have installed both roles.
func (n *node) installed() {
	n.Helper()
	for _, role := range []string{"detector", "runner"} {
		n.Until(round, "the pod of the "+role+" has installed it", n.tries("journalctl --no-pager --boot --unit=pod-"+role+".service | grep 'staying to keep it so'"))
	}
}
