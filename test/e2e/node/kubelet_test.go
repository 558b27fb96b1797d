//go:build e2e

package node_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/test/e2e/story"
)

const kubelet = "kubelet.service"

func TestAStoppedKubeletIsRestartedAndContainersGoOn(t *testing.T) {
	s := begin(t)
	containers := s.containers()
	s.Apply("kubelet", s.Shipped("kubelet"))

	s.run("systemctl stop " + kubelet)
	took := s.Until(moment, "the detector sees that the kubelet is down", s.Is(kubeletCondition, corev1.ConditionTrue))
	s.Proved("%s after %.0f s", story.Describe(s.Condition(kubeletCondition)), took.Seconds())
	s.recovered("restartUnit Succeeded")
	s.Proved("kubelet.service runs again: main process %d", s.mainPID(kubelet))
	s.untilHealthy()
	s.untouched(containers)
}
