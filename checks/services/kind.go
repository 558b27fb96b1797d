package services

import (
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// Kind is this kind of check.
func Kind() checks.Kind {
	return checks.Kind{
		Name:          "services",
		ConditionType: ConditionType,
		Help:          "kube-proxy is not well, or the node has no pod network or resolver",
		Absences:      []string{ReasonKubeProxyGone},
		Milder:        []string{ReasonNoConfig, ReasonInvalidConfig, ReasonNoPlugin, ReasonResolverGone, ReasonNoRoute, ReasonNoNameserver},
		Timed:         []string{ReasonKubeProxyTimeout},
		Settings:      func(c *config.Checks) *config.Run { return &c.Services.Run },
		New: func(n *checks.Node) (checks.Check, error) {
			c := n.Config.Checks.Services
			name, err := dnsmessage.NewName(c.FullDNSName())
			if err != nil {
				return nil, err
			}
			var servers []netip.Addr
			for _, text := range c.Nameservers {
				server, err := netip.ParseAddr(text)
				if err != nil {
					return nil, err
				}
				servers = append(servers, server)
			}
			return New(Options{
				KubeProxy: c.KubeProxyEndpoint, KubeProxyRequired: c.KubeProxyRequired,
				CNI: c.CNI, CNIConfigs: c.CNIConfigs, CNIPlugins: c.CNIPlugins,
				DNS: c.DNS, Nameservers: servers, Name: name,
				Timeout: c.Timeout.Duration, Clock: n.Clock,
			})
		},
	}
}
