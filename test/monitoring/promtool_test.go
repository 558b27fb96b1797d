//go:build integration

package monitoring

import (
	"os/exec"
	"testing"
)

// installed returns the path of a program of Debian's package prometheus.
func installed(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("no %s here, install it: apt-get install prometheus", program)
	}
	return path
}

func TestTheAlertsFireWhenTheyShould(t *testing.T) {
	promtool := installed(t, "promtool")
	for _, args := range [][]string{{"check", "rules", rulesFile}, {"test", "rules", "rules_test.yaml"}} {
		if output, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, output)
		}
	}
}
