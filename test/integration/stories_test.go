//go:build integration

package integration

import (
	"os"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

// once reports whether it is called for the first time with this name.
func (s *scene) once(name string) bool {
	if s.exists(name) {
		return false
	}
	s.touch(name)
	return true
}

// since returns how long ago it was first called with this name.
func (s *scene) since(name string) time.Duration {
	s.once(name)
	info, err := os.Stat(s.path(name))
	s.Expect(err).NotTo(HaveOccurred())
	return time.Since(info.ModTime())
}

// setSick makes the node sick, or well.
func (s *scene) setSick(sick bool) {
	switch {
	case sick && !s.exists("sick"):
		s.touch("sick")
	case !sick && s.exists("sick"):
		s.remove("sick")
	}
}

// Flaps of the flapping story: so many changes, one at a time.
const (
	flaps   = 7
	flapFor = 600 * time.Millisecond
)

// flapping: the condition comes and goes, never for long enough to be recovered,
// before it goes for good. The command alone does not help.
var flapping = story{
	name: "flapping",
	begin: func(s *scene) {
		step := shell("echo ran >> " + s.path("runs"))
		step.VerifyTimeout = duration(time.Minute)
		policy := s.policy(step)
		policy.Spec.Recovery.HealthyFor = duration(6 * time.Second)
		s.Expect(s.client.Update(s.ctx, policy)).To(Succeed())
		s.detectBy(s.nodes[0], func() bool {
			if s.lines("runs") == 0 {
				return true
			}
			flap := int(s.since("flapping") / flapFor)
			return flap < flaps && flap%2 == 1
		})
		s.startRunners()
	},
	goOn: func(s *scene) bool {
		if s.lines("runs") == 0 {
			return false
		}
		s.Expect(s.remediations(s.nodes[0])).To(HaveLen(1), "one incident is one remediation")
		return s.over(s.nodes[0])
	},
	midway: func(s *scene) bool { return s.lines("runs") == 1 },
	expect: func(s *scene) {
		s.Expect(s.since("flapping")).To(BeNumerically(">", flaps*flapFor), "it did not end while it flapped")
		s.expectHealedOnce()
	},
}

// storm: while too few nodes are healthy no reboot begins; when it is calm one does.
var storm = story{
	name: "storm", nodes: 5,
	begin: func(s *scene) {
		m := s.machine(s.nodes[0], sick)
		m.set(func(state *machineState) { state.faulty, state.cure = true, v1alpha1.RemedyReboot })
		s.ready(corev1.ConditionTrue, s.nodes[1])
		s.ready(corev1.ConditionFalse, s.nodes[2:]...)
		s.policy(reboot())
		s.change(&v1alpha1.RemediationBudget{}, `{"spec":{"minHealthy":"60%","stormCooldown":"2s"}}`)
	},
	goOn: func(s *scene) bool {
		node := s.nodes[0]
		actions := s.actions(node)
		if !s.exists("calm") {
			s.Expect(actions).To(BeEmpty(), "during the storm")
			if s.state(node) == "Waiting/"+gates.ReasonStorm && s.since("storm") > 500*time.Millisecond {
				s.touch("calm")
				s.ready(corev1.ConditionTrue, s.nodes[2:]...)
			}
			return false
		}
		if len(actions) > 0 && s.once("begun") {
			s.Expect(s.since("calm")).To(BeNumerically(">", time.Second), "calm for 2 s, in whole seconds")
		}
		return s.ended(node) && s.back(node)
	},
	midway: func(s *scene) bool { return strings.HasSuffix(s.state(s.nodes[0]), "/"+gates.ReasonStorm) },
	expect: (*scene).expectRebootedOnce,
}

// append adds a line to a file of the scene.
func (s *scene) append(file string) {
	f, err := os.OpenFile(s.path(file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	s.Expect(err).NotTo(HaveOccurred())
	_, err = f.WriteString("line\n")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(f.Close()).To(Succeed())
}
