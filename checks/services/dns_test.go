package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func TestWhatAnswersOfNameserversProve(t *testing.T) {
	const stub, cache, far, farther = "127.0.0.53", "169.254.20.10", "10.0.0.2", "fd00::2"
	own := []net.Addr{&net.IPNet{IP: net.ParseIP("10.1.0.7"), Mask: net.CIDRMask(24, 32)}, &net.IPNet{IP: net.ParseIP(cache), Mask: net.CIDRMask(32, 32)}}
	refused := answer{err: fmt.Errorf("read: %w", os.NewSyscallError("recvfrom", syscall.ECONNREFUSED))}
	late := answer{err: fmt.Errorf("read: %w", os.ErrDeadlineExceeded)}
	noRoute := answer{err: fmt.Errorf("%w: %w", errNoRoute, syscall.ENETUNREACH)}
	fails, none := answer{code: dnsmessage.RCodeServerFailure}, answer{code: dnsmessage.RCodeNameError}
	for name, tc := range map[string]struct {
		servers      []string
		answers      []answer
		reason, text string
	}{
		"an answer":                           {[]string{far}, []answer{{}}, "", "nameserver 10.0.0.2 answers"},
		"no such name is an answer":           {[]string{stub}, []answer{none}, "", "nameserver 127.0.0.53 answers"},
		"one of several":                      {[]string{far, farther}, []answer{late, none}, "", "nameserver fd00::2 answers, but not 10.0.0.2"},
		"systemd-resolved does not run":       {[]string{stub}, []answer{refused}, ReasonResolverGone, "no resolver runs at 127.0.0.53, which is this node's own"},
		"nor does NodeLocal DNSCache":         {[]string{cache}, []answer{refused}, ReasonResolverGone, "169.254.20.10"},
		"and nobody else answers":             {[]string{cache, far, farther}, []answer{refused, late, fails}, ReasonResolverGone, "own, nor answers fd00::2 (ServerFailure), 10.0.0.2"},
		"but another one does":                {[]string{stub, far}, []answer{refused, {}}, "", "10.0.0.2 answers, but not 127.0.0.53"},
		"one elsewhere refuses":               {[]string{far}, []answer{refused}, ReasonSilent, "no nameserver answers: 10.0.0.2; if other nodes say so, too, it is their fault"},
		"silence":                             {[]string{far, stub}, []answer{late, late}, ReasonSilent, "10.0.0.2, 127.0.0.53"},
		"no route":                            {[]string{far, farther}, []answer{noRoute, noRoute}, ReasonNoRoute, "no route to its nameservers 10.0.0.2, fd00::2"},
		"no route to one":                     {[]string{far, farther}, []answer{late, noRoute}, ReasonSilent, "10.0.0.2, fd00::2"},
		"a router far away knows of no route": {[]string{far}, []answer{{err: syscall.ENETUNREACH}}, ReasonSilent, "10.0.0.2"},
		"they can't tell":                     {[]string{far, farther}, []answer{fails, late}, ReasonFailing, "no nameserver can tell: 10.0.0.2 (ServerFailure), nor answers fd00::2; if other nodes say so, too"},
	} {
		t.Run(name, func(t *testing.T) {
			var servers []netip.Addr
			for _, s := range tc.servers {
				servers = append(servers, netip.MustParseAddr(s))
			}
			expect(t, judgeDNS(servers, tc.answers, own), tc.reason, tc.text)
		})
	}
}

func TestTheNameserversOfTheHost(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"some":                       {map[string]string{"etc/resolv.conf": "# generated\nsearch example.com\nnameserver 10.0.0.2\nnameserver fe80::1%eth0 # \noptions ndots:5\n nameserver bad\n\tnameserver\t127.0.0.53\n"}, []string{"10.0.0.2", "fe80::1%eth0", "127.0.0.53"}},
		"more than a resolver uses":  {map[string]string{"etc/resolv.conf": "nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nnameserver 10.0.0.4\n"}, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}},
		"behind a link of systemd's": {map[string]string{"etc/resolv.conf": "->/run/systemd/resolve/stub-resolv.conf", "run/systemd/resolve/stub-resolv.conf": "nameserver 127.0.0.53\n"}, []string{"127.0.0.53"}},
		"no file":                    {nil, nil},
		"an empty file":              {map[string]string{"etc/resolv.conf": ""}, nil},
		"a link that leads nowhere":  {map[string]string{"etc/resolv.conf": "->/run/gone"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			servers, err := hostWith(t, tc.files).nameservers()
			var got []string
			for _, s := range servers {
				got = append(got, s.String())
			}
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("got %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

var localhost = dnsmessage.MustNewName("localhost.")

// nameserver answers on loopback with what reply makes of a query; nil: with nothing.
func nameserver(t *testing.T, reply func(n int, query dnsmessage.Message) [][]byte) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 512)
		for n := 1; ; n++ {
			size, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var query dnsmessage.Message
			if err := query.Unpack(buffer[:size]); err != nil {
				t.Errorf("it was asked %x: %v", buffer[:size], err)
			}
			for _, packet := range reply(n, query) {
				_, _ = conn.WriteTo(packet, from)
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func packed(t *testing.T, m dnsmessage.Message) []byte {
	t.Helper()
	packet, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return packet
}

func TestANameserverIsAskedAgainAndOnlyItsAnswerCounts(t *testing.T) {
	server := nameserver(t, func(n int, query dnsmessage.Message) [][]byte {
		if n == 1 {
			return nil // the packet is lost
		}
		good := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, RCode: dnsmessage.RCodeNameError}, Questions: query.Questions}
		other, echo := good, query
		other.ID++
		another := good
		another.Questions = []dnsmessage.Question{{Name: dnsmessage.MustNewName("x."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}
		return [][]byte{packed(t, other), packed(t, echo), packed(t, another), {1, 2, 3}, packed(t, good)}
	})
	if code, err := ask(t.Context(), server, localhost, time.Second); err != nil || code != dnsmessage.RCodeNameError {
		t.Errorf("got %v, %v", code, err)
	}
}

func TestAnAnswerWithoutTheQuestionCounts(t *testing.T) {
	server := nameserver(t, func(_ int, query dnsmessage.Message) [][]byte {
		return [][]byte{packed(t, dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, RCode: dnsmessage.RCodeRefused}})}
	})
	if code, err := ask(t.Context(), server, localhost, time.Minute); err != nil || code != dnsmessage.RCodeRefused {
		t.Errorf("got %v, %v", code, err)
	}
}

func TestNobodyListensWhereTheKernelSaysSo(t *testing.T) {
	_, err := ask(t.Context(), netip.MustParseAddrPort(nobody(t, "udp")), localhost, time.Minute)
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got the error %v", err)
	}
}

func TestAskingEndsWithTheRun(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	server := nameserver(t, func(int, dnsmessage.Message) [][]byte {
		end()
		return nil
	})
	if _, err := ask(ctx, server, localhost, time.Hour); err == nil {
		t.Error("there is an answer")
	}
}
