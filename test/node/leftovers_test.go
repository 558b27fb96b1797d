//go:build e2e

package node_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/node"
)

// helperEnv makes this test binary start a node and hold it. It names the cluster's
// directory.
const helperEnv = "NODE_TEST_HELPER"

// A cluster's programs die likewise.
func TestANodeDiesWithAKilledTestAndTheNextRemovesItsRemains(t *testing.T) {
	g := NewWithT(t)
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperHoldsANode$", "-test.v")
	parent.Env = append(os.Environ(), helperEnv+"="+t.TempDir())
	out, err := parent.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(parent.Start()).To(Succeed())
	held := parent.Process.Pid
	lines, started := bufio.NewScanner(out), false
	for !started && lines.Scan() {
		t.Log(lines.Text())
		started = lines.Text() == "started"
		if strings.HasPrefix(lines.Text(), "--- SKIP") {
			t.Skip("no node can run here; the other test says why")
		}
	}
	g.Expect(started).To(BeTrue())
	g.Expect(processes(held)).NotTo(BeEmpty())

	g.Expect(parent.Process.Kill()).To(Succeed())
	g.Expect(parent.Wait()).To(MatchError(ContainSubstring("killed")))
	g.Eventually(processes, patience).WithArguments(held).Should(BeEmpty())
	g.Expect(remains(held)).NotTo(BeEmpty())

	s := newScene(t, start(t, "next"))
	g.Expect(remains(held)).To(BeEmpty())
	other := start(t, "other")
	g.Expect(s.ready()).To(Equal(corev1.ConditionTrue), "a second one leaves the first alone")
	for _, n := range []*node.Node{s.node, other} {
		g.Expect(n.Stop()).To(Succeed())
		// Else pods would be scheduled to it.
		g.Expect(s.api.CoreV1().Nodes().Delete(t.Context(), n.Name, metav1.DeleteOptions{})).To(Succeed())
	}
	g.Expect(remains(os.Getpid())).To(BeEmpty())
}

// TestHelperHoldsANode is the parent in the test above, and for people who want to look
// around: NODE_TEST_HELPER=/tmp/look go test -tags e2e -run TestHelperHoldsANode -v -timeout 0 ./test/node
func TestHelperHoldsANode(t *testing.T) {
	if os.Getenv(helperEnv) == "" {
		t.Skip("runs only as the child of another test")
	}
	n := start(t, "held")
	fmt.Printf("kubectl --kubeconfig=%s get nodes\nnsenter --all --target %d\nstarted\n", clustertest.Shared(t).Kubeconfig, n.PID())
	<-t.Context().Done()
}

// machine returns what of this machine a node could leave changed, besides its remains.
func machine(t *testing.T) (state []string) {
	t.Helper()
	g := NewWithT(t)
	interfaces, err := net.Interfaces()
	g.Expect(err).NotTo(HaveOccurred())
	for _, i := range interfaces {
		state = append(state, i.Name)
	}
	for _, parameter := range []string{"kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom", "net/ipv4/ip_forward"} {
		value, err := os.ReadFile("/proc/sys/" + parameter)
		g.Expect(err).NotTo(HaveOccurred())
		state = append(state, parameter+" is "+string(value))
	}
	for _, path := range []string{"/var/lib/kubelet", "/var/log/pods", "/var/lib/cni", "/etc/cni", "/etc/kubernetes", "/etc/containerd"} {
		entries, err := filepath.Glob(path + "/*")
		g.Expect(err).NotTo(HaveOccurred())
		state = append(state, entries...)
	}
	return state
}

// remains returns the directories, mounts and control groups of the nodes that the
// process has started.
func remains(owner int) (found []string, err error) {
	if found, err = filepath.Glob(filepath.Join(os.TempDir(), prefix(owner)+"*")); err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, prefix(owner)) {
			found = append(found, line)
		}
	}
	return append(found, groups(owner)...), err
}

// groups returns all control groups of these nodes.
func groups(owner int) (found []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.Contains(path, prefix(owner)) {
			found = append(found, path)
		}
		return nil // a group that has just gone
	})
	return found
}

// processes returns those in the control groups of these nodes.
func processes(owner int) (found []string) {
	for _, group := range groups(owner) {
		list, _ := os.ReadFile(filepath.Join(group, "cgroup.procs")) // a group that has just gone has none
		found = append(found, strings.Fields(string(list))...)
	}
	return found
}

func prefix(owner int) string { return fmt.Sprintf("nodemend-node-%d-", owner) }

// unverified is for a server whose certificate is signed by itself.
func unverified() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }
