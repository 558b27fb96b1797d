//go:build integration

package systemd_test

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

const (
	propertiesChanged = "org.freedesktop.DBus.Properties.PropertiesChanged"
	jobRemoved        = "org.freedesktop.systemd1.Manager.JobRemoved"
)

// patience is for what comes soon, on however busy a machine.
const patience = 2 * time.Minute

// owner returns the connection of systemd to the message bus.
func owner(g Gomega, bus string) (name string) {
	conn, err := godbus.Connect("unix:path=" + bus)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = conn.Close() }()
	g.Eventually(func() error {
		return conn.BusObject().Call("org.freedesktop.DBus.GetNameOwner", 0, "org.freedesktop.systemd1").Store(&name)
	}).WithTimeout(patience).Should(Succeed())
	return name
}

// forger is a client of the message bus that sends to another.
type forger struct {
	*WithT
	conn  *godbus.Conn
	names []string // that were there before the other
}

func newForger(t *testing.T, bus string) *forger {
	t.Helper()
	f := &forger{WithT: NewWithT(t)}
	var err error
	f.conn, err = godbus.Connect("unix:path=" + bus)
	f.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = f.conn.Close() })
	f.names = f.all()
	return f
}

func (f *forger) all() (names []string) {
	f.Expect(f.conn.BusObject().Call("org.freedesktop.DBus.ListNames", 0).Store(&names)).To(Succeed())
	return names
}

// victim returns the one client that is new and stays.
func (f *forger) victim() string {
	var names []string
	f.Eventually(func() []string {
		names = slices.DeleteFunc(f.all(), func(name string) bool {
			return !strings.HasPrefix(name, ":") || slices.Contains(f.names, name)
		})
		return names
	}).WithTimeout(patience).Should(HaveLen(1))
	return names[0]
}

// send sends a signal to a client.
func (f *forger) send(to string, path godbus.ObjectPath, name string, body ...any) error {
	return f.conn.Send(systemdtest.Signal(to, path, name, body...), nil).Err
}

// sent waits until the message bus has taken all that was sent.
func (f *forger) sent() { f.all() }

// answers waits until a client has read all that was sent to it before.
func answers(ctx context.Context, g Gomega, conn *systemd.Conn) {
	_, err := conn.GetUnitPropertyContext(ctx, "-.slice", "ActiveState")
	g.Expect(err).NotTo(HaveOccurred())
}

func TestWhatIsNotOfSystemdIsNotBelieved(t *testing.T) {
	t.Parallel()
	ctx, host := t.Context(), systemdtest.Own(t)
	f := newForger(t, host.Bus())
	conn := dial(t, systemd.Dialer{Bus: host.Bus()})
	const unit = "/org/freedesktop/systemd1/unit/victim_2eservice"
	ended, err := conn.Watch(ctx, "victim.service")
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(host.Unit(ctx, "victim.service", "[Service]\nType=notify\nTimeoutStartSec=infinity\nExecStart=/bin/sleep 1000\n")).To(Succeed())
	result := make(chan string, 1)
	id, err := conn.StartUnitContext(ctx, "victim.service", "replace", result)
	f.Expect(err).NotTo(HaveOccurred())

	victim := f.victim()
	f.Expect(f.send(victim, "/org/freedesktop/DBus", "org.freedesktop.DBus.NameOwnerChanged", "org.freedesktop.systemd1", owner(f, host.Bus()), f.conn.Names()[0])).To(Succeed())
	f.Expect(f.send(victim, "/org/freedesktop/systemd1", jobRemoved, uint32(id), godbus.ObjectPath("/j"), "victim.service", "done")).To(Succeed())
	f.Expect(f.send(victim, unit, propertiesChanged, "org.freedesktop.systemd1.Unit", map[string]godbus.Variant{"SubState": godbus.MakeVariant("failed")}, []string{})).To(Succeed())
	f.sent()
	answers(ctx, f, conn)
	f.Consistently(result).WithTimeout(100 * time.Millisecond).ShouldNot(Receive())
	f.Expect(ended).NotTo(Receive())

	f.Expect(conn.CancelJob(ctx, uint32(id))).To(Succeed())
	f.Eventually(result).WithTimeout(patience).Should(Receive(Equal("canceled")))
}

// No other test runs beside it, since it looks at all of the process.
func TestAFloodOfForgedSignalsIsNotKept(t *testing.T) {
	ctx, host := t.Context(), systemdtest.Own(t)
	f := newForger(t, host.Bus())
	conn := dial(t, systemd.Dialer{Bus: host.Bus()})
	_, err := conn.Watch(ctx, "victim.service")
	f.Expect(err).NotTo(HaveOccurred())
	victim := f.victim()
	goroutines, heap := runtime.NumGoroutine(), kept()
	const size = 20 << 10 // and one that is longer than any of systemd's
	for i := range 2000 {
		text := strings.Repeat("x", size)
		if i == 1000 {
			text = strings.Repeat("x", 4<<20)
		}
		changed := map[string]godbus.Variant{"SubState": godbus.MakeVariant("failed"), "Text": godbus.MakeVariant(text)}
		f.Expect(f.send(victim, "/org/freedesktop/systemd1/unit/victim_2eservice", propertiesChanged, "org.freedesktop.systemd1.Unit", changed, []string{})).To(Succeed())
		f.Expect(f.send(victim, "/org/freedesktop/systemd1", jobRemoved, uint32(i), godbus.ObjectPath("/j"), "victim.service", "done")).To(Succeed())
	}
	f.sent()
	answers(ctx, f, conn)
	f.Expect(kept()-heap).To(BeNumerically("<", 10<<20), "of 40 MiB")
	f.Expect(runtime.NumGoroutine()-goroutines).To(BeNumerically("<", 1000), "of 4000 signals")
}

// No other test runs beside it, since it looks at all of the process.
func TestFilesThatAnybodySendsAreNotTaken(t *testing.T) {
	ctx, host := t.Context(), systemdtest.Own(t)
	f := newForger(t, host.Bus())
	conn := dial(t, systemd.Dialer{Bus: host.Bus()})
	victim := f.victim()
	file, err := os.Open(os.DevNull)
	f.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	before := openFiles(f)
	for range 100 {
		f.Expect(f.send(victim, "/p", "a.b.C", godbus.UnixFD(file.Fd()), godbus.MakeVariant(godbus.UnixFD(file.Fd())))).To(Succeed())
	}
	f.sent()
	answers(ctx, f, conn)
	f.Expect(openFiles(f) - before).To(BeNumerically("<", 50))
}

func openFiles(g Gomega) int {
	files, err := os.ReadDir("/proc/self/fd")
	g.Expect(err).NotTo(HaveOccurred())
	return len(files)
}

// kept returns how many bytes are in use.
func kept() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
