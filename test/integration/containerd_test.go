//go:build integration

package integration

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/checks/detector"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/containerd"
)

const runtimeUnhealthy = "ContainerRuntimeUnhealthy"

// The whole path with nothing played: a real containerd is stopped, the real
// detector sees it, and the policy's command wakes it.
func TestAStalledContainerdIsWokenOnce(t *testing.T) {
	runtime := containerd.Start(t)
	s := newScene(t, "containerd", 1, "1")
	node := s.nodes[0]

	s.policyFor(runtimeUnhealthy, shell(fmt.Sprintf("echo ran >> %s; kill -CONT %d", s.path("runs"), runtime.Process.Pid)))
	s.startDetector(node, runtime.Endpoint)
	s.startRunners()
	s.startController()
	s.Eventually(s.condition).WithArguments(node).Should(HaveField("Status", corev1.ConditionFalse))
	s.Expect(s.remediations(node)).To(BeEmpty())

	stopped := time.Now()
	s.Expect(runtime.Process.Signal(syscall.SIGSTOP)).To(Succeed())
	s.Eventually(s.condition).WithArguments(node).WithTimeout(20 * time.Second).
		Should(HaveField("Status", corev1.ConditionTrue))
	t.Logf("condition True %s after SIGSTOP", time.Since(stopped).Round(time.Millisecond))

	s.expectHealedOnce()
	t.Logf("recovered %s after SIGSTOP", time.Since(stopped).Round(time.Millisecond))
	s.Expect(s.condition(node).Status).To(Equal(corev1.ConditionFalse))
	action := s.actions(node)[0]
	s.Expect(action.Spec.NodeName).To(Equal(node))
	s.Expect(action.Finished().Reason).To(Equal(v1alpha1.ReasonSucceeded))
	s.Expect(s.remediations(node)[0].Spec.Trigger.Reason).To(Equal("Timeout"))
}

// startDetector starts the real detector of a node, with short intervals.
func (s *scene) startDetector(node, endpoint string) (stop func()) {
	c := config.Default()
	c.Heartbeat.ProblemInterval.Duration = time.Second
	c.StateFile, c.Socket = "", ""
	c.Checks.Only = []string{"runtime"}
	c.Checks.Runtime.Endpoint = endpoint
	c.Checks.Runtime.Interval.Duration = time.Second
	c.Checks.Runtime.Timeout.Duration = time.Second
	c.Checks.Runtime.StartupGrace.Duration = 0
	return s.spawn("detector of "+node, func(ctx context.Context) error {
		return detector.Run(ctx, detector.Options{NodeName: node, Config: c, Client: s.cfg})
	})
}

// condition returns the node's ContainerRuntimeUnhealthy, zero when absent.
func (s *scene) condition(node string) corev1.NodeCondition {
	var n corev1.Node
	s.Expect(s.client.Get(s.ctx, types.NamespacedName{Name: node}, &n)).To(Succeed())
	if c := v1alpha1.FindNodeCondition(&n, runtimeUnhealthy); c != nil {
		return *c
	}
	return corev1.NodeCondition{}
}
