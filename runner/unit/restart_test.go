//go:build integration

package unit_test

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	runnerconfig "github.com/nodemend/nodemend/config/runner"
	"github.com/nodemend/nodemend/config/v1alpha1"
	client "github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/runner/unit"
	"github.com/nodemend/nodemend/test/systemd"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

func TestMain(m *testing.M) { os.Exit(systemdtest.Run(m)) }

// Unit files. A stubborn service does not stop before it is killed.
const (
	sleeper  = "[Service]\nExecStart=/bin/sleep 10000\n"
	stubborn = "[Service]\nType=notify\nNotifyAccess=all\nTimeoutStopSec=infinity\n" +
		"ExecStart=/bin/sh -c 'trap \"\" TERM; systemd-notify --ready; while :; do sleep 1000; done'\n"
	hangs = "[Service]\nType=notify\nTimeoutStartSec=infinity\nExecStart=/bin/sleep 10000\n"
)

// scene is one unit on a systemd.
type scene struct {
	*testing.T
	*WithT
	host   *systemd.Host
	remedy *unit.Remedy
	name   string
}

// newScene makes the unit, unless content is empty.
func newScene(t *testing.T, host *systemd.Host, name, content string) *scene {
	t.Helper()
	s := &scene{T: t, WithT: NewWithT(t), host: host, name: name}
	s.remedy = unit.New(unit.Options{Dialer: client.Dialer{Bus: host.Bus(), Private: systemdtest.Private(t, host)}, Clock: clock.RealClock{}})
	if content != "" {
		s.Expect(host.Unit(t.Context(), name, content)).To(Succeed())
	}
	t.Cleanup(func() {
		// What can't be stopped in the unit's own way dies with the systemd.
		ctx := context.WithoutCancel(t.Context())
		_, _ = host.Run(ctx, "systemctl", "stop", "--no-block", name)
		_, _ = host.Run(ctx, "systemctl", "kill", "--signal=KILL", name)
	})
	return s
}

func (s *scene) systemctl(args ...string) {
	s.Helper()
	_, err := s.host.Run(s.Context(), append([]string{"systemctl"}, args...)...)
	s.Expect(err).NotTo(HaveOccurred())
}

func (s *scene) order(timeout time.Duration) remedy.Order {
	return remedy.Order{Action: "a", StartedAt: time.Now(), Step: v1alpha1.Step{
		RestartUnit: &v1alpha1.RestartUnitRemedy{Name: s.name},
		Timeout:     v1alpha1.Duration{Duration: timeout},
	}}
}

// prepare returns an order that can be executed.
func (s *scene) prepare(timeout time.Duration) remedy.Order {
	s.Helper()
	order := s.order(timeout)
	var refusal *remedy.Outcome
	order.Prepared, refusal = s.remedy.Prepare(s.Context(), order)
	s.Expect(refusal).To(BeNil())
	s.Expect(order.Prepared.Execution).To(Equal(v1alpha1.ExecutionSystemd))
	return order
}

func (s *scene) execute(timeout time.Duration) (remedy.Order, *remedy.Outcome) {
	s.Helper()
	order := s.prepare(timeout)
	return order, s.remedy.Execute(s.Context(), order)
}

// expect checks an outcome whose message is a regular expression.
func (s *scene) expect(outcome *remedy.Outcome, reason, message string) {
	s.Helper()
	s.Expect(outcome).NotTo(BeNil())
	s.Expect(outcome.Message).To(MatchRegexp("^" + message + "$"))
	s.Expect(outcome.Reason).To(Equal(reason), outcome.Message)
	if !v1alpha1.Executed(reason) {
		s.Expect(outcome.Result).To(BeNil())
		return
	}
	s.Expect(outcome.Result.Execution).To(Equal(v1alpha1.ExecutionSystemd))
	s.Expect(outcome.Result.Unit.Name).To(Equal(s.name))
	s.Expect(outcome.Result.FinishedAt.Time).To(BeTemporally(">=", outcome.Result.StartedAt.Time))
}

func TestARestartChangesMainPIDAndInvocation(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "live.service", sleeper)
	s.systemctl("start", s.name)
	var points []string
	order := s.prepare(time.Minute)
	outcome := s.remedy.Execute(remedy.WithPoints(t.Context(), func(p string) { points = append(points, p) }), order)

	s.expect(outcome, v1alpha1.ReasonSucceeded, `live\.service is active \(running\) again: main process \d+ -> \d+, after (\d00ms|[01](\.\d)?s)`)
	s.Expect(points).To(Equal([]string{"before-restart", "after-restart"}))
	u := outcome.Result.Unit
	s.Expect(order.Prepared.MainPID).To(BeNumerically(">", 1))
	s.Expect(u.MainPIDBefore).To(Equal(order.Prepared.MainPID))
	s.Expect(u.MainPIDAfter).NotTo(BeElementOf(int64(0), u.MainPIDBefore))
	s.Expect(order.Prepared.InvocationID).To(HaveLen(32))
	s.Expect(u.InvocationIDAfter).To(And(HaveLen(32), Not(Equal(order.Prepared.InvocationID))))
	s.Expect(u.State).To(Equal("active (running)"))
	s.Expect(s.remedy.Clean(t.Context(), order)).To(Succeed())
}

func TestTheUnitsThatAreRestartedWithAUnitAreToldToTheVeto(t *testing.T) {
	t.Parallel()
	host := systemdtest.Shared(t)
	s := newScene(t, host, "needed.service", sleeper)
	var want []string
	for _, dependency := range []string{"BindsTo", "PartOf", "Requires", "Requisite"} {
		dependent := newScene(t, host, "by-"+dependency+".service", "[Unit]\nAfter=needed.service\n"+dependency+"=needed.service\n"+sleeper)
		s.systemctl("start", s.name)
		s.systemctl("start", dependent.name)
		want = append(want, dependent.name)
	}
	order := s.prepare(time.Minute)
	s.Expect(order.Prepared.Dependents).To(Equal(want))
	veto, err := runnerconfig.Parse("runner.yaml", []byte("units: {deny: [by-PartOf.service]}\n"))
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(unit.Kind().Vetoed(veto, remedy.Host{}, order)).To(Equal(
		"units.deny of runner.yaml has by-PartOf.service, which matches by-PartOf.service, and systemd stops or restarts that with needed.service"))
}

func TestAUnitThatWasNotRunningIsStarted(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "stopped.service", sleeper)
	order, outcome := s.execute(time.Minute)
	s.Expect(order.Prepared.InvocationID).To(BeEmpty())
	s.expect(outcome, v1alpha1.ReasonSucceeded, `stopped\.service is active \(running\) again: main process \d+, after (\d00ms|[01](\.\d)?s)`)
}

func TestAUnitIsRestartedByItsAliasAndAllItsNamesAreTold(t *testing.T) {
	t.Parallel()
	host := systemdtest.Shared(t)
	s := newScene(t, host, "primary.service", sleeper)
	_, err := host.Run(t.Context(), "ln", "-sf", "primary.service", "/run/systemd/system/alias.service")
	s.Expect(err).NotTo(HaveOccurred())
	s.systemctl("daemon-reload")
	s.name = "alias.service"
	order, outcome := s.execute(time.Minute)
	s.Expect(order.Prepared.UnitNames).To(Equal([]string{"primary.service", "alias.service"}))
	s.expect(outcome, v1alpha1.ReasonSucceeded, `alias\.service is active \(running\) again: .*`)
}

func TestASocketAndATimerAreRestarted(t *testing.T) {
	t.Parallel()
	host := systemdtest.Shared(t)
	NewWithT(t).Expect(host.Unit(t.Context(), "pair.service", sleeper)).To(Succeed())
	for name, content := range map[string]string{
		"pair.socket": "[Socket]\nListenStream=/run/pair.sock\n",
		"pair.timer":  "[Timer]\nOnActiveSec=1h\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, host, name, content)
			s.systemctl("start", name)
			_, outcome := s.execute(time.Minute)
			s.expect(outcome, v1alpha1.ReasonSucceeded, name+` is active \((listening|waiting)\) again, after (\d00ms|[01](\.\d)?s)`)
		})
	}
}

func TestAOneshotHasSucceededWhenItHasRunToItsEnd(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "oneshot.service", "[Service]\nType=oneshot\nExecStart=/bin/true\n")
	_, outcome := s.execute(time.Minute)
	s.expect(outcome, v1alpha1.ReasonSucceeded, `oneshot\.service has run to its end, after (\d00ms|[01](\.\d)?s)`)
}

func TestAUnitThatCannotBeStartedIsNotExecuted(t *testing.T) {
	t.Parallel()
	host := systemdtest.Shared(t)
	for name, c := range map[string]struct{ content, reason, message string }{
		"missing.service": {"", v1alpha1.ReasonUnitNotFound, `systemd knows no unit missing\.service on this node; .*`},
		"missing.timer":   {"", v1alpha1.ReasonUnitNotFound, `systemd knows no unit missing\.timer on this node; .*`},
		"masked.service":  {"mask", v1alpha1.ReasonUnitMasked, `masked\.service is masked, .*systemctl unmask masked\.service.*`},
		"bad.service": {"[Service]\nType=nonsense\n", v1alpha1.ReasonStartFailed,
			`systemd could not load bad\.service \(bad-setting\): Unit bad\.service has a bad unit file setting\.; nothing was executed: .*`},
		"template@.service": {sleeper, v1alpha1.ReasonStartFailed, `systemd does not tell about template@\.service: .*restartUnit\.name.*`},
	} {
		t.Run(name, func(t *testing.T) {
			content := c.content
			if content == "mask" {
				content = ""
			}
			s := newScene(t, host, name, content)
			if c.content == "mask" {
				s.systemctl("mask", "--runtime", name)
			}
			_, outcome := s.remedy.Prepare(t.Context(), s.order(time.Minute))
			s.expect(outcome, c.reason, c.message)
		})
	}
}

