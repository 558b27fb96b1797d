//go:build e2e

package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/test/cluster"
)

// The plugin asks a node by kubectl exec in the pod of its detector. These nodes have no BMC, which
// is what the program in the pod answers.
func TestANodeIsAskedForItsHardwareInThePodOfItsDetector(t *testing.T) {
	s := begin(t)
	kubectl, err := cluster.Program("kubectl")
	s.Must(err)
	t.Setenv("PATH", filepath.Dir(kubectl)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	out, err := s.kubectlNodemend(s.Ctx, "hardware", "describe", s.node.Name)
	s.Must(err)
	flat := strings.Join(strings.Fields(out), " ") // it is folded
	if !strings.Contains(flat, "The node was not asked: pod "+namespace+"/nodemend-detector-") || !strings.Contains(flat, "no BMC found") {
		t.Errorf("the pod of the detector has not answered that there is no BMC:\n%s", out)
	}
	s.Proved("kubectl nodemend hardware describe has asked the detector's pod, which has no BMC")
}
