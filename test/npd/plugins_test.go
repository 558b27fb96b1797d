//go:build integration

package npd

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// escape leaves behind a process that the plugin's process group does not hold,
// and that keeps the plugin's output open. The plugin goes on when it has escaped.
const escape = `setsid sh -c ': >"$0"; exec sleep 25' "$0.$$" & ` + awaitEscape

// awaitEscape waits for the process that writes the file: until it has called setsid, it
// is in the plugin's process group and ends with it.
const awaitEscape = `until [ -e "$0.$$" ]; do sleep 0.01; done
`

// ticking is a condition of another file whose plugin runs every half second, by
// which scenarios tell time.
const ticking = "Ticking"

func (s *scene) tick() {
	s.t.Helper()
	s.customPlugins(plugins("500ms", "20s", s.rule(ticking, `exit 0`)))
}

// ticks waits for so many more runs of the ticking plugin.
func (s *scene) ticks(count int) {
	s.t.Helper()
	enough := len(s.runs(ticking)) + count
	s.Eventually(func() int { return len(s.runs(ticking)) }).Should(BeNumerically(">=", enough))
}

func TestAProblemWhosePluginTimesOutDoesNotGetTheReasonOfHealth(t *testing.T) {
	t.Parallel()
	expectOfUpstreamOnly(t, func(s *scene) []finding {
		s.createNode()
		s.customPlugins(plugins("1s", "500ms", s.rule("HardwareFailure",
			fmt.Sprintf(`[ -e %s ] && exec sleep 60; echo DIMM A1; exit 1`, s.path("hang")))))
		p := s.start()
		s.confirmed("HardwareFailure", corev1.ConditionTrue, p.started)
		s.touch("hang")
		c := s.confirmed("HardwareFailure", corev1.ConditionUnknown, p.started)
		return []finding{{"Unknown has the reason of health", c.Reason == healthyReason("HardwareFailure"), describe(c) + ": " + c.Message}}
	})
}

func TestAPluginsChildThatEscapesHoldsNothingUp(t *testing.T) {
	t.Parallel()
	expectOfUpstreamOnly(t, func(s *scene) []finding {
		s.createNode()
		s.tick()
		s.customPlugins(plugins("1s", "500ms", s.rule("HardwareFailure", escape+`echo DIMM A1; exit 1`)))
		p := s.start()
		s.Eventually(func() int { return len(s.runs("HardwareFailure")) }).Should(BeNumerically(">=", 1))
		s.ticks(16)
		runs := len(s.runs("HardwareFailure"))
		took, ended := p.terminate()
		return []finding{
			{"an escaped child keeps its plugin from running again", runs == 1, fmt.Sprintf("runs at an interval of 1s in 8s: %d", runs)},
			{"an escaped child keeps the program from ending", !ended, fmt.Sprintf("ended %t, %s after SIGTERM", ended, took.Round(time.Millisecond))},
		}
	})
}

func TestWhatEscapesFromPluginsDoesNotPileUp(t *testing.T) {
	t.Parallel()
	expectOfUpstreamOnly(t, func(s *scene) []finding {
		s.createNode()
		s.tick()
		escaped := s.path("escaped")
		s.customPlugins(plugins("1s", "20s", s.rule("HardwareFailure",
			fmt.Sprintf(`(env -i %[1]s="$%[1]s" setsid sh -c 'echo $$ >>%[2]s; : >"$0"; exec sleep 60' "$0.$$" >/dev/null 2>&1 </dev/null &)
%[3]sexit 0`, sceneEnv, escaped, awaitEscape))))
		p := s.start()
		s.Eventually(func() int { return len(s.runs("HardwareFailure")) }).Should(BeNumerically(">=", 6))
		s.ticks(2)
		alive := 0
		for _, pid := range s.lines("escaped") {
			if state, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(state), ") Z ") {
				alive++
			}
		}
		killed, err := p.metric("nodemend_plugin_orphans_killed_total")
		return []finding{
			{"what escapes from plugins piles up", alive > 2, fmt.Sprintf("alive after 6 rounds: %d", alive)},
			{"what escapes is not counted", err != nil || killed == "0", killed},
		}
	})
}

func TestTheHeartbeatIsNeverNewerThanTheLatestRun(t *testing.T) {
	t.Parallel()
	for name, wedge := range map[string]string{
		"while a plugin hangs within its time-out": `exec sleep 60`,
		"while an escaped child holds its output":  escape + `exit 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectOfUpstreamOnly(t, func(s *scene) []finding {
				s.createNode()
				s.tick()
				s.customPlugins(plugins("1s", "40s", s.rule("HardwareFailure",
					fmt.Sprintf("[ -e %s ] || exit 0\n%s", s.path("wedge"), wedge))))
				p := s.start()
				s.confirmed("HardwareFailure", corev1.ConditionFalse, p.started)
				s.touch("wedge")
				ran := len(s.runs("HardwareFailure"))
				s.Eventually(func() int { return len(s.runs("HardwareFailure")) }).Should(BeNumerically(">", ran))
				s.ticks(12)
				s.confirmed(ticking, corev1.ConditionFalse, time.Now())

				c, err := s.condition("HardwareFailure")
				s.Expect(err).NotTo(HaveOccurred())
				runs := s.runs("HardwareFailure")
				latest := runs[len(runs)-1]
				return []finding{{
					"the heartbeat advances although no run has been", c.LastHeartbeatTime.Sub(latest) > time.Second,
					fmt.Sprintf("the latest run of %d was at %s; %s", len(runs), latest.UTC().Format("15:04:05"), describe(c)),
				}}
			})
		})
	}
}
