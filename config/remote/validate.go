package remote

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodemend/nodemend/internal/power/program"
	"github.com/nodemend/nodemend/internal/power/redfish"
)

// problem is a value that can't be accepted.
type problem struct {
	path []string
	text string
}

func (p problem) Error() string { return strings.Join(p.path, ".") + ": " + p.text }

// problems are those of one part of the file.
type problems struct {
	at    []string
	found *[]problem
}

func (p problems) in(field ...string) problems {
	return problems{slices.Concat(p.at, field), p.found}
}

func (p problems) add(format string, args ...any) {
	*p.found = append(*p.found, problem{p.at, fmt.Sprintf(format, args...)})
}

// example are values for placeholders, by which a template is checked.
const example = "0"

func (c *Config) problems() (found []problem) {
	all := problems{[]string{"switches"}, &found}
	if c.Replace != nil {
		c.Replace.problems(problems{[]string{"replace"}, &found})
	}
	if len(c.Switches) == 0 && c.Replace == nil {
		all.add("has no entry: nodes without one can't be switched")
	}
	for i := range c.Switches {
		c.Switches[i].problems(all.in(strconv.Itoa(i)))
	}
	return found
}

func (s *Switch) problems(p problems) {
	s.Nodes.problems(p.in("nodes"))
	kinds := 0
	if s.IPMI != nil {
		kinds++
		s.IPMI.problems(p.in("ipmi"))
	}
	if s.Redfish != nil {
		kinds++
		s.Redfish.problems(p.in("redfish"))
	}
	if s.Metal3 != nil {
		kinds++
		s.Metal3.problems(p.in("metal3"))
	}
	if s.OpenStack != nil {
		kinds++
		s.OpenStack.problems(p.in("openstack"))
	}
	if s.Program != nil {
		kinds++
		s.Program.problems(p.in("program"))
	}
	if kinds != 1 {
		p.add("has %d of ipmi, redfish, metal3, openstack and program: accepted is one of them", kinds)
	}
}

// emptied returns the selections of nodes that are written and empty: what is left out includes
// all nodes, and an emptied list is hardly meant so.
func emptied(root *yaml.Node) (found []problem) {
	var file struct {
		Switches []struct{ Nodes yaml.Node }
	}
	if err := root.Decode(&file); err != nil {
		return nil // that was said
	}
	for i := range file.Switches {
		at := problems{[]string{"switches", strconv.Itoa(i), "nodes"}, &found}
		nodes := &file.Switches[i].Nodes
		var parts struct {
			Names       yaml.Node
			MatchLabels yaml.Node `yaml:"matchLabels"`
		}
		if nodes.Kind == 0 || nodes.Decode(&parts) != nil {
			continue
		}
		at.empty(nodes)
		at.in("names").empty(&parts.Names)
		at.in("matchLabels").empty(&parts.MatchLabels)
	}
	return found
}

// empty reports a value that is written, and has nothing in it.
func (p problems) empty(node *yaml.Node) {
	var value any
	if node.Kind == 0 || node.Decode(&value) != nil {
		return
	}
	list, _ := value.([]any)
	fields, _ := value.(map[string]any)
	if value == nil || len(list)+len(fields) == 0 && node.Kind != yaml.ScalarNode {
		p.add("is empty: accepted are names or labels of nodes. Leave it out, if all nodes are meant")
	}
}

func (n *Nodes) problems(p problems) {
	for i, pattern := range n.Names {
		if _, err := path.Match(pattern, ""); err != nil || strings.Trim(pattern, "abcdefghijklmnopqrstuvwxyz0123456789-.*?[]^") != "" || pattern == "" {
			p.in("names", strconv.Itoa(i)).add("%q is no name or pattern of nodes: accepted are such as worker-1 and gpu-*", pattern)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(n.MatchLabels)) {
		if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(n.MatchLabels[key])) > 0 {
			p.in("matchLabels", key).add("%q is no label with a value that a node can have", key+"="+n.MatchLabels[key])
		}
	}
}

