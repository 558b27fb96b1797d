//go:build e2e

package node_test

import (
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/e2e/story"
)

const containerd = "containerd.service"

func (s *scenario) mainPID(unit string) int {
	s.Helper()
	pid, err := s.node.MainPID(s.Ctx, unit)
	s.Must(err)
	return pid
}

func TestAStalledContainerRuntimeIsRestartedAndNoWorkloadNotices(t *testing.T) {
	s := begin(t)
	containers, pid := s.containers(), s.mainPID(containerd)
	s.Apply("container-runtime", s.Shipped("container-runtime"))

	s.Must(s.node.Signal(s.Ctx, containerd, syscall.SIGSTOP))
	took := s.Until(moment, "the detector sees the stall", s.Is(runtimeCondition, corev1.ConditionTrue))
	s.Proved("%s after %.0f s", story.Describe(s.Condition(runtimeCondition)), took.Seconds())
	s.recovered("restartUnit Succeeded")
	if s.mainPID(containerd) == pid {
		t.Error("containerd's main process is still the same")
	}
	s.untilHealthy()
	s.untouched(containers)
}

func TestTheRunnerOutlivesARestartOfTheRuntimeThatItRunsIn(t *testing.T) {
	s := begin(t)
	containers, pid := s.containers(), s.mainPID(containerd)
	s.onFault("restart-runtime", script("systemctl kill --kill-who=main --signal=KILL "+containerd+"\nsystemctl restart "+containerd+"\nsleep 2\nrm "+faultFile+"\necho restarted"))

	s.run("touch " + faultFile)
	action := s.claimed()
	s.recovered("command Succeeded")
	if s.mainPID(containerd) == pid {
		t.Error("containerd's main process is still the same")
	}
	s.ranOnce(action, "restarted")
	s.untouched(containers)
}

// ranOnce proves that an action's script has run once, in full and on its own.
func (s *scenario) ranOnce(action *v1alpha1.NodeAction, lastLine string) {
	s.Helper()
	if ran := s.run("cat " + ranFile); ran != "ran" {
		s.Fatalf("the script has run more or less than once: %q", ran)
	}
	result := s.Result(action.Name)
	if result.ExitCode == nil || *result.ExitCode != 0 || result.Execution != v1alpha1.ExecutionTransientUnit || !endsWith(result.Output, lastLine) {
		s.Fatalf("the result is %+v, want exit status 0 as a %s and %q at the end", result, v1alpha1.ExecutionTransientUnit, lastLine)
	}
	s.Proved("the command has run once, as a %s, and succeeded: %q", result.Execution, lastLine)
}
