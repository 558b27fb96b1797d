//go:build integration

package unit_test

import (
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
	client "github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner/unit"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

func TestAUnitIsRestartedWhereThereIsNoMessageBus(t *testing.T) {
	t.Parallel()
	host := systemdtest.Shared(t)
	newScene := func(t *testing.T, name, content string) *scene {
		s := newScene(t, host, name, content)
		s.remedy = unit.New(unit.Options{Dialer: client.Dialer{Private: systemdtest.Private(t, host)}, Clock: clock.RealClock{}})
		return s
	}
	t.Run("a service", func(t *testing.T) {
		s := newScene(t, "no-bus.service", sleeper)
		s.systemctl("start", s.name)
		order, outcome := s.execute(time.Minute)
		s.expect(outcome, v1alpha1.ReasonSucceeded, `no-bus\.service is active \(running\) again: main process \d+ -> \d+, after .*`)
		s.expect(s.remedy.Adopt(t.Context(), order), v1alpha1.ReasonSucceeded, `.*, proved by a changed invocation ID`)
	})
	t.Run("a service that fails", func(t *testing.T) {
		s := newScene(t, "no-bus-fails.service", "[Service]\nType=notify\nExecStart=/bin/sh -c 'exit 1'\n")
		_, outcome := s.execute(time.Minute)
		s.expect(outcome, v1alpha1.ReasonFailed, `.* is failed \(failed\) after its restart: it did not start: .*`)
	})
	t.Run("a job that is cancelled", func(t *testing.T) {
		s := newScene(t, "no-bus-cancelled.service", stubborn)
		s.systemctl("start", s.name)
		s.expect(s.remedy.Execute(s.cancelling("deactivating"), s.prepare(time.Minute)), v1alpha1.ReasonFailed, `.*: systemd's job was cancelled, .*`)
	})
	t.Run("a stop that is wedged", func(t *testing.T) {
		s := newScene(t, "no-bus-wedged.service", stubborn)
		s.systemctl("start", s.name)
		_, outcome := s.execute(ample)
		s.expect(outcome, v1alpha1.ReasonSucceeded, `.*escalated to kill.*`)
	})
}