// one reports a mistake unless either a template or values by the names of nodes are given. For
// pinned see template.
func (p problems) one(field, template, fields string, byNode map[string]string, pinned bool) {
	switch {
	case (template == "") == (len(byNode) == 0):
		p.add("has neither %[1]s nor %[2]s, or both: accepted are %[1]s for all nodes, or %[2]s with one for each", field, fields)
	case template != "":
		p.template(template, pinned, field)
	}
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		if len(validation.IsDNS1123Subdomain(node)) > 0 {
			p.in(fields, node).add("%q is no name of a node", node)
		}
	}
}

// template reports what is wrong with one. What a node writes itself is accepted only where it is
// pinned: something else says for each node who is asked.
func (p problems) template(text string, pinned bool, field ...string) {
	_, err := expand(text, func(kind, key string) (string, error) {
		if ofTheNode(kind, key) && !pinned {
			return "", fmt.Errorf("{%s:%s} is what a node can write itself, and so choose what is switched, and who gets the password: "+
				"accepted are {name}, and labels such as {label:example.node-restriction.kubernetes.io/bmc}. Or name the nodes, each with its own", kind, key)
		}
		return example, nil
	})
	if err != nil {
		p.in(field...).add("%s", err)
	}
}

func (p problems) file(name string, needed bool, field ...string) {
	if name == "" && needed {
		p.in(field...).add("is missing: accepted is the absolute path of a file with the secret, such as that of a mounted Secret")
	}
	if name != "" && !filepath.IsAbs(name) {
		p.in(field...).add("%q is not an absolute path", name)
	}
}

func (p problems) host(name string, field ...string) {
	if err := checkHost(name); err != nil {
		p.in(field...).add("%s", err)
	}
}

// checkHost returns an error for what is neither a name nor an address.
func checkHost(name string) error {
	if net.ParseIP(name) == nil && len(validation.IsDNS1123Subdomain(strings.ToLower(name))) > 0 {
		return fmt.Errorf("%q is no host: accepted is a name or an address, without a port", name)
	}
	return nil
}

func (l Login) problems(p problems) {
	if l.User == "" {
		p.in("user").add("is missing: accepted is a user who may switch the power, and no more")
	}
	p.file(l.PasswordFile, true, "passwordFile")
}

func (i *IPMI) problems(p problems) {
	switch {
	case i.ReportedIn == nil:
		p.one("host", i.Host, "hosts", i.Hosts, false)
	case i.Host != "" || len(i.Hosts) > 0:
		p.in("reportedIn").add("is beside host or hosts: accepted is one of the three")
	case len(i.ReportedIn) == 0:
		p.in("reportedIn").add("is empty: accepted are the networks of the BMCs, such as 10.20.0.0/16 and fd00:20::/64")
	}
	for at, text := range i.ReportedIn {
		if _, err := parseNetwork(text); err != nil {
			p.in("reportedIn", strconv.Itoa(at)).add("%s", err)
		}
	}
	if host, err := expand(i.Host, func(string, string) (string, error) { return example, nil }); err == nil && host != "" {
		p.host(host, "host")
	}
	for _, node := range slices.Sorted(maps.Keys(i.Hosts)) {
		p.host(i.Hosts[node], "hosts", node)
	}
	i.Login.problems(p)
	p.file(i.KeyFile, false, "keyFile")
	if i.Port < 0 || i.Port > 65535 {
		p.in("port").add("%d is no UDP port", i.Port)
	}
	if !slices.Contains([]int{0, 3, 17}, i.CipherSuite) {
		p.in("cipherSuite").add("%d is not accepted: accepted are 3 and 17", i.CipherSuite)
	}
	const longest = 16
	if len(i.User) > longest {
		p.in("user").add("is longer than IPMI allows, %d bytes", longest)
	}
}

