//go:build integration

package unit_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

func TestAUnitWhoseRestartEndsTheSystemIsRefused(t *testing.T) {
	t.Parallel()
	host := systemdtest.Own(t)
	for name, c := range map[string]struct{ content, because string }{
		"systemd-reboot.service": {"", "it is systemd-reboot\\.service"},
		"harmless.service":       {"alias", "it is systemd-poweroff\\.service"},
		"succeeds.service":       {"[Unit]\nSuccessAction=reboot-force\n" + sleeper, "it has SuccessAction=reboot-force"},
		"fails.service":          {"[Unit]\nFailureAction=poweroff\n" + sleeper, "it has FailureAction=poweroff"},
		"too-often.service":      {"[Unit]\nStartLimitAction=reboot\n" + sleeper, "it has StartLimitAction=reboot"},
		"late-reboot.service":    {"[Unit]\nJobTimeoutSec=1\nJobTimeoutAction=reboot\n" + sleeper, "it has JobTimeoutAction=reboot"},
		"requires.service":       {"[Unit]\nRequires=reboot.target\n" + sleeper, "it has Requires=reboot\\.target"},
		"wants.service":          {"[Unit]\nWants=ctrl-alt-del.target\n" + sleeper, "it has Wants=.*\\.target"},
		"then.service":           {"[Unit]\nOnSuccess=halt.target\n" + sleeper, "it has OnSuccess=halt\\.target"},
		"triggers.timer":         {"[Timer]\nOnActiveSec=0\nUnit=reboot.target\n", "it has Triggers=reboot\\.target"},
	} {
		t.Run(name, func(t *testing.T) {
			content := c.content
			if content == "alias" {
				content = ""
				_, err := host.Run(t.Context(), "ln", "-sf", "/lib/systemd/system/systemd-poweroff.service", "/run/systemd/system/"+name)
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			}
			s := newScene(t, host, name, content)
			s.systemctl("daemon-reload")
			_, outcome := s.remedy.Prepare(t.Context(), s.order(time.Minute))
			s.expect(outcome, v1alpha1.ReasonRefused, `a restart of \S+ may end the system \(`+c.because+`\), .*; nothing was executed: .*`)
		})
	}
}
