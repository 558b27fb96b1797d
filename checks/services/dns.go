package services

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/nodemend/nodemend/internal/bounded"
)

const (
	dnsPort = 53
	// maxNameservers is how many of resolv.conf a resolver uses (MAXNS).
	maxNameservers = 3
	// tries is how often a nameserver is asked: UDP may lose a packet.
	tries = 3
)

// nameservers returns those of the host's resolv.conf.
func (r root) nameservers() ([]netip.Addr, error) {
	data, err := r.read("/etc/resolv.conf")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var servers []netip.Addr
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan() && len(servers) < maxNameservers; {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if server, err := netip.ParseAddr(fields[1]); err == nil {
			servers = append(servers, server)
		}
	}
	return servers, nil
}

// answer is what came of asking a nameserver.
type answer struct {
	code dnsmessage.RCode
	err  error
}

// dns asks all nameservers at once.
func (c *Check) dns(ctx context.Context, seen files) part {
	switch {
	case !c.options.DNS:
		return part{}
	case seen.err != nil:
		return finding(ReasonNotSeen, "the nameservers are not known: %v", seen.err)
	case len(seen.servers) == 0:
		return finding(ReasonNoNameserver, "/etc/resolv.conf names no nameserver")
	}
	answers := make([]answer, len(seen.servers))
	var asking bounded.Group
	for i, server := range seen.servers {
		asking.Go(func() { answers[i].code, answers[i].err = c.options.Ask(ctx, server, c.options.Name) })
	}
	asking.Wait()
	own, _ := c.options.Addresses() // of what can't be read, only loopback is known to be this node's
	return judgeDNS(seen.servers, answers, own)
}

// judgeDNS says what answers mean. One that is good is enough. That a nameserver elsewhere is
// silent or can't tell proves nothing about this node: it may be so for all nodes.
func judgeDNS(servers []netip.Addr, answers []answer, own []net.Addr) part {
	var good, gone, unreachable, failing, silent []string
	for i, server := range servers {
		a := answers[i]
		switch {
		case a.err == nil && (a.code == dnsmessage.RCodeSuccess || a.code == dnsmessage.RCodeNameError):
			good = append(good, server.String())
		case a.err == nil:
			failing = append(failing, fmt.Sprintf("%s (%s)", server, strings.TrimPrefix(a.code.String(), "RCode")))
		case errors.Is(a.err, syscall.ECONNREFUSED) && isOwn(server, own):
			gone = append(gone, server.String())
		case errors.Is(a.err, errNoRoute):
			unreachable = append(unreachable, server.String())
		default:
			silent = append(silent, server.String())
		}
	}
	var others string
	if bad := slices.Concat(gone, unreachable, failing, silent); bad != nil {
		others = ", but not " + strings.Join(bad, ", ")
	}
	switch {
	case good != nil:
		return part{well: fmt.Sprintf("nameserver %s answers%s", strings.Join(good, ", "), others)}
	case gone != nil:
		return finding(ReasonResolverGone, "no resolver runs at %s, which is this node's own%s", strings.Join(gone, ", "), also(unreachable, failing, silent))
	case len(unreachable) == len(servers):
		return finding(ReasonNoRoute, "the node has no route to its nameservers %s", strings.Join(unreachable, ", "))
	case failing != nil:
		return finding(ReasonFailing, "no nameserver can tell: %s%s; if other nodes say so, too, it is theirs or the name's fault", strings.Join(failing, ", "), also(unreachable, silent))
	default:
		return finding(ReasonSilent, "no nameserver answers: %s; if other nodes say so, too, it is their fault", strings.Join(append(silent, unreachable...), ", "))
	}
}

// also names further nameservers that do not answer.
func also(lists ...[]string) string {
	all := slices.Concat(lists...)
	if all == nil {
		return ""
	}
	return ", nor answers " + strings.Join(all, ", ")
}

// isOwn returns whether an address is of this node itself, as those of systemd-resolved and of
// NodeLocal DNSCache are.
func isOwn(server netip.Addr, own []net.Addr) bool {
	if server.IsLoopback() {
		return true
	}
	for _, a := range own {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Unmap() == server.Unmap().WithZone("") {
			return true
		}
	}
	return false
}

// addresses are those of this node's interfaces, without the addresses of Services: kube-proxy puts
// them on an interface of its own where it uses IPVS.
func addresses() (all []net.Addr, err error) {
	const ofServices = "kube-ipvs0"
	interfaces, err := net.Interfaces()
	for _, i := range interfaces {
		if i.Name == ofServices {
			continue
		}
		some, errAddrs := i.Addrs()
		all, err = append(all, some...), errors.Join(err, errAddrs)
	}
	return all, err
}

// Errors of asking.
var (
	// errNoAnswer: what came is no answer to the question.
	errNoAnswer = errors.New("no answer to the question")
	// errNoRoute: this node's own kernel has no way to the nameserver.
	errNoRoute = errors.New("no route")
)

// ask asks a nameserver over UDP for the IPv4 address of a name, again if nothing has come after
// a time. Whatever it answers, it is there.
func ask(ctx context.Context, server netip.AddrPort, name dnsmessage.Name, again time.Duration) (code dnsmessage.RCode, err error) {
	for range tries {
		code, err = askOnce(ctx, server, name, again)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	return code, err
}

func askOnce(ctx context.Context, server netip.AddrPort, name dnsmessage.Name, wait time.Duration) (dnsmessage.RCode, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", server.String())
	if errors.Is(err, syscall.ENETUNREACH) {
		return 0, fmt.Errorf("%w: %w", errNoRoute, err) // nothing was sent: it is this kernel that says so
	} else if err != nil { // EHOSTUNREACH is what Cilium says of a Service that nobody provides
		return 0, err
	}
	defer func() { _ = conn.Close() }() // nothing is lost
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var id [2]byte
	_, _ = rand.Read(id[:]) // it never fails
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: binary.BigEndian.Uint16(id[:]), RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	packet, err := query.Pack()
	if err != nil {
		return 0, err
	}
	if _, err := conn.Write(packet); err != nil {
		return 0, err
	}
	for buffer := make([]byte, 4096); ; {
		n, err := conn.Read(buffer)
		if err != nil {
			return 0, err
		}
		if code, err := answered(buffer[:n], query); err == nil {
			return code, nil
		}
	}
}

// answered returns the code of the answer to a query.
func answered(packet []byte, query dnsmessage.Message) (dnsmessage.RCode, error) {
	var p dnsmessage.Parser
	header, err := p.Start(packet)
	if err != nil {
		return 0, err
	}
	questions, err := p.AllQuestions()
	if err != nil {
		return 0, err
	}
	asked := query.Questions[0]
	if !header.Response || header.ID != query.ID || len(questions) > 1 ||
		len(questions) == 1 && (questions[0].Type != asked.Type || !strings.EqualFold(questions[0].Name.String(), asked.Name.String())) {
		return 0, errNoAnswer
	}
	return header.RCode, nil
}
