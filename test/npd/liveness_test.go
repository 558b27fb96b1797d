//go:build integration

package npd

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

func TestACollectorThatLacksItsFileDoesNotEndTheProgram(t *testing.T) {
	t.Parallel()
	expectOfUpstreamOnly(t, func(s *scene) []finding {
		s.createNode()
		s.Expect(os.Mkdir(s.path("proc"), 0o700)).To(Succeed())
		s.Expect(os.WriteFile(s.path("proc/cmdline"), []byte("BOOT_IMAGE=/vmlinuz quiet\n"), 0o600)).To(Succeed())
		s.monitor("system-stats-monitor", fmt.Sprintf(`{
			"osFeature": {"metricsConfigs": {"system/os_feature": {"displayName": "system/os_feature"}}},
			"procPath": %q, "invokeInterval": "60s"}`, s.path("proc")))
		s.tick()
		p := s.start()
		s.Eventually(func() bool { return p.HasExited() || len(s.runs(ticking)) > 8 }).Should(BeTrue())
		died := finding{"a kernel without modules ends the program", p.HasExited(), "it runs"}
		if died.seen {
			fatal, _ := lineWith(p.log(), "modules")
			died.evidence = fmt.Sprintf("%v: %s", p.Err, fatal)
		} else {
			s.confirmed(ticking, corev1.ConditionFalse, p.started)
			s.Expect(p.healthz()).To(Equal(http.StatusOK))
		}
		return []finding{died}
	})
}

func TestALogThatIsMissingAtTheStartIsReadOnceItIsThere(t *testing.T) {
	t.Parallel()
	expectOfUpstreamOnly(t, func(s *scene) []finding {
		s.createNode()
		s.tick()
		const condition = "KernelDeadlock"
		s.monitor("system-log-monitor", fmt.Sprintf(`{
			"plugin": "filelog", "pluginConfig": {"timestamp": "^.{15}", "message": "kernel: (.*)", "timestampFormat": "Jan _2 15:04:05"},
			"logPath": %q, "lookback": "5m", "bufferSize": 10, "source": "late-log",
			"conditions": [{"type": %q, "reason": "KernelHasNoDeadlock", "message": "fine"}],
			"rules": [{"type": "permanent", "condition": %[2]q, "reason": "DockerHung", "pattern": "task docker:\\d+ blocked"}]}`,
			s.path("late.log"), condition))
		p := s.start()
		p.awaitUp()
		s.Eventually(func() bool {
			_, failed := lineWith(p.log(), "Failed to start problem daemon")
			_, waits := lineWith(p.log(), "Log can't be read")
			return failed || waits
		}).Should(BeTrue())
		s.confirmed(ticking, corev1.ConditionFalse, time.Now())
		unknown, err := s.condition(condition)
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(unknown.Status).To(BeEmpty(), "%s is reported although nothing was read", condition)
		s.Expect(p.healthz()).To(Equal(http.StatusOK), "a restart would not make the log appear")

		line := time.Now().Format(time.Stamp) + " node kernel: task docker:7 blocked\n"
		s.Expect(os.WriteFile(s.path("late.log"), []byte(line), 0o600)).To(Succeed())
		blind := finding{defect: "a log that is missing at the start is never read"}
		if s.program.upstream {
			// It has given up: time has to show that.
			until := len(s.runs(ticking)) + 20
			s.Eventually(func() int { return len(s.runs(ticking)) }).Should(BeNumerically(">", until))
		} else {
			s.confirmed(condition, corev1.ConditionTrue, p.started)
		}
		c, err := s.condition(condition)
		s.Expect(err).NotTo(HaveOccurred())
		blind.seen = c.Status != corev1.ConditionTrue
		blind.evidence = fmt.Sprintf("%s is %q", condition, c.Status)
		return []finding{blind}
	})
}
