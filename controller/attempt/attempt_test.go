package attempt

import (
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestEachRemedyHasItsExecutor(t *testing.T) {
	for _, remedy := range append(v1alpha1.Remedies(), v1alpha1.RemedyNamed("of a later version")) {
		found := remedy.Executor == v1alpha1.ExecutorMaintenance // which has no attempts
		for _, by := range executors() {
			found = found || by.name == remedy.Executor
		}
		if remedy.Name == v1alpha1.RemedyReboot {
			cycle := &v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}}
			if by := By(cycle); by.Who() != "the remote runner" || By(nil).Who() != "the node's runner" {
				t.Errorf("%s does a power cycle", by.Who())
			}
		}
		if !found {
			t.Errorf("remedy %q: nobody is %s", remedy.Name, remedy.Executor)
		}
	}
}