func TestARefusedRestartIsNotExecuted(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "refuses.service", "[Unit]\nRefuseManualStart=yes\n"+sleeper)
	_, outcome := s.execute(time.Minute)
	s.expect(outcome, v1alpha1.ReasonStartFailed,
		`systemd does not accept a restart of refuses\.service: Operation refused, .*; nothing was executed: .*`)
}

func TestAUnitThatDoesNotComeBackHasFailed(t *testing.T) {
	t.Parallel()
	host := systemdtest.Shared(t)
	NewWithT(t).Expect(host.Unit(t.Context(), "broken.service", "[Service]\nType=oneshot\nExecStart=/bin/false\n")).To(Succeed())
	for name, c := range map[string]struct{ content, message string }{
		"no-program.service": {"[Service]\nType=exec\nExecStart=/nowhere\n",
			`.* is failed \(failed\) after its restart: it did not start: result exit-code, main process exited with status 203/EXEC; see .*`},
		"tries-again.service": {"[Service]\nType=exec\nRestart=always\nRestartSec=1h\nExecStart=/nowhere\n",
			`.* is activating \(auto-restart\) after its restart: it did not start: result exit-code, main process exited with status 203/EXEC; see .*`},
		"exits.service": {"[Service]\nType=notify\nExecStart=/bin/sh -c 'exit 1'\n",
			`.* is failed \(failed\) after its restart: it did not start: result exit-code, main process exited with status 1; see .*`},
		"dies.service": {"[Service]\nType=exec\nExecStart=/bin/sh -c 'sleep 0.3; exit 4'\n",
			`.* was restarted and did not stay active: it is failed \(failed\): result exit-code, main process exited with status 4; see .*`},
		"crash-loop.service": {"[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=exec\nRestart=always\nRestartSec=0\nExecStart=/bin/sh -c 'sleep 0.3; kill -SEGV $$$$'\n",
			`.* was restarted and did not stay active: it is .*`},
		"needs-broken.service": {"[Unit]\nRequires=broken.service\nAfter=broken.service\n" + sleeper,
			`.* is inactive \(dead\) after its restart: a unit that it requires did not start .*`},
		"asserts.service": {"[Unit]\nAssertPathExists=/nowhere\n" + sleeper,
			`.* is inactive \(dead\) after its restart: an assertion in its unit file .* is not met.*`},
		"conditional.service": {"[Unit]\nConditionPathExists=/nowhere\n" + sleeper,
			`.* is inactive \(dead\) after its restart: .* or a condition in its unit file is not met.*`},
		"late.service": {"[Unit]\nJobRunningTimeoutSec=1s\n" + hangs,
			`.* after its restart: systemd's job took longer than the unit's JobTimeoutSec.*`},
		"oneshot-fails.service": {"[Service]\nType=oneshot\nExecStart=/bin/false\n",
			`.* is failed \(failed\) after its restart: it did not start: result exit-code, main process exited with status 1; see .*`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, host, name, c.content)
			_, outcome := s.execute(time.Minute)
			s.expect(outcome, v1alpha1.ReasonFailed, c.message)
		})
	}
}

func TestAUnitThatSystemdHasGivenUpIsRestarted(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "given-up.service", "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=2\n[Service]\nType=exec\n"+
		"ExecStart=/bin/sh -c 'test -e /run/mended && exec sleep 10000'\n")
	_, err := s.host.Run(t.Context(), "rm", "-f", "/run/mended")
	s.Expect(err).NotTo(HaveOccurred())
	// It fails at once, until it is not even tried. Whenever another test has systemd read its
	// units anew, that begins to count anew.
	for began, before := "", "none"; began != before; {
		before = began
		_, _ = s.host.Run(t.Context(), "systemctl", "restart", s.name)
		output, err := s.host.Run(t.Context(), "systemctl", "show", "--property=ExecMainStartTimestampMonotonic", "--value", s.name)
		s.Expect(err).NotTo(HaveOccurred())
		began = string(output)
	}
	_, err = s.host.Run(t.Context(), "touch", "/run/mended")
	s.Expect(err).NotTo(HaveOccurred())
	_, outcome := s.execute(time.Minute)
	s.expect(outcome, v1alpha1.ReasonSucceeded, `given-up\.service is active \(running\).*`)
}
