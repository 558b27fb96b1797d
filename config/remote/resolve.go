package remote

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/ipmilan"
	"github.com/nodemend/nodemend/internal/power/metal3"
	"github.com/nodemend/nodemend/internal/power/nova"
	"github.com/nodemend/nodemend/internal/power/program"
	"github.com/nodemend/nodemend/internal/power/redfish"
)

// Node is what is known of a node.
type Node struct {
	Name                string
	Labels, Annotations map[string]string
	// SystemUUID is what it calls its machine, "" if that is not asked.
	SystemUUID string
	// ProviderID is its spec.providerID, "" once it is not known any more.
	ProviderID string
}

// NodeOf returns what is known of a node.
func NodeOf(node *corev1.Node) Node {
	return Node{
		Name: node.Name, Labels: node.Labels, Annotations: node.Annotations,
		SystemUUID: node.Status.NodeInfo.SystemUUID, ProviderID: node.Spec.ProviderID,
	}
}

// Switch returns the switch of a node: that of the first entry whose nodes include it. The
// error is power.ErrNoSwitch, or what the node lacks that a placeholder asks for, or power.ErrOtherMachine if
// the BMC that it reports is not that of its machine. It asks nobody, and reads no secrets.
func (c Config) Switch(node Node) (power.Switch, error) {
	for i := range c.Switches {
		s := &c.Switches[i]
		if !s.Nodes.include(node) {
			continue
		}
		found, err := s.of(node, c.Cluster)
		if err != nil {
			return nil, fmt.Errorf("%s: switches.%d: node %s: %w", c.name, i, node.Name, err)
		}
		return found, nil
	}
	return nil, fmt.Errorf("%s: node %s: %w", c.name, node.Name, power.ErrNoSwitch)
}

// Needed returns of a node what Switch looks at.
func (c Config) Needed(node Node) Node {
	needed := Node{Name: node.Name, Labels: map[string]string{}, Annotations: map[string]string{}, SystemUUID: node.SystemUUID, ProviderID: node.ProviderID}
	keep := func(kind, key string) (string, error) {
		of, to := node.Labels, needed.Labels
		if kind == "annotation" {
			of, to = node.Annotations, needed.Annotations
		}
		if value, has := of[key]; has && key != "" {
			to[key] = value
		}
		return "", nil
	}
	for i := range c.Switches {
		s := &c.Switches[i]
		for key := range s.Nodes.MatchLabels {
			_, _ = keep("label", key)
		}
		for _, template := range s.templates() {
			_, _ = expand(template, keep)
		}
		if value, has := node.Annotations[power.BMCAnnotation]; has && s.IPMI != nil && s.IPMI.ReportedIn != nil {
			needed.Annotations[power.BMCAnnotation] = power.CutReported(value)
		}
	}
	return needed
}

// templates are the values that may have placeholders.
func (s *Switch) templates() []string {
	switch {
	case s.IPMI != nil:
		return []string{s.IPMI.Host}
	case s.Redfish != nil:
		return []string{s.Redfish.URL, s.Redfish.ServerName, s.Redfish.System}
	case s.Metal3 != nil:
		return []string{s.Metal3.Host}
	case s.OpenStack != nil:
		return []string{s.OpenStack.ServerName}
	case s.Program != nil:
		return slices.Collect(maps.Values(s.Program.Options))
	}
	return nil
}

func (n Nodes) include(node Node) bool {
	for key, value := range n.MatchLabels {
		if got, has := node.Labels[key]; !has || got != value {
			return false
		}
	}
	for _, pattern := range n.Names {
		if matches, _ := path.Match(pattern, node.Name); matches {
			return true
		}
	}
	return len(n.Names) == 0
}

func (s *Switch) of(node Node, cluster func(kubeconfig string) (client.Client, error)) (power.Switch, error) {
	switch {
	case s.IPMI != nil:
		host, err := s.IPMI.of(node)
		if err != nil {
			return nil, err
		}
		return ipmilan.New(ipmilan.Options{
			Host: host, Port: s.IPMI.Port, User: s.IPMI.User, Password: power.Secret{File: s.IPMI.PasswordFile},
			Key: power.Secret{File: s.IPMI.KeyFile}, CipherSuite: s.IPMI.CipherSuite,
		}), nil
	case s.Redfish != nil:
		return s.Redfish.of(node)
	case s.Metal3 != nil:
		host, err := node.value("hosts", s.Metal3.Host, s.Metal3.Hosts)
		if err == nil {
			err = checkObject(host)
		}
		if err != nil {
			return nil, err
		}
		api, err := cluster(s.Metal3.Kubeconfig)
		if err != nil {
			return nil, err
		}
		return metal3.New(api, v1alpha1.BareMetalHostReference{Kubeconfig: s.Metal3.Kubeconfig, Namespace: s.Metal3.Namespace, Name: host}), nil
	case s.OpenStack != nil:
		name, err := expand(cmp.Or(s.OpenStack.ServerName, "{name}"), node.placeholder)
		if err != nil {
			return nil, err
		}
		return nova.New(nova.Options{Cloud: s.OpenStack.Of(), Name: name, ProviderID: node.ProviderID}), nil
	default:
		options := map[string]string{}
		for name, template := range s.Program.Options {
			var err error
			if options[name], err = expand(template, node.placeholder); err != nil {
				return nil, err
			}
		}
		return program.New(program.Options{Path: s.Program.Path, Name: node.Name, Options: options, Secrets: s.Program.secrets()})
	}
}

