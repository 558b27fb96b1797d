//go:build e2e

package node_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodemend/nodemend/test/e2e/story"
	"github.com/nodemend/nodemend/test/node"
)

// Limits of waits. Usual are a tenth of them; others may be busy on this machine.
const (
	// moment is for what is a matter of seconds.
	moment = 2 * time.Minute
	// round is for a remediation to go on to its next state: checks have to run several
	// times, perhaps after a restart.
	round = 5 * time.Minute

	poll = 200 * time.Millisecond
)

// scenario is a test that says what it has proved. Its fault is on one node.
type scenario struct {
	*story.Node
	*place
	node *node.Node
}

// begin begins a scenario where most are.
func begin(t *testing.T) *scenario {
	t.Helper()
	return beginAt(t, sharedPlace(t))
}

// beginAt begins one whose fault is on the first node of a place.
func beginAt(t *testing.T, p *place) *scenario {
	t.Helper()
	s := &scenario{place: p, node: p.nodes[0]}
	s.Node = &story.Node{Story: &story.Story{T: t, Ctx: longer(t), Poll: poll}, API: p, NodeName: s.node.Name}
	t.Cleanup(func() {
		if t.Failed() {
			s.keepLogs()
		}
	})
	t.Cleanup(s.cleanUp)
	s.untilHealthy()
	return s
}

// cleanUp ends all faults, deletes all that the scenario has created for Nodemend, and
// waits until the nodes are healthy again.
func (s *scenario) cleanUp() {
	if !s.installed {
		return
	}
	s.run("systemctl kill --kill-who=main --signal=CONT containerd.service; rm -f " + faultFile + " " + ranFile + " " + goOnFile + "; systemctl start containerd.service kubelet.service")
	for _, kind := range []string{"remedypolicies", "nodemaintenances", "remediations"} {
		s.kubectlMust("delete", kind, "--all", "--timeout=300s")
	}
	s.kubectlMust("delete", "remediations", "--all", "--timeout=300s") // their tombstones
	s.untilHealthy()
}

// keepLogs writes what is known of all parts to the directory of logs.
func (s *scenario) keepLogs() {
	dir := filepath.Join(s.dir, filepath.Base(s.Name()))
	write := func(name, content string, err error) {
		path := filepath.Join(dir, name)
		if err != nil {
			content += "\n" + err.Error()
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			_ = os.WriteFile(path, []byte(content), 0o600) // the test has failed already
		}
	}
	const lines = 100000
	for _, n := range s.nodes {
		journal, err := n.Journal(s.Ctx, lines)
		write("journal-"+n.Name+".log", journal, err)
		for _, pod := range s.pods(n.Name) {
			log, err := n.PodLogs(pod.Namespace, pod.Name)
			write(filepath.Join("pods", n.Name, pod.Name+".log"), log, err)
		}
	}
	for _, kinds := range []string{"remediations,nodeactions,nodemaintenances,remedypolicies,remediationbudgets", "nodes", "pods", "events"} {
		objects, err := s.kubectl(s.Ctx, "get", kinds, "--all-namespaces", "--output=yaml")
		write(kinds+".yaml", objects, err)
	}
	s.Log("the logs of all parts are in ", dir)
}
