//go:build integration

package integration

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
	"github.com/nodemend/nodemend/test/faults"
)

// maxWrites is more than the controller writes in one story.
const maxWrites = 40

// The controller is stopped before its n-th write is sent, and in another run
// after it was committed but before the answer arrives, for every n; the one
// that is started after it has to bring the story to the same end.
func TestAControllerThatDiesAtAnyWriteIsTakenOverByTheNext(t *testing.T) {
	dieAtEveryWrite(t, "heal", (*scene).newSickNode, (*scene).expectHealedOnce)
}

// The same, in a story that does not end well.
func TestAControllerThatDiesAtAnyWriteOfAnExhaustingStoryIsTakenOverByTheNext(t *testing.T) {
	dieAtEveryWrite(t, "exhaust", (*scene).newIncurableNode, (*scene).expectExhaustedOnce)
}

func dieAtEveryWrite(t *testing.T, name string, begin, expect func(*scene)) {
	t.Helper()
	for _, mode := range []faults.Mode{faults.Before, faults.After} {
		t.Run(string(mode), func(t *testing.T) {
			for n := 1; n <= maxWrites; n++ {
				s := fmt.Sprintf("%s-%s-%d", name, mode, n)
				if !dieAtWrite(t, s, mode, n, begin, expect) {
					if n < 6 {
						t.Fatalf("only %d writes in the whole story", n-1)
					}
					t.Logf("the story has %d writes", n-1)
					return
				}
			}
			t.Errorf("the story has more than %d writes", maxWrites)
		})
	}
}

// dieAtWrite runs the story with a controller that dies at the n-th write. It
// returns whether it died, which it does not when there are fewer writes.
func dieAtWrite(t *testing.T, name string, mode faults.Mode, n int, begin, expect func(*scene)) (died bool) {
	t.Helper()
	t.Run(fmt.Sprintf("write %d", n), func(t *testing.T) {
		s := newScene(t, name, 1, "1")
		begin(s)
		transport := &faults.Transport{At: n, Mode: mode, Dead: true}
		cfg := rest.CopyConfig(s.cfg)
		cfg.Wrap(transport.Wrap)
		stop := s.startControllerOn(cfg)

		s.Eventually(func() bool { return transport.Faults() > 0 || s.over(s.nodes[0]) }).Should(BeTrue())
		stop()
		if died = transport.Faults() > 0; died {
			s.startController()
		}
		expect(s)
	})
	return died
}

// over reports whether nothing more will happen to the node by itself.
func (s *scene) over(node string) bool {
	return (s.ended(node) || s.state(node) == "Exhausted") && len(s.permits()) == 0
}

// newSickNode makes the node sick until the policy's command has run, which
// counts how often it does.
func (s *scene) newSickNode() {
	s.policy(shell(fmt.Sprintf("echo ran >> %s; rm -f %s", s.path("runs"), s.path("sick"))))
	s.touch("sick")
	s.detect(s.nodes[0], "sick")
	s.startRunners()
}

// newHeldNode makes the node sick until the policy's command has run, which
// takes until the file "hold" is removed.
func (s *scene) newHeldNode() {
	s.policy(shell(fmt.Sprintf("echo ran >> %s; while [ -e %s ]; do :; done; rm -f %s",
		s.path("runs"), s.path("hold"), s.path("sick"))))
	s.touch("sick")
	s.touch("hold")
	s.detect(s.nodes[0], "sick")
	s.startRunners()
}

// newIncurableNode makes the node sick, whatever is done.
func (s *scene) newIncurableNode() {
	s.policy(shell("echo ran >> " + s.path("runs")))
	s.touch("sick")
	s.detect(s.nodes[0], "sick")
	s.startRunners()
}

// expectExhaustedOnce waits for the end of that story: one execution, nothing
// more, and the permit returned.
func (s *scene) expectExhaustedOnce() {
	s.t.Helper()
	s.Eventually(s.state).WithArguments(s.nodes[0]).Should(Equal("Exhausted"))
	s.Eventually(s.permits).Should(BeEmpty())
	s.Expect(s.lines("runs")).To(Equal(1), "executions")
	s.Expect(s.actions(s.nodes[0])).To(HaveLen(1))
}

// expectHealedOnce waits for the end of the story and expects that it is the
// one and only: one remediation, one action, one execution, recovered, the
// permit returned.
func (s *scene) expectHealedOnce() {
	s.t.Helper()
	node := s.nodes[0]
	s.Eventually(func() bool { return s.ended(node) }).Should(BeTrue())
	s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonRecovered))
	s.Eventually(s.permits).Should(BeEmpty())
	s.Expect(s.lines("runs")).To(Equal(1), "executions")
	s.Expect(s.actions(node)).To(HaveLen(1))
	history := s.remediations(node)[0].Status.History
	s.Expect(history).To(HaveLen(1))
	s.Expect(history[0].Outcome).To(Equal(v1alpha1.ReasonSucceeded))
}

// The real program, leader election included, killed while the command runs.
func TestAKilledControllerIsTakenOverByTheNext(t *testing.T) {
	s := newScene(t, "kill", 1, "1")
	s.newHeldNode()

	binary := filepath.Join(s.dir, "nodemend")
	out, err := exec.CommandContext(s.ctx, "go", "build", "-o", binary, "../../cmd/nodemend").CombinedOutput()
	s.Expect(err).NotTo(HaveOccurred(), string(out))
	start := func() *exec.Cmd {
		cmd := exec.CommandContext(context.WithoutCancel(s.ctx), binary, "controller",
			"--kubeconfig="+clustertest.Shared(t).Kubeconfig, "--leader-election-namespace=default")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		var log strings.Builder
		cmd.Stderr = &log
		s.Expect(cmd.Start()).To(Succeed())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if t.Failed() {
				t.Log(log.String())
			}
		})
		return cmd
	}
	first := start()
	s.Eventually(func() int { return s.lines("runs") }).Should(Equal(1))
	s.Expect(first.Process.Kill()).To(Succeed())
	_ = first.Wait() // killed
	s.remove("hold")
	start()
	s.expectHealedOnce()
}
