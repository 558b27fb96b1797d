//go:build e2e

package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/ipmisim"
	"github.com/nodemend/nodemend/test/redfish"
)

// switches writes remote.yaml, whose entries are these.
func (s *scenario) switches(config string, entries ...string) {
	s.Helper()
	s.Must(os.WriteFile(config, []byte("switches:\n"+strings.Join(entries, "")), 0o600))
}

// byIPMI is the entry of remote.yaml for a machine that a BMC switches.
func (n *node) byIPMI(bmc *ipmisim.Simulator) string {
	host, port := bmc.LAN()
	return fmt.Sprintf("- nodes: {names: [%s]}\n  ipmi: {host: %s, port: %d, user: %s, passwordFile: %s}\n",
		n.name, host, port, ipmisim.Operator, bmc.PasswordFile())
}

// byRedfish starts a Redfish service that switches the machine, and returns its entry.
func (n *node) byRedfish(uuid string) string {
	n.Helper()
	service := redfish.Start(n, &redfish.System{UUID: uuid, Machine: n.machine})
	return fmt.Sprintf("- nodes: {names: [%s]}\n  redfish: {url: %s, user: %s, passwordFile: %s, caFile: %s}\n",
		n.name, service.URL(), redfish.User, service.PasswordFile(), service.CAFile())
}

// fenceIPMILAN is the script before an agent that docs/fencing.md asks for: it asks the BMC which
// machine it is.
const fenceIPMILAN = `#!/bin/sh
input=$(cat)
value() { printf '%s\n' "$input" | sed -n "s/^$1=//p"; }
printf '%s\n' "$input" | fence_ipmilan
status=$?
if [ "$(value action)" = status ]; then
	IPMI_PASSWORD=$(value password) ipmitool -E -I lanplus -C "$(value cipher)" -H "$(value ip)" -p "$(value ipport)" -U "$(value username)" mc guid |
		sed -n 's/^System GUID *: */uuid=/p'
fi
exit $status
`

// byProgram is the entry for a machine whose BMC is switched by fence_ipmilan.
func (n *node) byProgram(bmc *ipmisim.Simulator) string {
	n.Helper()
	path := filepath.Join(n.TempDir(), "fence")
	n.Must(os.WriteFile(path, []byte(fenceIPMILAN), 0o700))
	host, port := bmc.LAN()
	return fmt.Sprintf("- nodes: {names: [%s]}\n  program:\n    path: %s\n    options: {ip: %s, ipport: %q, lanplus: %q, cipher: %q, username: %s}\n    secretFiles: {password: %s}\n",
		n.name, path, host, strconv.Itoa(port), "1", "3", ipmisim.User, bmc.PasswordFile())
}

// standsStill has the hypervisor stop the machine, and a policy that cuts its power. It returns the
// number of the boot.
func (n *node) standsStill() (boot int) {
	n.Helper()
	n.kubelet.cutOff.Store(true)
	n.Must(n.machine.Pause(n.Ctx))
	n.leaveAlone()
	n.Apply(n.name+"-power", powerCycled(v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}))
	return len(n.machine.Boots())
}

// leaveAlone deletes the policies of the node.
func (n *node) leaveAlone() {
	n.Helper()
	n.Must(n.plane.DeleteAllOf(n.Ctx, &v1alpha1.RemedyPolicy{}, client.MatchingLabels{corev1.LabelHostname: n.name}))
}

// powerCycled is a policy for nodes that do not answer.
func powerCycled(reboot v1alpha1.RebootRemedy) v1alpha1.RemedyPolicySpec {
	return v1alpha1.RemedyPolicySpec{
		// Longer than it takes until nothing has been heard of it for 50 s.
		Match: []v1alpha1.ConditionMatch{{Type: string(corev1.NodeReady), Status: corev1.ConditionUnknown, For: *story.Duration(45 * time.Second)}},
		Steps: []v1alpha1.Step{{Reboot: &reboot, Timeout: *story.Duration(20 * time.Minute), VerifyTimeout: *story.Duration(10 * time.Second)}},
	}
}

// isPowerCycled waits until a machine that stood still runs in the boot after this one.
func (n *node) isPowerCycled(by string, boot int) {
	n.Helper()
	n.boots(boot + 1)
	n.kubelet.cutOff.Store(false)
	n.Until(round, "the node has recovered", n.Reaches(v1alpha1.ReasonRecovered))
	r := n.Remediation()
	for _, a := range n.actions() {
		if a.Spec.RemediationUID != r.UID {
			continue
		}
		f, power := a.Finished(), a.Status.Power
		if len(r.Status.History) != 1 || f == nil || f.Reason != v1alpha1.ReasonSucceeded || power == nil || power.Proof == nil {
			n.Fatalf("the history is %+v, and the action %+v, want one power cycle with a proof", r.Status.History, a.Status)
		}
		n.inService()
		n.Proved("a machine that its hypervisor had stopped was switched off and on by %s, and is in a new boot: it was proved to be off %.1f s after the claim",
			by, power.Proof.Second.Time.Sub(a.Status.Claim.Time.Time).Seconds())
		return
	}
	n.Fatalf("remediation %s has no action", r.Name)
}
