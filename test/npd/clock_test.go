//go:build integration

package npd

import (
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheTimesOfAConditionAreRightOnANodeWhoseClockIsNot(t *testing.T) {
	t.Parallel()
	expectOfUpstreamOnly(t, func(s *scene) []finding {
		const behind = 10 * time.Minute
		s.createNode()
		s.door(behind)
		s.customPlugins(plugins("500ms", "20s", s.rule("HardwareFailure", `[ -e hot ] || exit 0; echo DIMM A1; exit 1`)))
		p := s.start()
		s.confirmed("HardwareFailure", corev1.ConditionFalse, p.started)
		s.touch("hot")
		c := s.confirmed("HardwareFailure", corev1.ConditionTrue, p.started)
		evidence := fmt.Sprintf("%s; by the API server it is %s", describe(c), clock(metav1.NewTime(time.Now().Add(behind))))
		wrong := func(t metav1.Time) bool { return time.Until(t.Time) < behind/2 }
		return []finding{
			{"lastTransitionTime is by the node's wrong clock", wrong(c.LastTransitionTime), evidence},
			{"the heartbeat is by the node's wrong clock", wrong(c.LastHeartbeatTime), evidence},
		}
	})
}

// A clock that ran ahead when the program began was set back since.
func TestALineOfALogCountsAlsoAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	expectOfUpstreamOnly(t, func(s *scene) []finding {
		const condition = "KernelDeadlock"
		s.createNode()
		s.tick()
		log := s.path("kernel.log")
		s.Expect(os.WriteFile(log, nil, 0o600)).To(Succeed())
		s.monitor("system-log-monitor", fmt.Sprintf(`{
			"plugin": "filelog", "pluginConfig": {"timestamp": "^\\S+", "message": "kernel: (.*)", "timestampFormat": %q},
			"logPath": %q, "lookback": "5m", "bufferSize": 10, "source": "set-back",
			"conditions": [{"type": %q, "reason": "KernelHasNoDeadlock", "message": "fine"}],
			"rules": [{"type": "permanent", "condition": %[3]q, "reason": "DockerHung", "pattern": "task docker:\\d+ blocked"}]}`,
			time.RFC3339, log, condition))
		p := s.start()
		s.confirmed(condition, corev1.ConditionFalse, p.started)
		line := time.Now().Add(-time.Hour).Format(time.RFC3339) + " node kernel: task docker:7 blocked\n"
		s.Expect(os.WriteFile(log, []byte(line), 0o600)).To(Succeed())
		if s.program.upstream {
			s.ticks(20) // it throws the line away: time has to show that
		} else {
			s.confirmed(condition, corev1.ConditionTrue, p.started)
		}
		c, err := s.condition(condition)
		s.Expect(err).NotTo(HaveOccurred())
		return []finding{{"what is logged after the clock was set back is thrown away", c.Status != corev1.ConditionTrue, describe(c)}}
	})
}
