//go:build integration

package integration

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/faults"
)

// A story is what befalls a node, in the sight of a controller.
type story struct {
	// name begins the names of its objects.
	name string
	// nodes is how many there are; all may be acted on. 0: one.
	nodes int
	// begin sets the scene before there is a controller.
	begin func(*scene)
	// goOn plays, whenever it is called, all parts but the controller's, and
	// reports whether the story is over.
	goOn func(*scene) bool
	// midway reports whether it is a good moment for a kill.
	midway func(*scene) bool
	// expect is what has to be so in the end, whatever became of controllers.
	expect func(*scene)
}

// stories are those that have to end in the same way whenever a controller stops.
func stories() []story {
	return []story{
		heal, exhaustAndRetry, // faults_test.go
		deleted,                // life_test.go
		restart, restartInVain, // hung_test.go
		wrongPath,                   // wrongpath_test.go
		policyEdited, policyDeleted, // superseded_test.go
		flapping, storm, // stories_test.go
		hardware, rebooted, // outofservice_test.go
	}
}

// minWrites is fewer than the controller makes in the shortest story.
const minWrites = 6

// In every story the controller is stopped at its n-th write, for every n: by turns before
// it is sent, and after it was committed but before the answer arrives. The one that is
// started after it has to bring the story to the same end. The search of test/sim, which
// costs a fraction, does either anywhere.
func TestAControllerThatDiesAtAnyWriteOfAStoryIsTakenOverByTheNext(t *testing.T) {
	t.Parallel()
	for i, st := range stories() {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			undisturbed := &faults.Transport{}
			if !t.Run("undisturbed", func(t *testing.T) { st.play(t, st.name, undisturbed) }) {
				return
			}
			writes := undisturbed.Writes()
			t.Logf("the story has %d writes", writes)
			if writes < minWrites {
				t.Errorf("only %d writes in the whole story", writes)
			}
			for n := 1; n <= writes; n++ {
				mode := []faults.Mode{faults.Before, faults.After}[(i+n)%2]
				t.Run(fmt.Sprintf("%s write %d", mode, n), func(t *testing.T) {
					t.Parallel()
					transport := &faults.Transport{At: n, Mode: mode, Dead: true}
					st.play(t, fmt.Sprintf("%s-%s-%d", st.name, mode, n), transport)
					if n <= minWrites && transport.Faults() == 0 {
						t.Error("the controller did not die")
					}
				})
			}
		})
	}
}

// play plays the story with a controller behind the transport, and with another one
// once it has died.
func (st story) play(t *testing.T, name string, transport *faults.Transport) {
	t.Helper()
	nodes := max(st.nodes, 1)
	s := newSceneApart(t, name, nodes, fmt.Sprint(nodes))
	s.clock = newLeaping()
	st.begin(s)
	cfg := rest.CopyConfig(s.cfg)
	failing(cfg, transport)
	stop := s.startControllerOn(cfg)
	over := false
	s.Eventually(func() bool {
		over = st.goOn(s)
		return over || transport.Faults() > 0
	}).Should(BeTrue())
	stop()
	if !over {
		s.startController()
		s.Eventually(func() bool { return st.goOn(s) }).Should(BeTrue())
	}
	st.expect(s)
}

// over reports whether nothing more will happen to the node by itself.
func (s *scene) over(node string) bool {
	return (s.ended(node) || s.state(node) == "Exhausted") && len(s.permits()) == 0
}

// heal: the command heals the node.
var heal = story{
	name:  "heal",
	begin: (*scene).newHeldNode,
	goOn: func(s *scene) bool {
		if s.lines("runs") == 1 && s.exists("hold") {
			s.remove("hold")
		}
		return s.over(s.nodes[0])
	},
	midway: func(s *scene) bool { return s.lines("runs") == 1 },
	expect: (*scene).expectHealedOnce,
}

// exhaustAndRetry: nothing helps, and a person starts over, once.
var exhaustAndRetry = story{
	name:  "exhaust",
	begin: (*scene).newIncurableNode,
	goOn: func(s *scene) bool {
		all := s.remediations(s.nodes[0])
		if len(all) == 0 || all[0].State() != "Exhausted" || len(s.permits()) > 0 {
			return false
		}
		r := all[0]
		if r.Annotations[v1alpha1.RetryAnnotation] == "" {
			s.Expect(s.lines("runs")).To(Equal(1), "executions")
			s.retry(s.nodes[0], "1")
		}
		return r.Status.Retried == "1"
	},
	midway: func(s *scene) bool { return s.state(s.nodes[0]) == "Exhausted" },
	expect: func(s *scene) {
		s.Expect(s.lines("runs")).To(Equal(2), "executions")
		s.Expect(s.actions(s.nodes[0])).To(HaveLen(2))
		s.expectHistory("1/1 Succeeded", "1/1 Succeeded")
	},
}

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

// newIncurableNode makes the node sick, whatever is done.
func (s *scene) newIncurableNode() {
	s.policy(shell("echo ran >> " + s.path("runs")))
	s.touch("sick")
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
