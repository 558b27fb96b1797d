//go:build integration

package npd

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestProblemMetricsAreThoseOfNodeProblemDetector(t *testing.T) {
	t.Parallel()
	for _, p := range programs(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, p)
			s.createNode()
			s.tick()
			s.customPlugins(plugins("500ms", "20s", s.rule("HardwareFailure", `[ -e hot ] || exit 0; echo DIMM A1; exit 1`)))
			quiet := plugins("500ms", "20s", s.rule("FilesystemProblem", `exit 1`))
			declined := false
			quiet.EnableMetricsReporting = &declined
			s.customPlugins(quiet)
			const (
				gauge   = `problem_gauge{reason="HardwareFailureFound",type="HardwareFailure"}`
				counter = `problem_counter{reason="HardwareFailureFound"}`
			)
			process := s.start()
			s.confirmed("HardwareFailure", corev1.ConditionFalse, process.started)
			s.confirmed("FilesystemProblem", corev1.ConditionTrue, process.started)
			s.Eventually(process.metric).WithArguments(gauge).Should(Equal("0"))
			s.Eventually(process.metric).WithArguments(counter).Should(Equal("0"))

			s.touch("hot")
			s.confirmed("HardwareFailure", corev1.ConditionTrue, process.started)
			s.Eventually(process.metric).WithArguments(gauge).Should(Equal("1"))
			s.Eventually(process.metric).WithArguments(counter).Should(Equal("1"))
			s.ticks(4)
			s.Expect(process.metric(counter)).To(Equal("1"), "a problem is counted once")
			for _, metric := range []string{
				`problem_gauge{reason="FilesystemProblemFound",type="FilesystemProblem"}`, `problem_counter{reason="FilesystemProblemFound"}`,
			} {
				_, err := process.metric(metric)
				s.Expect(err).To(MatchError(ContainSubstring("there is no metric")), "the file declines metrics")
			}
		})
	}
}
