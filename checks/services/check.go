// Package services checks what the node itself needs so that its pods reach Services: kube-proxy,
// the configuration of the pod network (CNI), and the resolver.
package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/internal/bounded"
)

// ConditionType is the node condition that the check owns.
const ConditionType = "ServiceNetworkUnhealthy"

// Options of the check.
type Options struct {
	// KubeProxy is where kube-proxy tells of its health, such as http://127.0.0.1:10256; empty:
	// it is not asked.
	KubeProxy string
	// KubeProxyRequired: that nobody listens there is a fault. Without it, that is taken for a
	// node without kube-proxy.
	KubeProxyRequired bool
	// CNI: the configuration of the pod network is looked at.
	CNI bool
	// CNIConfigs and CNIPlugins are the folders of configurations and of plugins; empty: those
	// that are usual, as far as there are such.
	CNIConfigs, CNIPlugins []string
	// DNS: the nameservers are asked.
	DNS bool
	// Nameservers are those that are asked; empty: those of the host's /etc/resolv.conf.
	Nameservers []netip.Addr
	// Name is what they are asked for. Required with DNS.
	Name dnsmessage.Name
	// Timeout is the deadline of a run. Required.
	Timeout time.Duration
	// Process is a folder of /proc: whose view of the files counts; empty: that of the process
	// 1, which has the host's.
	Process string
	// Ask asks a nameserver for a name; nil: over the network.
	Ask func(ctx context.Context, server netip.Addr, name dnsmessage.Name) (dnsmessage.RCode, error)
	// Addresses are those of the node's interfaces; nil: what the kernel tells.
	Addresses func() ([]net.Addr, error)
	Clock     clock.Clock
}

// Check is the check of the node's part of the service network.
type Check struct {
	options Options
	files   bounded.Single[files]
	// proxySeen is whether anybody has ever answered in kube-proxy's place.
	proxySeen bool
}

var _ checks.Check = (*Check)(nil)

// New returns a check. Its error is [checks.Off] if all of it is switched off.
func New(options Options) (*Check, error) {
	if options.KubeProxy == "" && !options.CNI && !options.DNS {
		return nil, checks.Off{Why: "neither kube-proxy nor CNI nor DNS is to be looked at"}
	}
	options.KubeProxy = strings.TrimRight(options.KubeProxy, "/")
	if options.Process == "" {
		options.Process = checks.HostProcess
	}
	if options.Ask == nil {
		options.Ask = func(ctx context.Context, server netip.Addr, name dnsmessage.Name) (dnsmessage.RCode, error) {
			return ask(ctx, netip.AddrPortFrom(server, dnsPort), name, options.Timeout*9/10/tries)
		}
	}
	if options.Addresses == nil {
		options.Addresses = addresses
	}
	return &Check{options: options}, nil
}

// Timeout implements checks.Check.
func (c *Check) Timeout() time.Duration { return c.options.Timeout }

// part is what is found of one part of the service network.
type part struct {
	// found is what is wrong.
	found []checks.Finding
	// well says what is not; "": nothing was looked at.
	well string
}

func finding(reason, format string, args ...any) part {
	return part{found: []checks.Finding{{Reason: reason, Text: fmt.Sprintf(format, args...)}}}
}

// Run implements checks.Check.
func (c *Check) Run(ctx context.Context) checks.Result {
	if why := c.elsewhere(); why != "" {
		return checks.CannotTell(ReasonNotSeen, why)
	}
	// The last tenth is for the verdict.
	within, cancel := context.WithTimeout(ctx, c.options.Timeout*9/10)
	defer cancel()
	var parts [3]part
	var asking bounded.Group
	if c.options.KubeProxy != "" {
		asking.Go(func() { parts[0] = c.kubeProxy(within) })
	}
	parts[1], parts[2] = c.ofFiles(within)
	asking.Wait()
	if errors.Is(ctx.Err(), context.Canceled) {
		return checks.CannotTell(ReasonInterrupted, "the run was interrupted")
	}
	var found []checks.Finding
	var well []string
	for _, p := range parts {
		found = append(found, p.found...)
		if p.well != "" {
			well = append(well, p.well)
		}
	}
	return checks.Judge(found, grave(), checks.Healthy(ReasonHealthy, strings.Join(well, "; ")))
}

// elsewhere says that the network of this process is known not to be the host's; "": it is not.
func (c *Check) elsewhere() string {
	own, err := os.Readlink("/proc/self/ns/net")
	hosts, hostErr := os.Readlink(filepath.Join(c.options.Process, "ns", "net"))
	if err != nil || hostErr != nil || own == hosts {
		return ""
	}
	return "the host's network is not seen: give the pod hostNetwork"
}

// files is what the host's files say.
type files struct {
	cni     part
	servers []netip.Addr
	err     error
}

// ofFiles looks at what depends on files of the host: CNI and DNS. A disk that died may never
// answer.
func (c *Check) ofFiles(ctx context.Context) (cni, dns part) {
	options := c.options
	if !options.CNI && (!options.DNS || len(options.Nameservers) > 0) {
		return part{}, c.dns(ctx, files{servers: options.Nameservers})
	}
	if err := checks.SeesHost(options.Process); err != nil {
		return finding(ReasonNotSeen, "%v", err), part{}
	}
	seen, waited, err := c.files.Call(ctx, options.Clock, options.Timeout/2, func() files {
		host := root(filepath.Join(options.Process, "root"))
		var seen files
		if options.CNI {
			seen.cni = host.cni(options.CNIConfigs, options.CNIPlugins)
		}
		if options.DNS && len(options.Nameservers) == 0 {
			seen.servers, seen.err = host.nameservers()
		}
		return seen
	})
	if err != nil {
		return finding(ReasonNotSeen, "the host's files are not read for %s: its disk may hang", waited.Round(time.Second)), part{}
	}
	if len(options.Nameservers) > 0 {
		seen.servers = options.Nameservers
	}
	return seen.cni, c.dns(ctx, seen)
}
