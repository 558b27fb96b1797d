//go:build integration

package npd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	cpmtypes "k8s.io/node-problem-detector/pkg/custompluginmonitor/types"
	"k8s.io/node-problem-detector/pkg/types"
)

// unhealthyKubelet has the scene's program run a health-checker for a kubelet
// that nobody finds, and that systemd has started long ago.
func (s *scene) unhealthyKubelet(healthChecker string, args ...string) {
	s.t.Helper()
	s.command("systemctl", `echo "InactiveExitTimestamp=Mon 2024-01-01 00:00:00 UTC"`)
	s.env = append(s.env, "HOST_ADDRESS="+s.address, "KUBELET_PORT=1")
	s.customPlugins(plugins("1s", "20s", &cpmtypes.CustomRule{
		Type: types.Perm, Condition: "KubeletUnhealthy", Reason: "KubeletUnhealthy", Path: healthChecker,
		Args: append([]string{"--component=kubelet", "--service=kubelet", "--cooldown-time=1s", "--health-check-timeout=1s"}, args...),
	}))
}

// repairs returns the calls by which health-checker repairs, after the kubelet was
// found unhealthy several times.
func (s *scene) repairs(p *running) (repairs []string) {
	s.t.Helper()
	// A heartbeat is at least as old as the run that it is of.
	s.confirmed("KubeletUnhealthy", corev1.ConditionTrue, p.started)
	s.confirmed("KubeletUnhealthy", corev1.ConditionTrue, time.Now().Add(3*time.Second))
	for _, call := range s.calls("systemctl") {
		if !strings.HasPrefix(call, "show ") {
			repairs = append(repairs, call)
		}
	}
	return repairs
}

func upstreamHealthChecker() string { return filepath.Join(programsDir(), "health-checker") }

func TestHealthCheckerRepairsNothingBesideAController(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"by default":                 nil,
		"although its file wants it": {"--enable-repair=true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectOfUpstreamOnly(t, func(s *scene) []finding {
				s.createNode()
				s.unhealthyKubelet(upstreamHealthChecker(), args...)
				repairs := s.repairs(s.start())
				return []finding{{
					"health-checker repairs", slices.Contains(repairs, "kill --kill-who=main kubelet"), "systemctl " + strings.Join(repairs, "; "),
				}}
			})
		})
	}
}

func TestHealthCheckerRepairsWhereItIsAllowedTo(t *testing.T) {
	t.Parallel()
	p := detectorProgram(t)
	p.repairs = true
	s := newScene(t, p)
	s.createNode()
	s.unhealthyKubelet(upstreamHealthChecker(), "--enable-repair=true")
	s.Expect(s.repairs(s.start())).To(ContainElement("kill --kill-who=main kubelet"))
}

func TestTheDetectorIsItsOwnHealthChecker(t *testing.T) {
	t.Parallel()
	s := newScene(t, detectorProgram(t))
	s.createNode()
	s.Expect(os.Symlink(s.program.path, s.path("health-checker"))).To(Succeed())
	s.unhealthyKubelet(s.path("health-checker"))
	s.Expect(s.repairs(s.start())).To(BeEmpty())
	c, err := s.condition("KubeletUnhealthy")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(c.Message).To(Equal("kubelet:kubelet was found unhealthy; repair flag : false"))
}
