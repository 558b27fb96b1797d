//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/checks/detector"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

const runtimeUnhealthy = "ContainerRuntimeUnhealthy"

// The whole path with nothing played: a real containerd is stopped, the real
// detector sees it, and the policy's command wakes it.
func TestAStalledContainerdIsWokenOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to start containerd")
	}
	program, err := exec.LookPath("containerd")
	if err != nil {
		t.Skip("needs containerd: apt-get install containerd runc")
	}
	s := newScene(t, "containerd", 1, "1")
	node := s.nodes[0]
	containerd, socket := s.startContainerd(program)

	s.policyFor(runtimeUnhealthy, shell(fmt.Sprintf("echo ran >> %s; kill -CONT %d", s.path("runs"), containerd.Pid)))
	s.startDetector(node, socket)
	s.startRunners()
	s.startController()
	s.Eventually(s.condition).WithArguments(node).Should(HaveField("Status", corev1.ConditionFalse))
	s.Expect(s.remediations(node)).To(BeEmpty())

	stopped := time.Now()
	s.Expect(containerd.Signal(syscall.SIGSTOP)).To(Succeed())
	s.Eventually(s.condition).WithArguments(node).WithTimeout(20 * time.Second).
		Should(HaveField("Status", corev1.ConditionTrue))
	t.Logf("condition True %s after SIGSTOP", time.Since(stopped).Round(time.Millisecond))

	s.expectHealedOnce()
	t.Logf("recovered %s after SIGSTOP", time.Since(stopped).Round(time.Millisecond))
	s.Expect(s.condition(node).Status).To(Equal(corev1.ConditionFalse))
	action := s.actions(node)[0]
	s.Expect(action.Spec.NodeName).To(Equal(node))
	s.Expect(action.Finished().Reason).To(Equal(v1alpha1.ReasonSucceeded))
	s.Expect(s.remediations(node)[0].Spec.Trigger.Reason).To(Equal("StatusTimeout"))
}

// startContainerd starts a containerd of its own, without any workload, and
// ends it with the test.
func (s *scene) startContainerd(program string) (process *os.Process, socket string) {
	// Not below the test's directory: a unix socket's path has 108 characters.
	dir, err := os.MkdirTemp("", "nodemend-containerd-")
	s.Expect(err).NotTo(HaveOccurred())
	s.t.Cleanup(func() { s.Expect(os.RemoveAll(dir)).To(Succeed()) })
	socket = dir + "/containerd.sock"
	s.Expect(os.WriteFile(dir+"/config.toml", fmt.Appendf(nil, `version = 2
root = %q
state = %q
[grpc]
  address = %q
[ttrpc]
  address = %q
[plugins."io.containerd.internal.v1.opt"]
  path = %q
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
`, dir+"/root", dir+"/state", socket, socket+".ttrpc", dir+"/opt"), 0o600)).To(Succeed())

	logFile, err := os.Create(s.path("containerd.log"))
	s.Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(context.WithoutCancel(s.ctx), program, "--config", dir+"/config.toml")
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.Expect(cmd.Start()).To(Succeed())
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // works on a stopped process, too
		_ = cmd.Wait()
		_ = logFile.Close()
	})
	s.Eventually(socket).Should(BeAnExistingFile())
	return cmd.Process, socket
}

// startDetector starts the real detector of a node, with short intervals.
func (s *scene) startDetector(node, socket string) (stop func()) {
	c := config.Default()
	c.Heartbeat.ProblemInterval.Duration = time.Second
	c.Checks.ContainerRuntime.Endpoint = "unix://" + socket
	c.Checks.ContainerRuntime.Interval.Duration = time.Second
	c.Checks.ContainerRuntime.Timeout.Duration = time.Second
	return s.spawn("detector of "+node, func(ctx context.Context) error {
		return detector.Run(ctx, detector.Options{NodeName: node, Config: c, Client: s.cfg})
	})
}

// condition returns the node's ContainerRuntimeUnhealthy, zero when absent.
func (s *scene) condition(node string) corev1.NodeCondition {
	var n corev1.Node
	s.Expect(s.client.Get(s.ctx, types.NamespacedName{Name: node}, &n)).To(Succeed())
	if c := fleet.Condition(&n, runtimeUnhealthy); c != nil {
		return *c
	}
	return corev1.NodeCondition{}
}
