package systemd

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// soon bounds what should not take any time.
const soon = 5 * time.Second

func TestTheErrorSaysForEachSocketWhatIsWrong(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	bus, private := filepath.Join(dir, "bus"), filepath.Join(dir, "private")
	_, err := Dialer{Bus: bus, Private: private}.Dial(t.Context())
	g.Expect(err).To(MatchError(MatchRegexp(
		`^systemd does not answer: ` + bus + `: .*no such file or directory\n` + private + `: .*no such file or directory$`)))

	_, err = Dialer{Private: private}.Dial(t.Context())
	g.Expect(err).To(MatchError(Not(ContainSubstring(bus))))

	_, err = Dialer{}.Dial(t.Context())
	g.Expect(err).To(MatchError("systemd does not answer: no socket of it is configured"))
}

func TestTheMessageBusComesFirst(t *testing.T) {
	g := NewWithT(t)
	bus, private := newFake(t), newFake(t)
	conn, err := Dialer{Bus: bus.socket, Private: private.socket}.Dial(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	conn.Close()
	g.Expect(bus.greeted.Load()).To(Equal(int32(2)), "once for each of the two connections")
	g.Eventually(bus.hungUp).WithTimeout(soon).Should(Receive())
	g.Eventually(bus.hungUp).WithTimeout(soon).Should(Receive())
	g.Consistently(private.hungUp).WithTimeout(50 * time.Millisecond).ShouldNot(Receive())
}

func TestWithoutAMessageBusSystemdItselfIsAskedAndNotGreeted(t *testing.T) {
	g := NewWithT(t)
	private := newFake(t)
	conn, err := Dialer{Bus: filepath.Join(t.TempDir(), "missing"), Private: private.socket}.Dial(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	conn.Close()
	g.Expect(private.greeted.Load()).To(BeZero())
}

func TestAfterThePatienceWithOneSocketTheNextIsTried(t *testing.T) {
	g := NewWithT(t)
	busy, private := newFake(t), newFake(t)
	busy.busy.Store(true)
	conn, err := Dialer{Bus: busy.socket, Private: private.socket, Patience: 50 * time.Millisecond}.Dial(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	conn.Close()

	private.busy.Store(true)
	_, err = Dialer{Bus: busy.socket, Private: private.socket, Patience: 50 * time.Millisecond}.Dial(t.Context())
	g.Expect(err).To(MatchError("systemd does not answer: " + busy.socket + ": no answer within 50ms\n" + private.socket + ": no answer within 50ms"))
}

func TestAConnectionOutlivesTheContextOfItsDial(t *testing.T) {
	g := NewWithT(t)
	bus := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := Dialer{Bus: bus.socket}.Dial(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	defer conn.Close()
	cancel()
	g.Consistently(func() error { return conn.CancelJob(t.Context(), 1) }).WithTimeout(50 * time.Millisecond).Should(Succeed())
	g.Expect(bus.hungUp).NotTo(Receive())
}

func TestADialEndsWithItsContext(t *testing.T) {
	silent, silentHungUp := listen(t, func(net.Conn) {})
	mute, busy := newFake(t), newFake(t)
	mute.mute.Store(true)
	busy.busy.Store(true)
	for name, c := range map[string]struct {
		dialer Dialer
		hungUp chan struct{}
	}{
		"no authentication":          {Dialer{Bus: silent}, silentHungUp},
		"no answer to the greeting":  {Dialer{Bus: mute.socket}, mute.hungUp},
		"no answer, private":         {Dialer{Private: mute.socket}, mute.hungUp},
		"no answer of systemd":       {Dialer{Bus: busy.socket}, busy.hungUp},
		"no authentication, private": {Dialer{Private: silent}, silentHungUp},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := c.dialer.Dial(ctx)
			g.Expect(err).To(MatchError(context.DeadlineExceeded))
			g.Expect(time.Since(start)).To(BeNumerically("<", answerTime))
			g.Eventually(c.hungUp).WithTimeout(soon).Should(Receive(), "the connection is closed")
		})
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	g := NewWithT(t)
	bus := newFake(t)
	conn, err := Dialer{Bus: bus.socket}.Dial(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	defer conn.Close()
	bus.mute.Store(true)
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error { return conn.CancelJob(ctx, 1) },
		func(ctx context.Context) error { return conn.RefUnit(ctx, "x.service") },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		g.Expect(call(ctx)).To(MatchError(context.DeadlineExceeded))
		cancel()
	}
}
