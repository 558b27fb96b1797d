//go:build integration

package npd

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sinceAnHour is a problem that the Node has had for an hour.
func sinceAnHour(conditionType corev1.NodeConditionType) corev1.NodeCondition {
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(time.Now().Add(-d).Truncate(time.Second)) }
	return corev1.NodeCondition{
		Type: conditionType, Status: corev1.ConditionTrue, Reason: failedReason(string(conditionType)), Message: "DIMM A1",
		LastHeartbeatTime: ago(time.Minute), LastTransitionTime: ago(time.Hour),
	}
}

// confirmed waits for a condition with this status, written since a time.
func (s *scene) confirmed(conditionType corev1.NodeConditionType, status corev1.ConditionStatus, since time.Time) corev1.NodeCondition {
	s.t.Helper()
	var c corev1.NodeCondition
	s.Eventually(func() (string, error) {
		var err error
		c, err = s.condition(conditionType)
		if c.Status == status && !c.LastHeartbeatTime.Time.Before(since.Truncate(time.Second)) {
			return "confirmed", err
		}
		return describe(c), err
	}).Should(Equal("confirmed"), "%s is %s with a heartbeat after %s", conditionType, status, since.UTC().Format("15:04:05"))
	return c
}

func TestAProblemHoldsAcrossARestartWhileAnotherRuleOfItsFileEndsFirst(t *testing.T) {
	t.Parallel()
	for _, skip := range []bool{false, true} {
		t.Run(fmt.Sprintf("skip_initial_status %t", skip), func(t *testing.T) {
			t.Parallel()
			expectOfUpstreamOnly(t, func(s *scene) []finding {
				stored := sinceAnHour("HardwareFailure")
				s.createNode(stored)
				history := s.watch()
				c := plugins("10s", "5s",
					s.rule("FilesystemProblem", `exit 0`),
					s.rule("HardwareFailure", `sleep 2; echo DIMM A1; exit 1`))
				c.PluginGlobalConfig.SkipInitialStatus = &skip
				s.customPlugins(c)

				p := s.start()
				s.confirmed("HardwareFailure", corev1.ConditionTrue, p.started)
				s.confirmed("FilesystemProblem", corev1.ConditionFalse, p.started)
				return []finding{history.left(stored), history.moved(stored)}
			})
		})
	}
}

func TestARestartDuringAProblemIsNoNewProblem(t *testing.T) {
	t.Parallel()
	expectOfUpstreamOnly(t, func(s *scene) []finding {
		const counter = `problem_counter{reason="HardwareFailureFound"}`
		s.createNode()
		s.customPlugins(plugins("500ms", "20s", s.rule("HardwareFailure", `echo DIMM A1; exit 1`)))
		first := s.start()
		before := s.confirmed("HardwareFailure", corev1.ConditionTrue, first.started)
		s.Eventually(s.events).WithArguments(before.Reason).Should(Equal(1))
		s.Eventually(first.metric).WithArguments(counter).Should(Equal("1"))
		_, ended := first.terminate()
		s.Expect(ended).To(BeTrue(), "the program ends when it is asked to")
		// Times are kept in seconds.
		s.Eventually(time.Now).Should(BeTemporally(">", before.LastTransitionTime.Add(2*time.Second)))

		ran := len(s.runs("HardwareFailure"))
		second := s.start()
		after := s.confirmed("HardwareFailure", corev1.ConditionTrue, second.started)
		s.Eventually(func() int { return len(s.runs("HardwareFailure")) }).Should(BeNumerically(">=", ran+6))
		count, err := second.metric(counter)
		s.Expect(err).NotTo(HaveOccurred())
		events := s.events(before.Reason)
		return []finding{
			{"a restart moves lastTransitionTime", !after.LastTransitionTime.Equal(&before.LastTransitionTime), "before: " + describe(before) + "; after: " + describe(after)},
			{"a restart writes the event again", events > 1, fmt.Sprintf("events: %d", events)},
			{"a restart counts the problem again", count != "0", counter + " " + count},
		}
	})
}

func TestAProblemThatOneOfTwoRulesFindsHolds(t *testing.T) {
	t.Parallel()
	expectOfUpstreamOnly(t, func(s *scene) []finding {
		s.createNode()
		history := s.watch()
		// Each verdict is the latest for one and a half seconds in three.
		s.customPlugins(plugins("3s", "20s",
			s.rule("HardwareFailure", `echo DIMM A1; exit 1`),
			s.rule("HardwareFailure", `sleep 1.5; exit 0`)))
		s.start()
		s.Eventually(func() int { return len(s.runs("HardwareFailure")) }).Should(BeNumerically(">=", 8), "starts of two rules in four rounds")
		s.confirmed("HardwareFailure", corev1.ConditionTrue, time.Now())

		flips := finding{defect: "rules of one condition overwrite each other's verdict"}
		var before corev1.ConditionStatus
		for _, c := range history.of("HardwareFailure") {
			flips.seen = flips.seen || before == corev1.ConditionTrue && c.Status == corev1.ConditionFalse
			if c.Status != before {
				flips.evidence += describe(c) + "; "
			}
			before = c.Status
		}
		return []finding{flips}
	})
}
