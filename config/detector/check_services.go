package detector

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Services is the check that owns the condition ServiceNetworkUnhealthy.
type Services struct {
	Run `yaml:",inline"`
	// KubeProxyEndpoint is where kube-proxy tells of its health; empty: it is not asked.
	KubeProxyEndpoint string `yaml:"kubeProxyEndpoint"`
	// KubeProxyRequired: that nobody listens there is a fault.
	KubeProxyRequired bool `yaml:"kubeProxyRequired"`
	// CNI: the configuration of the pod network is looked at, in the folders CNIConfigs, and its
	// programs in the folders CNIPlugins; empty: the usual ones.
	CNI        bool     `yaml:"cni"`
	CNIConfigs []string `yaml:"cniConfigs"`
	CNIPlugins []string `yaml:"cniPlugins"`
	// DNS: the Nameservers are asked for DNSName; empty: those of /etc/resolv.conf.
	DNS         bool     `yaml:"dns"`
	Nameservers []string `yaml:"nameservers"`
	DNSName     string   `yaml:"dnsName"`
}

// FullDNSName is DNSName with the dot at its end.
func (s *Services) FullDNSName() string { return strings.TrimSuffix(s.DNSName, ".") + "." }

func (s *Services) setDefaults() {
	*s = Services{
		Run: Run{
			Interval: Duration{30 * time.Second}, Timeout: Duration{10 * time.Second},
			// Two minutes, which an upgrade of kube-proxy or of the pod network takes; and ten
			// after a boot, until the latter is installed.
			FailureThreshold: 4, SuccessThreshold: 2, StartupGrace: Duration{10 * time.Minute},
		},
		KubeProxyEndpoint: "http://127.0.0.1:10256",
		CNI:               true, CNIConfigs: []string{}, CNIPlugins: []string{},
		DNS: true, Nameservers: []string{}, DNSName: "localhost",
	}
}

func (s *Services) problems(found *problems, at func(field ...string) []string) {
	s.problemsWithin(maxHeartbeat, found, at)
	if s.KubeProxyEndpoint != "" {
		found.url(s.KubeProxyEndpoint, "http", at("kubeProxyEndpoint")...)
	} else if s.KubeProxyRequired {
		found.add("without a kubeProxyEndpoint nobody can tell whether kube-proxy is there", at("kubeProxyRequired")...)
	}
	found.folders(s.CNIConfigs, at("cniConfigs")...)
	found.folders(s.CNIPlugins, at("cniPlugins")...)
	for _, server := range s.Nameservers {
		if _, err := netip.ParseAddr(server); err != nil {
			found.add(fmt.Sprintf("%q is no IP address, such as 10.96.0.10", server), at("nameservers")...)
		}
	}
	if why := validation.IsDNS1123Subdomain(strings.TrimSuffix(s.DNSName, ".")); why != nil {
		found.add(fmt.Sprintf("%q is no name of a host, such as registry.example.com", s.DNSName), at("dnsName")...)
	}
}
