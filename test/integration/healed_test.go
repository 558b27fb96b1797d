//go:build integration

package integration

import (
	"fmt"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// newSickNode makes the node sick until the policy's command has run, which
// counts how often it does.
func (s *scene) newSickNode() {
	s.policy(shell(fmt.Sprintf("echo ran >> %s; rm -f %s", s.path("runs"), s.path("sick"))))
	s.touch("sick")
	s.detect(s.nodes[0], "sick")
	s.startRunners()
}

// newHeldNode makes the node sick until the policy's command has run, which
// takes until the file "hold" is removed.
func (s *scene) newHeldNode() {
	s.policy(shell(fmt.Sprintf("echo ran >> %s; while [ -e %s ]; do :; done; rm -f %s",
		s.path("runs"), s.path("hold"), s.path("sick"))))
	s.touch("sick")
	s.touch("hold")
	s.detect(s.nodes[0], "sick")
	s.startRunners()
}

// expectHealedOnce waits for the end of the story and expects that it is the
// one and only: one remediation, one action, one execution, recovered, the
// permit returned.
func (s *scene) expectHealedOnce() {
	s.t.Helper()
	node := s.nodes[0]
	s.Eventually(func() bool { return s.ended(node) }).Should(BeTrue())
	s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonRecovered))
	s.Eventually(s.permits).Should(BeEmpty())
	s.Expect(s.lines("runs")).To(Equal(1), "executions")
	s.Expect(s.actions(node)).To(HaveLen(1))
	s.expectHistory("1/1 Succeeded")
}

// expectHistory expects these actions of the first node's only remediation, as
// step/attempt outcome.
func (s *scene) expectHistory(want ...string) {
	s.t.Helper()
	s.Expect(s.history()).To(Equal(want))
}

func (s *scene) history() (got []string) {
	for _, r := range s.remediations(s.nodes[0])[0].Status.History {
		got = append(got, fmt.Sprintf("%d/%d %s", r.Step, r.Attempt, r.Outcome))
	}
	return got
}
