//go:build integration

package clock

import (
	"os"
	"testing"

	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

func TestMain(m *testing.M) { os.Exit(systemdtest.Run(m)) }

func TestATimeServiceIsStoppedIfItIsToRunAndNoneDoes(t *testing.T) {
	ctx, host := t.Context(), systemdtest.Shared(t)
	run := func(argv ...string) {
		t.Helper()
		if _, err := host.Run(ctx, argv...); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range timeServices() { // in the place of this machine's own
		if err := host.Unit(ctx, name, "[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n"); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when, want string) {
		t.Helper()
		if got, err := stopped(ctx, systemd.Dialer{Bus: host.Bus()}); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", when, got, err, want)
		}
	}
	expect("none is enabled", "")
	run("systemctl", "enable", "--runtime", "ntpsec.service")
	expect("one is enabled", "ntpsec.service is inactive (dead)")
	run("systemctl", "start", "chrony.service")
	expect("another one runs", "")
	run("systemctl", "stop", "chrony.service")
	run("systemctl", "disable", "--runtime", "ntpsec.service")
	if err := host.Unit(ctx, "ntpd.service", "[Service]\nType=oneshot\nExecStart=/bin/false\n"); err != nil {
		t.Fatal(err)
	}
	run("sh", "-c", "! systemctl start ntpd.service")
	expect("one has died", "ntpd.service is failed (failed)")
}
