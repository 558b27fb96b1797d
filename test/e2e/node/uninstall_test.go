//go:build e2e

package node_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestAnUninstallLeavesNothingRunningCordonedOrInstalled(t *testing.T) {
	s := begin(t)
	s.onFault("cordoned", v1alpha1.Step{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "a test"}})
	s.run("touch " + faultFile)
	s.Until(round, "the node is in maintenance", s.Reaches(v1alpha1.ReasonInMaintenance))

	out, err := s.kubectlNodemend(s.Ctx, "uninstall")
	s.Must(err)
	if !strings.Contains(out, "1 node would be given back") {
		t.Errorf("it does not show what would be done: %s", out)
	}
	_, err = s.kubectlNodemend(s.Ctx, "uninstall", "--yes", "--timeout=300s")
	s.Must(err)
	if n := s.Object(); n.Spec.Unschedulable || strings.Contains(fmt.Sprint(n.Annotations, n.Labels), "nodemend") {
		t.Errorf("the node is %v, annotations %v, labels %v", n.Spec, n.Annotations, n.Labels)
	}
	s.Proved("kubectl nodemend uninstall has given the node back and deleted all objects")

	s.run("rm " + faultFile)

	// As docs/install.md has it.
	s.installed = false
	stop := s.cluster.RemindOfCRDs(s.Ctx)
	s.kubectlMust("delete", "-f", s.manifests, "--ignore-not-found", "--timeout=300s")
	s.kubectlMust("delete", "-f", s.dir+"/crds.yaml", "--timeout=300s")
	s.Must(stop())
	for _, kinds := range []string{
		"customresourcedefinitions,namespaces", "validatingadmissionpolicies,validatingadmissionpolicybindings",
		"clusterroles,clusterrolebindings,priorityclasses", "--all-namespaces all,roles,rolebindings,configmaps,secrets,serviceaccounts,leases,networkpolicies,poddisruptionbudgets",
	} {
		for object := range strings.Lines(s.kubectlMust(append([]string{"get", "--output=name"}, strings.Fields(kinds)...)...)) {
			if strings.Contains(object, "nodemend") {
				t.Errorf("the cluster still has %s", object)
			}
		}
	}
	s.Proved("no object of the cluster bears its name any more")

	for _, n := range s.nodes {
		s.node, s.NodeName = n, n.Name
		s.nothingLeft()
	}
	s.Proved("no process, unit, mount or control group is left on the nodes; files only where docs/install.md says")
}

// nothingLeft looks for what the node may not have any more.
func (s *scenario) nothingLeft() {
	s.Helper()
	script := &strings.Builder{}
	for what, look := range map[string]string{
		"a process":       `for exe in /proc/[0-9]*/exe; do readlink $exe; done | grep nodemend`,
		"a unit":          `systemctl list-units --all --plain --no-legend "nodemend*"; ls /etc/systemd/system /run/systemd/system /run/systemd/transient | grep nodemend`,
		"a mount":         `cut -d" " -f5 /proc/self/mountinfo | grep nodemend`,
		"a container":     `ctr --namespace=k8s.io containers ls | grep ` + image,
		"a control group": `find /sys/fs/cgroup -type d -name "nodemend*"`,
		"a file":          `find /etc /run /var /usr /opt -xdev -path "*nodemend*" ! -path "/etc/nodemend*" ! -path "/run/nodemend*" ! -path "/var/lib/nodemend*" ! -path "/var/lib/containerd/*" ! -path "/var/log/*"`,
	} {
		script.WriteString("(" + look + ") 2>/dev/null | sed 's#^#" + what + ": #'\n")
	}
	s.Until(moment, "nothing of it is left on node "+s.node.Name, func() (bool, string) {
		found := s.run(script.String() + "true")
		return found == "", found
	})
}
