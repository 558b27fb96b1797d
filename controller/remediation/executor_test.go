package remediation

import (
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestEachRemedyHasItsExecutor(t *testing.T) {
	for _, remedy := range append(v1alpha1.Remedies(), v1alpha1.RemedyNamed("of a later version")) {
		if executorNamed(remedy.Executor) == nil {
			t.Errorf("remedy %q: nobody is %s", remedy.Name, remedy.Executor)
		}
	}
}
