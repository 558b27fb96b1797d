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

	. "github.com/onsi/gomega"
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
	c, err := network.New(network.Options{
		Include: include, MaxFlaps: 5, FlapWindow: time.Hour, MaxErrors: 1, MaxDropped: 5, Timeout: patience, Clock: clock.RealClock{},
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
