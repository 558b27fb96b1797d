package runner

import (
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// What the controller gives to runners, and what runners execute, is said in two lists, since
// the controller links no executor.
func TestARunnerExecutesTheRemediesThatAreGivenToRunners(t *testing.T) {
	for _, r := range v1alpha1.Remedies() {
		kind := kindNamed(r.Name)
		if given := r.Executor == v1alpha1.ExecutorRunner; given != (kind.Name != "") {
			t.Errorf("%s: given to runners: %t, one of theirs: %t", r.Name, given, !given)
			continue
		} else if !given {
			continue
		}
		if kind.New == nil || kind.Describe == nil || kind.Vetoed == nil {
			t.Errorf("%s has no New, Describe or Vetoed", r.Name)
		}
		if r.Reboots != (kind.Booted != nil) {
			t.Errorf("%s: reboots for the controller: %t, for the runner: %t", r.Name, r.Reboots, kind.Booted != nil)
		}
	}
	for _, kind := range Kinds() {
		if v1alpha1.RemedyNamed(kind.Name).Name == "" {
			t.Errorf("no policy can ask for %s", kind.Name)
		}
	}
}