// of returns where the node's BMC is.
func (i *IPMI) of(node Node) (host string, err error) {
	if i.ReportedIn != nil {
		return node.reported(i.ReportedIn)
	}
	if host, err = node.value("hosts", i.Host, i.Hosts); err == nil {
		err = checkHost(host)
	}
	return host, err
}

// reported returns the first address in one of the networks that the node reports of its BMC. Whether
// it is that of the node's machine the BMC itself has to say; here a report is left out that says itself
// that it is not, such as one of before the disks came to another machine.
func (n Node) reported(networks []string) (string, error) {
	text, found := n.Annotations[power.BMCAnnotation]
	if !found {
		return "", fmt.Errorf("it does not report its BMC (annotation %s): either its detector may not (detector.reportBMC of the chart), or the BMC does not tell its address, as the detector's log says",
			power.BMCAnnotation)
	}
	reported, err := power.ParseReported(text)
	if err != nil {
		return "", fmt.Errorf("its annotation %s: %w", power.BMCAnnotation, err)
	}
	if machine, err := power.ParseUUID(n.SystemUUID); err == nil && reported.GUID != nil {
		if err := power.Check(*reported.GUID, machine); errors.Is(err, power.ErrOtherMachine) {
			return "", fmt.Errorf("its annotation %s is of the BMC of another machine: %w", power.BMCAnnotation, err)
		}
	}
	for _, address := range reported.Addresses {
		for _, text := range networks {
			if network, err := parseNetwork(text); err == nil && network.Contains(address) {
				return address.String(), nil
			}
		}
	}
	return "", fmt.Errorf("its annotation %s reports %s, and reportedIn accepts %s", power.BMCAnnotation, listed(reported.Addresses), strings.Join(networks, ", "))
}

func listed(addresses []netip.Addr) string {
	texts := make([]string, len(addresses))
	for i, address := range addresses {
		texts[i] = address.String()
	}
	return strings.Join(texts, ", ")
}

func (r *Redfish) of(node Node) (power.Switch, error) {
	url, err := node.value("urls", r.URL, r.URLs)
	if err != nil {
		return nil, err
	}
	serverName, err := expand(r.ServerName, node.placeholder)
	if err != nil {
		return nil, err
	}
	fingerprint := r.Fingerprint
	if len(r.Fingerprints) > 0 {
		if fingerprint, err = node.value("fingerprints", "", r.Fingerprints); err != nil {
			return nil, err
		}
	}
	system := ""
	if r.System != "" || len(r.Systems) > 0 {
		if system, err = node.value("systems", r.System, r.Systems); err != nil {
			return nil, err
		}
	}
	return redfish.New(redfish.Options{
		URL: url, System: system, User: r.User, Password: power.Secret{File: r.PasswordFile},
		TLS: redfish.TLS{CAFile: r.CAFile, ServerName: serverName, Fingerprint: fingerprint},
	})
}

func (g *Program) secrets() map[string]power.Secret {
	secrets := map[string]power.Secret{}
	for name, file := range g.SecretFiles {
		secrets[name] = power.Secret{File: file}
	}
	return secrets
}

// value returns what a template or the node's own entry says.
func (n Node) value(field, template string, byNode map[string]string) (string, error) {
	if template != "" {
		return expand(template, n.placeholder)
	}
	value, found := byNode[n.Name]
	if !found {
		return "", fmt.Errorf("it has no entry in %s", field)
	}
	return value, nil
}

// placeholder returns the value of one for the node.
func (n Node) placeholder(kind, key string) (value string, err error) {
	found := true
	switch kind {
	case "label":
		value, found = n.Labels[key]
	case "annotation":
		value, found = n.Annotations[key]
	default:
		value = n.Name
	}
	if !found || value == "" {
		return "", fmt.Errorf("it has no %s %s", kind, key)
	}
	// It is a name or an address: no other part of a URL, and nothing that a shell obeys which a
	// program hands it to.
	if !plain.MatchString(value) {
		return "", fmt.Errorf("its %s %s is %.60q: accepted are letters, digits, '.', '_', '-' and ':', beginning with a letter or digit", kind, key, value)
	}
	return value, nil
}

// plain is what the value of a placeholder may be.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)

// ofTheNode reports whether a node can write by itself what a placeholder stands for: all of
// its annotations, and labels but those that the admission plugin NodeRestriction keeps for
// others.
func ofTheNode(kind, key string) bool {
	const kept = "node-restriction.kubernetes.io"
	prefix, _, prefixed := strings.Cut(key, "/")
	protected := prefixed && (prefix == kept || strings.HasSuffix(prefix, "."+kept))
	return kind == "annotation" || kind == "label" && !protected
}

var (
	placeholders = regexp.MustCompile(`\{[^{}]*\}`)
	placeholder  = regexp.MustCompile(`^\{(?:(name)|(label|annotation):([^:{}]+))\}$`)
)

// expand returns a template with values for its placeholders.
func expand(template string, value func(kind, key string) (string, error)) (string, error) {
	var mistake error
	text := placeholders.ReplaceAllStringFunc(template, func(found string) string {
		parts := placeholder.FindStringSubmatch(found)
		if parts == nil {
			mistake = fmt.Errorf("%s is no placeholder: accepted are {name}, {label:KEY} and {annotation:KEY}", found)
			return ""
		}
		got, err := value(parts[1]+parts[2], parts[3])
		if err != nil {
			mistake = err
		}
		return got
	})
	if mistake == nil && strings.ContainsAny(placeholders.ReplaceAllString(template, ""), "{}") {
		mistake = fmt.Errorf("%q has a brace without its other one", template)
	}
	return text, mistake
}
