//go:build integration

package systemd_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

func TestTheEndOfAUnitIsToldByEitherSocket(t *testing.T) {
	t.Parallel()
	host := systemdtest.Shared(t)
	for name, dialer := range map[string]systemd.Dialer{
		"bus":     {Bus: host.Bus()},
		"private": {Private: systemdtest.Private(t, host)},
	} {
		t.Run(name, func(t *testing.T) {
			g, ctx := NewWithT(t), t.Context()
			watched, other := "watched-"+name+"-1.service", "other-"+name+".service"
			for _, unit := range []string{watched, other} {
				g.Expect(host.Unit(ctx, unit, "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n")).To(Succeed())
			}
			conn := dial(t, dialer)
			ended, err := conn.Watch(ctx, watched)
			g.Expect(err).NotTo(HaveOccurred())
			start := func(unit string) {
				g.Expect(conn.Await(ctx, func(result chan<- string) (int, error) {
					return conn.StartUnitContext(ctx, unit, "replace", result)
				})).To(Equal("done"))
			}
			start(other)
			g.Expect(ended).NotTo(Receive())
			start(watched)
			g.Eventually(ended).WithTimeout(patience).Should(Receive())
			conn.Close()
			g.Eventually(ended).WithTimeout(patience).Should(BeClosed())
		})
	}
}

func TestAJobThatHasEndedIsNotAwaitedForEver(t *testing.T) {
	t.Parallel()
	g, ctx, host := NewWithT(t), t.Context(), systemdtest.Shared(t)
	conn := dial(t, systemd.Dialer{Private: systemdtest.Private(t, host)})
	_, err := conn.Await(ctx, func(chan<- string) (int, error) { return 1 << 30, nil })
	g.Expect(err).To(MatchError("systemd has not said how its job has ended: Job 1073741824 does not exist."))

	_, err = conn.Await(ctx, func(chan<- string) (int, error) {
		conn.Close()
		return 1 << 30, nil
	})
	g.Expect(err).To(MatchError(ContainSubstring("the connection to systemd has ended")))
}

func TestSystemdIsHeardOverTheMessageBusWhenItWasExecutedAnew(t *testing.T) {
	t.Parallel()
	g, ctx, host := NewWithT(t), t.Context(), systemdtest.Own(t)
	g.Expect(host.Unit(ctx, "ends.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n")).To(Succeed())
	conn := dial(t, systemd.Dialer{Bus: host.Bus()})
	before := owner(g, host.Bus())
	_, err := host.Run(ctx, "systemctl", "daemon-reexec")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func(g Gomega) { g.Expect(owner(g, host.Bus())).NotTo(Equal(before)) }).WithTimeout(patience).Should(Succeed())
	g.Expect(conn.Await(ctx, func(result chan<- string) (int, error) {
		return conn.StartUnitContext(ctx, "ends.service", "replace", result)
	})).To(Equal("done"))
}
