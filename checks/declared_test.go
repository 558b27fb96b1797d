package checks_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/checks"
)

func TestWhatAFileDeclaresHasNeitherAStatusNorATime(t *testing.T) {
	got := checks.WithoutProblem([]checks.Declared{{
		Type: "A", Status: checks.True, Transition: time.Unix(1, 0), Reason: "Fine", Message: "all well",
	}})
	if diff := cmp.Diff([]checks.Observation{{Type: "A", Reason: "Fine", Message: "all well"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
