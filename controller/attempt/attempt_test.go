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
		if !found {
			t.Errorf("remedy %q: nobody is %s", remedy.Name, remedy.Executor)
		}
	}
}
