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
		`^systemd does not answer: ` + private + `: .*no such file or directory\n` + bus + `: .*no such file or directory$`)))

	_, err = Dialer{Private: private}.Dial(t.Context())
	g.Expect(err).To(MatchError(Not(ContainSubstring(bus))))

	_, err = Dialer{}.Dial(t.Context())
	g.Expect(err).To(MatchError("systemd does not answer: no socket of it is configured"))
}

func TestSystemdsOwnSocketComesFirstUnlessTheMessageBusIsAskedFor(t *testing.T) {
	g := NewWithT(t)
	bus, private := newFake(t), newFake(t)
	dialer := Dialer{Bus: bus.socket, Private: private.socket}
	for _, c := range []struct {
		dial          func(context.Context) (*Conn, error)
		first, second *fake
		takesFiles    bool
	}{{dialer.Dial, private, bus, true}, {dialer.DialBus, bus, private, false}} {
		conn, err := c.dial(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(conn.TakesFiles()).To(Equal(c.takesFiles))
		conn.Close()
		g.Eventually(c.first.hungUp).WithTimeout(soon).Should(Receive())
		g.Consistently(c.second.hungUp).WithTimeout(50 * time.Millisecond).ShouldNot(Receive())
	}
	g.Expect(bus.greeted.Load()).To(Equal(int32(1)))
}

func TestSystemdItselfIsAskedForNothingThatOnlyAMessageBusKnows(t *testing.T) {
	g := NewWithT(t)
	private := newFake(t)
	conn, err := Dialer{Private: private.socket}.DialBus(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	defer conn.Close()
	_, err = conn.Watch(t.Context(), "x.service")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conn.CancelJob(t.Context(), 1)).To(Succeed())
	var asked []any
	private.asked.Range(func(name, _ any) bool { asked = append(asked, name); return true })
	g.Expect(asked).To(ConsistOf("org.freedesktop.DBus.Properties", "org.freedesktop.systemd1.Manager"))
}

func TestAfterThePatienceWithOneSocketTheNextIsTried(t *testing.T) {
	g := NewWithT(t)
	busy, private := newFake(t), newFake(t)
	busy.busy.Store(true)
	conn, err := Dialer{Bus: busy.socket, Private: private.socket, Patience: 50 * time.Millisecond}.DialBus(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	conn.Close()

	private.busy.Store(true)
	_, err = Dialer{Bus: busy.socket, Private: private.socket, Patience: 50 * time.Millisecond}.DialBus(t.Context())
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
