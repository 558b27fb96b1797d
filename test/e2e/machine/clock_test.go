//go:build e2e

package machine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// clockCheck runs the check of the clock, and no other. Nobody corrects the clock of a machine.
const clockCheck = `  only: [clock]
  clock: {interval: 2s, startupGrace: 0s, maxError: 0s}
`

const clockCondition = "ClockUnhealthy"

func TestAClockThatIsSetWrongIsSeenUntilItIsRightAgain(t *testing.T) {
	s := begin(t)
	n := s.start("clock", options{checks: clockCheck})
	n.Until(moment, "the clock is right", n.Is(clockCondition, corev1.ConditionFalse))

	n.run("date -s @$(($(date +%s) + 600))")
	n.Until(round, "the clock is seen to be off", n.Is(clockCondition, corev1.ConditionTrue))
	off := n.Condition(clockCondition)
	n.Proved("a clock that was set is seen: %s", off.Message)

	n.run("systemctl restart nodemend-detector.service")
	restarted := n.Condition(clockCondition).LastHeartbeatTime.Time
	n.Until(round, "the detector confirms it after its restart", n.Confirms(clockCondition, corev1.ConditionTrue, restarted))
	if now := n.Condition(clockCondition); !now.LastTransitionTime.Equal(&off.LastTransitionTime) || now.Reason != off.Reason {
		n.Errorf("after the restart the condition is %+v, and was %+v", now, off)
	}

	n.run("date -s @$(($(date +%s) - 600))")
	n.Until(round, "the clock is right again", n.Is(clockCondition, corev1.ConditionFalse))
	n.Proved("it was off over a restart of the detector, and is right since it was set back")
}
