//go:build integration

package systemd_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

func TestMain(m *testing.M) { os.Exit(systemdtest.Run(m)) }

func dial(t *testing.T, dialer systemd.Dialer) *systemd.Conn {
	t.Helper()
	conn, err := dialer.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func TestASocketThatNeverAnswersIsGivenUpForTheSecond(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	silent := filepath.Join(t.TempDir(), "bus")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", silent)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	start := time.Now()
	_, err = systemd.Dialer{Bus: silent, Private: "/nowhere"}.DialBus(t.Context())
	g.Expect(err).To(MatchError(MatchRegexp(`^systemd does not answer: ` + silent + `: no answer within 5s\n/nowhere: .*no such file or directory$`)))
	g.Expect(time.Since(start)).To(BeNumerically(">=", 5*time.Second))
}

func TestACancelledJobIsGone(t *testing.T) {
	t.Parallel()
	g, ctx, host := NewWithT(t), t.Context(), systemdtest.Shared(t)
	g.Expect(host.Unit(ctx, "hangs.service", "[Service]\nType=notify\nTimeoutStartSec=infinity\nExecStart=/bin/sleep 1000\n")).To(Succeed())
	conn := dial(t, systemd.Dialer{Bus: host.Bus()})
	ended := make(chan string, 1)
	id, err := conn.StartUnitContext(ctx, "hangs.service", "replace", ended)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conn.CancelJob(ctx, uint32(id))).To(Succeed())
	g.Eventually(ended).WithTimeout(time.Minute).Should(Receive(Equal("canceled")))
	g.Expect(conn.CancelJob(ctx, uint32(id))).To(MatchError(MatchRegexp(`Job \d+ does not exist`)))
	_, err = conn.StopUnitContext(ctx, "hangs.service", "replace", nil)
	g.Expect(err).NotTo(HaveOccurred())
}

func TestAReferredUnitIsRememberedUntilTheConnectionIsClosed(t *testing.T) {
	t.Parallel()
	g, ctx, host := NewWithT(t), t.Context(), systemdtest.Shared(t)
	const name = "short.service"
	g.Expect(host.Unit(ctx, name, "[Service]\nExecStart=/bin/sleep 1000\n")).To(Succeed())
	other, conn := dial(t, systemd.Dialer{Bus: host.Bus()}), dial(t, systemd.Dialer{Bus: host.Bus()})
	invocation := func() any {
		property, err := other.GetUnitPropertyContext(ctx, name, "InvocationID")
		g.Expect(err).NotTo(HaveOccurred())
		return property.Value.Value()
	}
	_, err := host.Run(ctx, "systemctl", "start", name)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conn.RefUnit(ctx, name)).To(Succeed())
	g.Expect(conn.RefUnit(ctx, "missing.service")).To(MatchError("Unit missing.service not found."))
	_, err = host.Run(ctx, "systemctl", "stop", name)
	g.Expect(err).NotTo(HaveOccurred())
	g.Consistently(invocation).WithTimeout(100 * time.Millisecond).Should(HaveLen(16))
	conn.Close()
	g.Eventually(invocation).WithTimeout(time.Minute).Should(BeEmpty())
}