// parseNetwork reads a network. That of all addresses is none: it is there to leave most of them out.
func parseNetwork(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	switch {
	case err != nil || network.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q is no network: accepted are such as 10.20.0.0/16 and fd00:20::/64", text)
	case network.Bits() == 0:
		return netip.Prefix{}, fmt.Errorf("%q is every network: accepted are those that have BMCs, and little else", text)
	case network != network.Masked():
		return netip.Prefix{}, fmt.Errorf("%q is an address in the network %s: accepted is the network, or %s/%d", text, network.Masked(), network.Addr(), network.Addr().BitLen())
	}
	return network, nil
}

func (r *Redfish) problems(p problems) {
	p.one("url", r.URL, "urls", r.URLs, len(r.Fingerprints) > 0)
	r.Login.problems(p)
	p.file(r.CAFile, false, "caFile")
	p.template(r.ServerName, false, "serverName")
	check := func(url, fingerprint string, field ...string) {
		if _, err := redfish.New(redfish.Options{URL: url, TLS: redfish.TLS{CAFile: r.CAFile, ServerName: r.ServerName, Fingerprint: fingerprint}}); err != nil {
			p.in(field...).add("%s", err)
		}
	}
	const good = "https://bmc"
	if r.URL != "" {
		if url, err := expand(r.URL, func(string, string) (string, error) { return example, nil }); err == nil {
			check(url, "", "url")
		}
	}
	for _, node := range slices.Sorted(maps.Keys(r.URLs)) {
		check(r.URLs[node], "", "urls", node)
	}
	if r.Fingerprint != "" {
		check(good, r.Fingerprint, "fingerprint")
	}
	for _, node := range slices.Sorted(maps.Keys(r.Fingerprints)) {
		check(good, r.Fingerprints[node], "fingerprints", node)
	}
	if r.Fingerprint != "" && len(r.Fingerprints) > 0 {
		p.add("has both fingerprint and fingerprints: accepted is one of them")
	}
	if r.System != "" || len(r.Systems) > 0 {
		p.one("system", r.System, "systems", r.Systems, false)
	}
	for _, node := range slices.Sorted(maps.Keys(r.Systems)) {
		if r.Systems[node] == "" {
			p.in("systems", node).add("is empty: accepted is the Id of the node's system in the service")
		}
	}
}

func (m *Metal3) problems(p problems) {
	if len(validation.IsDNS1123Label(m.Namespace)) > 0 {
		p.in("namespace").add("%q is no namespace: accepted is that of the BareMetalHosts", m.Namespace)
	}
	p.one("host", m.Host, "hosts", m.Hosts, false)
	check := func(name string, field ...string) {
		if err := checkObject(name); err != nil {
			p.in(field...).add("%s", err)
		}
	}
	if host, err := expand(m.Host, func(string, string) (string, error) { return example, nil }); err == nil && host != "" {
		check(host, "host")
	}
	for _, node := range slices.Sorted(maps.Keys(m.Hosts)) {
		check(m.Hosts[node], "hosts", node)
	}
	p.file(m.Kubeconfig, false, "kubeconfig")
}

// checkObject refuses what is no name of an object.
func checkObject(name string) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Errorf("%q is no name of a BareMetalHost", name)
	}
	return nil
}

func (o *OpenStackSwitch) problems(p problems) {
	o.OpenStack.problems(p)
	p.template(o.ServerName, false, "serverName")
}

func (g *Program) problems(p problems) {
	for _, name := range slices.Sorted(maps.Keys(g.Options)) {
		p.template(g.Options[name], false, "options", name)
	}
	for _, name := range slices.Sorted(maps.Keys(g.SecretFiles)) {
		p.file(g.SecretFiles[name], true, "secretFiles", name)
	}
	if _, err := program.New(program.Options{Path: g.Path, Options: g.Options, Secrets: g.secrets()}); err != nil {
		p.add("%s", err)
	}
}
