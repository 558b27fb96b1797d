//go:build integration

package network_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unsafe"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/network"
)

// patience bounds every wait.
const patience = time.Minute

// inside tells a test that it has a network of its own.
const inside = "NETWORK_INSIDE"

// alone runs the calling test once more in a process with a network of its own, which ends
// with it. It returns true there; the caller has to return if it is false.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, for a network of its own")
	}
	if err := exec.CommandContext(t.Context(), "unshare", "--net", "--mount", "ip", "link").Run(); err != nil {
		t.Skipf("a network of its own can't be made here: unshare (of util-linux), ip (of iproute2): %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--net", "--mount", //nolint:gosec // the program is this one
		"sh", "-c", `mount -t sysfs sysfs /sys && exec "$0" "$@"`, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("with a network of its own:\n%s", out)
	if err != nil {
		t.Error(err)
	}
	return false
}

// wires is a network of real interfaces.
type wires struct{ *testing.T }

// run runs lines of commands of ip.
func (r wires) run(lines string) {
	r.Helper()
	for line := range strings.Lines(lines) {
		if out, err := exec.CommandContext(r.Context(), "ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			r.Fatalf("ip %s: %v\n%s", line, err, out)
		}
	}
}

// check is one that has just started, as after a restart of the detector.
func (r wires) check(include ...string) *network.Check {
	r.Helper()
	return r.checkFor(0, include...)
}

// checkFor is one that wants links to be that fast, in Mb/s.
func (r wires) checkFor(speed int, include ...string) *network.Check {
	r.Helper()
	c, err := network.New(network.Options{
		Include: include, MinSpeed: speed, MaxFlaps: 5, FlapWindow: time.Hour, MaxErrors: 1, MaxDropped: 5, Timeout: patience, Clock: clock.RealClock{},
	})
	if err != nil {
		r.Fatal(err)
	}
	return c
}

// finds waits until the check finds this.
func (r wires) finds(c *network.Check, status checks.Status, reason, words string) {
	r.Helper()
	var got checks.Result
	NewWithT(r).Eventually(func() bool {
		got = c.Run(r.Context())
		return got.Status == status && got.Reason == reason && strings.Contains(got.Message, words)
	}, patience, 100*time.Millisecond).Should(BeTrue(), func() string { return got.Reason + ": " + got.Message })
	r.Logf("%s %s: %s", got.Status, got.Reason, got.Message)
}

func TestARealInterfaceLosesItsCarrierAndFlaps(t *testing.T) {
	if !alone(t) {
		return
	}
	r := wires{t}
	r.run(`link add port type veth peer name far
		link set port up
		link set far up`)
	c := r.check("port")
	r.finds(c, checks.False, network.ReasonHealthy, "port")
	r.run("link set far down")
	r.finds(c, checks.True, network.ReasonCarrierLost, "port: no carrier")
	r.finds(r.check("port"), checks.True, network.ReasonCarrierLost, "port: no carrier")
	r.run("link set far up")
	r.finds(c, checks.False, network.ReasonHealthy, "port")
	for range 4 {
		r.run("link set far down")
		r.finds(c, checks.True, network.ReasonCarrierLost, "port: no carrier")
		r.run("link set far up")
		c.Run(t.Context())
	}
	r.finds(c, checks.True, network.ReasonFlapping, "port: lost its carrier 5 times in ")
	r.finds(r.check("port"), checks.False, network.ReasonHealthy, "port") // which is why the thresholds last as long as the window
	r.run("link set port down")
	r.finds(c, checks.Unknown, network.ReasonNotSeen, "switched on")
}

func TestPacketsThatARealInterfaceDropsAreCounted(t *testing.T) {
	if !alone(t) {
		return
	}
	r := wires{t}
	r.run(`link add port type veth peer name far
		link set far address 02:00:00:00:00:02
		link set far mtu 576
		link set port up
		link set far up
		address add 192.0.2.1/24 dev port
		neighbour add 192.0.2.2 lladdr 02:00:00:00:00:02 dev port`)
	c := r.check("port")
	r.finds(c, checks.False, network.ReasonHealthy, "port")
	conn, err := net.Dial("udp", "192.0.2.2:9")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for range 100 {
		if _, err := conn.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	r.finds(c, checks.True, network.ReasonDropped, "port: 100 packets dropped")
	r.finds(c, checks.False, network.ReasonHealthy, "port")
}

func TestAPortOfARealBridgeWithASmallerMTUIsNamed(t *testing.T) {
	if !alone(t) {
		return
	}
	r := wires{t}
	r.run(`link add port type veth peer name far
		link set port up
		link set far up
		link add br0 type bridge
		link set port master br0
		link set br0 mtu 1400`)
	c := r.check("port")
	r.finds(c, checks.False, network.ReasonHealthy, "port")
	r.run("link set br0 mtu 9000")
	r.finds(c, checks.True, network.ReasonMTU, "port: its MTU is 1500, that of br0, which it is a part of, 9000")
	r.run("link set br0 mtu 1500")
	r.finds(c, checks.False, network.ReasonHealthy, "port")
}

func TestARealBondWithoutAMemberIsDegraded(t *testing.T) {
	if !alone(t) {
		return
	}
	r := wires{t}
	var failed *exec.ExitError
	if err := exec.CommandContext(t.Context(), "ip", "link", "add", "bond0", "type", "bond", "miimon", "100", "mode", "active-backup").Run(); errors.As(err, &failed) {
		t.Skip("this kernel has no bonds")
	}
	r.run(`link add port1 type veth peer name far1
		link add port2 type veth peer name far2
		link set far1 up
		link set far2 up
		link set port1 master bond0
		link set port2 master bond0
		link set bond0 up`)
	c := r.check()
	r.finds(c, checks.False, network.ReasonHealthy, "bond0")
	r.run("link set far2 down")
	r.finds(c, checks.True, network.ReasonDegraded, "bond0: member port2 has no carrier")
	r.finds(r.check(), checks.True, network.ReasonDegraded, "bond0: member port2 has no carrier")
	r.run("link set far1 down")
	r.finds(c, checks.True, network.ReasonCarrierLost, "bond0: no carrier")
	r.run(`link set far1 up
		link set far2 up`)
	r.finds(c, checks.False, network.ReasonHealthy, "bond0")

	r.run(`link set bond0 down
		link set port1 nomaster
		link set port2 nomaster
		link set bond0 type bond mode 802.3ad
		link set port1 master bond0
		link set port2 master bond0
		link set bond0 up`)
	r.finds(r.check(), checks.True, network.ReasonDegraded, "bond0: no switch speaks LACP with it")
}

// A tunnel to a place to which there is no way can't send what it is given.
func TestPacketsThatARealInterfaceFailsToSendAreCounted(t *testing.T) {
	if !alone(t) {
		return
	}
	r := wires{t}
	r.run(`link add port type veth peer name far
		link set port up
		link set far up
		link add tunnel type vxlan id 7 remote 10.9.0.2 dstport 4789
		address add 10.8.0.1/24 dev tunnel
		link set tunnel up
		neighbour add 10.8.0.2 lladdr 02:00:00:00:00:02 dev tunnel`)
	c := r.check("tunnel")
	r.finds(c, checks.False, network.ReasonHealthy, "tunnel")
	send := func() {
		t.Helper()
		conn, err := net.Dial("udp", "10.8.0.2:9")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		for range 100 {
			if _, err := conn.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
		}
	}
	send()
	if got := c.Run(t.Context()); got.Status != checks.True || got.Reason != network.ReasonErrors || !strings.Contains(got.Message, "tunnel: 10") {
		t.Errorf("got %+v", got)
	} else {
		t.Logf("%s %s: %s", got.Status, got.Reason, got.Message)
	}
	r.run(`address add 10.9.0.1/24 dev port
		neighbour replace 10.9.0.2 lladdr 02:00:00:00:00:03 dev port`)
	send()
	r.finds(c, checks.False, network.ReasonHealthy, "tunnel")
}

func TestTheSpeedOfARealInterfaceIsThatOfItsLink(t *testing.T) {
	if !alone(t) {
		return
	}
	r := wires{t}
	device, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("needs tun: ", err)
	}
	defer func() { _ = unix.Close(device) }() // with which it is gone
	of, err := unix.NewIfreq("tap")
	if err != nil {
		t.Fatal(err)
	}
	of.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(device, unix.TUNSETIFF, of); err != nil {
		t.Fatal(err)
	}
	r.run("link set tap up")
	r.speed("tap", 100)
	r.finds(r.checkFor(0, "tap"), checks.False, network.ReasonHealthy, "tap (100 Mb/s)")
	c := r.checkFor(1000, "tap")
	r.finds(c, checks.True, network.ReasonSlow, "tap: 100 Mb/s, and minSpeed is 1000")
	r.finds(r.checkFor(1000, "tap"), checks.True, network.ReasonSlow, "tap: 100 Mb/s") // after a restart
	r.speed("tap", 1000)
	r.finds(c, checks.False, network.ReasonHealthy, "tap (1000 Mb/s)")
}

// speed sets the speed of an interface, as ethtool -s does.
func (r wires) speed(name string, megabits uint16) {
	r.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = unix.Close(socket) }() // nothing was sent
	// ethtool_cmd of linux/ethtool.h.
	command := struct {
		cmd, supported, advertising                    uint32
		speed                                          uint16
		duplex, port, address, transceiver, auto, mdio uint8
		_                                              [2]uint32
		speedHigh                                      uint16
		_                                              [2]uint8
		_                                              [3]uint32
	}{cmd: unix.ETHTOOL_SSET, speed: megabits, duplex: 1}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&command)} //nolint:gosec // as ioctl wants it
	copy(request.name[:], name)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 { //nolint:gosec // as above
		r.Fatalf("setting the speed of %s: %v", name, errno)
	}
}
