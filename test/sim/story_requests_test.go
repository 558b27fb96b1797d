package sim

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

// docs/performance.md has the same numbers, and says what each is for.
func TestTheRequestsOfTheControllerForAFaultAndItsRecovery(t *testing.T) {
	tellAll(t, 1000, story{"requests", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, command("cure"))
		s.begin()
		s.pass(time.Minute)
		asked := map[string]int{}
		s.counted = func(by *process, r apiserver.Request) {
			if r.Name = ""; by.role() == "controller" {
				asked[r.String()]++
			}
		}
		before := s.told()
		n.fail(sick, v1alpha1.RemedyCommand)
		s.ends(n)
		s.pass(time.Minute)
		if s.death != (death{}) { // who starts again asks again
			return
		}
		asked["create Event"] = s.told() - before
		expect(s, "requests", asked, map[string]int{
			"get RemedyPolicy": 1, "create Remediation": 1, "get RemediationBudget": 1, "patch RemediationBudget/status": 4,
			"patch Remediation/status": 5, "create NodeAction": 1, "get NodeAction": 1, "get Remediation": 1, "create Event": 6,
			"patch RemedyPolicy/status": 2,
		})
	}})
}
