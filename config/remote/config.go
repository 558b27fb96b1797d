// Package remote is the file remote.yaml: which switch has the power of which node, and how
// to log in there, and which machines may be replaced. The first entry whose nodes include a node is
// that of the node.
package remote

import (
	"cmp"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/internal/openstack"
)

// Config is a whole file.
type Config struct {
	Switches []Switch `yaml:"switches"`
	// Replace says which machines may be replaced; nil: none.
	Replace *Replace `yaml:"replace"`

	// Cluster returns a client for the cluster of a kubeconfig, which reads nothing from a cache; "": this
	// cluster. It is for switches that are objects; who asks for those sets it.
	Cluster func(kubeconfig string) (client.Client, error) `yaml:"-"`

	name string // of the file
}

// Switch says how the power of some nodes is switched. One of IPMI, Redfish, Metal3, OpenStack and
// Program is set.
type Switch struct {
	Nodes     Nodes            `yaml:"nodes"`
	IPMI      *IPMI            `yaml:"ipmi"`
	Redfish   *Redfish         `yaml:"redfish"`
	Metal3    *Metal3          `yaml:"metal3"`
	OpenStack *OpenStackSwitch `yaml:"openstack"`
	Program   *Program         `yaml:"program"`
}

// Nodes says which nodes are meant: those that names and matchLabels include. What is left
// out includes all.
type Nodes struct {
	// Names are names and patterns, such as worker-1 and gpu-*.
	Names []string `yaml:"names"`
	// MatchLabels are labels that a node has to have, each with this value.
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// IPMI is a BMC by IPMI 2.0 over LAN.
type IPMI struct {
	// Host is a name or an address. It may have placeholders, as all that is called a
	// template: {name}, and {label:KEY} with a KEY that a node can't write itself, such as
	// example.node-restriction.kubernetes.io/bmc. Otherwise whoever has a node could send the
	// login elsewhere, or have another machine switched off.
	Host string `yaml:"host"`
	// Hosts are those of nodes by their names, instead of Host.
	Hosts map[string]string `yaml:"hosts"`
	// ReportedIn are networks, such as 10.20.0.0/16 and fd00:20::/64, instead of Host and Hosts: the BMC
	// of a node is at the first address in one of them that the node reports, by power.BMCAnnotation.
	// Root on a node can report any, and call its machine as another one is called: whatever accepts
	// the login in these networks, or is reached through a machine there, and is what no other node calls
	// its machine, it can have switched in its place.
	ReportedIn []string `yaml:"reportedIn"`
	Port       int      `yaml:"port"`
	Login      `yaml:",inline"`
	// KeyFile has the key of the BMC, K_g.
	KeyFile     string `yaml:"keyFile"`
	CipherSuite int    `yaml:"cipherSuite"`
}

// Redfish is a BMC, or what has many machines, by Redfish.
type Redfish struct {
	// URL is a template: https://HOST or https://HOST:PORT. With Fingerprints, which say whose
	// service it is, it may also have any {label:KEY} and {annotation:KEY}.
	URL string `yaml:"url"`
	// URLs are those of nodes by their names, instead of URL.
	URLs  map[string]string `yaml:"urls"`
	Login `yaml:",inline"`
	// CAFile, ServerName (a template) and Fingerprint say how the service is known.
	CAFile      string `yaml:"caFile"`
	ServerName  string `yaml:"serverName"`
	Fingerprint string `yaml:"fingerprint"`
	// Fingerprints are those of nodes by their names, instead of Fingerprint.
	Fingerprints map[string]string `yaml:"fingerprints"`
	// System, a template, is the Id of the node's system in a service that has many; Systems are
	// those of nodes by their names, instead of System.
	System  string            `yaml:"system"`
	Systems map[string]string `yaml:"systems"`
}

// Login is a user with a password in a file, that of a mounted Secret.
type Login struct {
	User         string `yaml:"user"`
	PasswordFile string `yaml:"passwordFile"`
}

// Program is a program with fence-agents' convention.
type Program struct {
	Path string `yaml:"path"`
	// Options are templates.
	Options map[string]string `yaml:"options"`
	// SecretFiles are files with values of options.
	SecretFiles map[string]string `yaml:"secretFiles"`
}

// Metal3 is a BareMetalHost, whose operator has the BMC.
type Metal3 struct {
	Namespace string `yaml:"namespace"`
	// Host is the name of the BareMetalHost, a template.
	Host string `yaml:"host"`
	// Hosts are those of nodes by their names, instead of Host.
	Hosts map[string]string `yaml:"hosts"`
	// Kubeconfig is that of the cluster that has it; "": this one.
	Kubeconfig string `yaml:"kubeconfig"`
}

// OpenStackSwitch is Nova, for nodes that are its servers. The server is that whose ID is the node's
// systemUUID; the node's spec.providerID, if it has one, has to name the same.
type OpenStackSwitch struct {
	OpenStack `yaml:",inline"`
	// ServerName is a template: the name that the server has to have; "": that of the node.
	ServerName string `yaml:"serverName"`
}

// OpenStack is one project in one region.
type OpenStack struct {
	// CloudsFile is a clouds.yaml, that of a mounted Secret, and Cloud the one of it; "": openstack.
	CloudsFile string `yaml:"cloudsFile"`
	Cloud      string `yaml:"cloud"`
}

// Of returns the cloud.
func (o OpenStack) Of() openstack.Cloud {
	return openstack.Cloud{File: o.CloudsFile, Name: cmp.Or(o.Cloud, "openstack")}
}

func (o OpenStack) problems(p problems) {
	p.file(o.CloudsFile, true, "cloudsFile")
}
