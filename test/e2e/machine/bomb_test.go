//go:build e2e

package machine

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/e2e/story"
)

// bomb is a command that makes as many processes as it may, in sessions of their own, and never
// ends.
const bomb = `
echo ran >>/var/lib/ran
bomb() { bomb | bomb & }
bomb
(while :; do setsid sleep 1000 & done) &
exec sleep 1000
`

func TestAForkBombEndsAtItsTimeoutAndLeavesTheNodeUsable(t *testing.T) {
	s := begin(t)
	n := s.start("bomb", options{checks: noRuntimeCheck})
	n.Until(moment, "the detector reports no deadlock", n.Is(deadlock, corev1.ConditionFalse))
	explode := v1alpha1.Step{
		Command: &v1alpha1.CommandRemedy{Script: bomb},
		Timeout: *story.Duration(40 * time.Second), VerifyTimeout: *story.Duration(5 * time.Second),
	}
	n.Apply(n.name+"-bomb", v1alpha1.RemedyPolicySpec{
		Match: []v1alpha1.ConditionMatch{{Type: deadlock, Status: corev1.ConditionTrue}},
		Steps: []v1alpha1.Step{explode, explode, {Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/rm", untilBoot}}}},
	})

	n.run("touch " + untilBoot)
	n.Until(round, "the bomb has gone off", n.tries("test $(ls -d /proc/[0-9]* | wc -l) -gt 250"))
	n.run("true") // a process more: the node is usable
	n.Until(round, "the bomb has gone off once more", n.tries("test $(wc -l </var/lib/ran) = 2"))
	n.Until(round, "the node has recovered", n.Reaches(v1alpha1.ReasonRecovered))
	n.executed("command TimedOut", "command TimedOut", "command Succeeded")
	n.Until(moment, "no process of the bomb is left", n.tries("test $(ls -d /proc/[0-9]* | wc -l) -lt 200"))
	n.inService()
	n.Proved("two fork bombs were executed and killed at their timeouts; the node could be used meanwhile")
}
