//go:build integration

package services_test

import (
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/services"
)

// inside tells a test that it has a network of its own.
const inside = "SERVICES_INSIDE"

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
	if err := exec.CommandContext(t.Context(), "unshare", "--net", "ip", "link").Run(); err != nil {
		t.Skipf("a network of its own can't be made here: unshare (of util-linux), ip (of iproute2): %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--net", //nolint:gosec // the program is this one
		os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("with a network of its own:\n%s", out)
	if err != nil {
		t.Error(err)
	}
	return false
}

// ip runs commands of ip.
func ip(t *testing.T, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		if out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", line, err, out)
		}
	}
}

// look runs the check and expects a reason.
func look(t *testing.T, what string, options services.Options, status checks.Status, reason string) {
	t.Helper()
	// A folder without anything of a process: what this network is, nobody compares.
	options.Process, options.Clock, options.Timeout, options.Name = t.TempDir(), clock.RealClock{}, 3*time.Second, dnsmessage.MustNewName("localhost.")
	c, err := services.New(options)
	if err != nil {
		t.Fatal(err)
	}
	got := c.Run(t.Context())
	t.Logf("%s: %+v", what, got)
	if got.Status != status || got.Reason != reason {
		t.Errorf("%s: want %s %s", what, status, reason)
	}
}

// resolver answers at an address that there is no such name, until it is stopped.
func resolver(t *testing.T, address string) (stop func()) {
	t.Helper()
	conn, err := net.ListenPacket("udp", address+":53")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for buffer := make([]byte, 512); ; {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil {
				continue
			}
			m.Response, m.RCode = true, dnsmessage.RCodeNameError
			if packet, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(packet, from)
			}
		}
	}()
	return func() {
		_ = conn.Close()
		<-done
	}
}

func TestFaultsOfTheResolverAreSeenAndOver(t *testing.T) {
	if !alone(t) {
		return
	}
	ip(t, "link set lo up")
	far := services.Options{DNS: true, Nameservers: []netip.Addr{netip.MustParseAddr("10.9.0.2")}}
	look(t, "no route", far, checks.True, services.ReasonNoRoute)
	ip(t, "link add pods type veth peer name far\naddr add 10.9.0.1/24 dev pods\nlink set pods up\nlink set far up")
	look(t, "a network that loses everything", far, checks.Unknown, services.ReasonSilent)

	cache := services.Options{DNS: true, Nameservers: []netip.Addr{netip.MustParseAddr("169.254.20.10")}}
	ip(t, "link add nodelocaldns type veth peer name other\naddr add 169.254.20.10/32 dev nodelocaldns\nlink set nodelocaldns up")
	look(t, "NodeLocal DNSCache does not run", cache, checks.True, services.ReasonResolverGone)
	stop := resolver(t, "169.254.20.10")
	look(t, "it runs", cache, checks.False, services.ReasonHealthy)
	stop()
	look(t, "it was stopped", cache, checks.True, services.ReasonResolverGone)
}

func TestAKubeProxyIsSeenToGoAndToComeBack(t *testing.T) {
	if !alone(t) {
		return
	}
	ip(t, "link set lo up")
	start := func() *http.Server {
		l, err := net.Listen("tcp", "0.0.0.0:10256")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		go func() { _ = server.Serve(l) }() // it ends when it is closed
		return server
	}
	required := services.Options{KubeProxy: "http://127.0.0.1:10256", KubeProxyRequired: true}
	look(t, "it does not run", required, checks.True, services.ReasonKubeProxyGone)
	server := start()
	look(t, "it runs", required, checks.False, services.ReasonHealthy)
	_ = server.Close()
	look(t, "it was stopped", required, checks.True, services.ReasonKubeProxyGone)
	look(t, "nobody requires it", services.Options{KubeProxy: "http://127.0.0.1:10256"}, checks.False, services.ReasonHealthy)
}
