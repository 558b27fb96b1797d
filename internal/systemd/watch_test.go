//go:build integration

package systemd_test

import (
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

func TestTheChangesOfAUnitAreTold(t *testing.T) {
	t.Parallel()
	g, ctx, host := NewWithT(t), t.Context(), systemdtest.Shared(t)
	const name = "watched-1.service"
	g.Expect(host.Unit(ctx, name, "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n")).To(Succeed())
	g.Expect(host.Unit(ctx, "other.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n")).To(Succeed())
	conn := dial(t, systemd.Dialer{Bus: host.Bus()})
	signals, err := conn.Watch(ctx, name)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = host.Run(ctx, "systemctl", "start", "other.service", name)
	g.Expect(err).NotTo(HaveOccurred())

	var signal *godbus.Signal
	states := func() string { return systemd.SubState(signal, name) }
	g.Eventually(func(g Gomega) {
		g.Expect(signals).To(Receive(&signal))
		g.Expect(states()).To(Equal("exited"))
	}).WithTimeout(10 * time.Second).WithPolling(time.Millisecond).Should(Succeed())
	g.Expect(systemd.SubState(signal, "other.service")).To(BeEmpty())

	conn.Close()
	g.Eventually(func() bool {
		select {
		case _, open := <-signals:
			return !open
		default:
			return false
		}
	}).WithTimeout(10 * time.Second).Should(BeTrue())
}
