package remote

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/ipmilan"
	"github.com/nodemend/nodemend/internal/power/program"
	"github.com/nodemend/nodemend/internal/power/redfish"
)

const good = `switches:
- nodes: {names: [gpu-*], matchLabels: {rack: "7"}}
  redfish:
    url: https://{label:example.node-restriction.kubernetes.io/bmc}:8443
    user: fence
    passwordFile: /etc/nodemend/bmc/password
    caFile: /etc/nodemend/bmc/ca.crt
    serverName: "{name}-bmc"
- nodes: {names: [worker-1, worker-2]}
  ipmi:
    hosts: {worker-1: 10.0.0.1, worker-2: "fd00::2"}
    user: fence
    passwordFile: /etc/nodemend/bmc/password
    keyFile: /etc/nodemend/bmc/key
    cipherSuite: 17
- nodes: {names: [edge-*]}
  program:
    path: /usr/local/sbin/fence-pdu
    options: {ip: pdu.example.com, plug: "{label:node-restriction.kubernetes.io/plug}"}
    secretFiles: {password: /etc/nodemend/pdu/password}
- nodes: {matchLabels: {rack: "8"}}
  redfish:
    urls: {blade-1: "https://10.0.1.1", blade-2: "https://10.0.1.2:8443"}
    user: fence
    passwordFile: /etc/nodemend/bmc/password
    fingerprints: {blade-1: ` + digits + `}
- nodes: {matchLabels: {rack: "9"}}
  redfish:
    url: https://{annotation:example.com/bmc}
    user: fence
    passwordFile: /etc/nodemend/bmc/password
    fingerprints: {blade-4: ` + digits + `}
- nodes: {names: ["metal-*"]}
  metal3: {namespace: hosts, hosts: {metal-1: bmh-7}, kubeconfig: /etc/nodemend/management/kubeconfig}
- ipmi: {host: "{name}.bmc.example.com", port: 6230, user: fence, passwordFile: /p}
`

const digits = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestANodeHasTheSwitchOfTheFirstEntryThatNamesIt(t *testing.T) {
	c, err := Parse("remote.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	c.Cluster = func(kubeconfig string) (client.Client, error) {
		if kubeconfig != "/etc/nodemend/management/kubeconfig" {
			t.Errorf("asked for the cluster of %q", kubeconfig)
		}
		return nil, nil
	}
	labels := func(pairs ...string) map[string]string {
		all := map[string]string{}
		for pair := range slices.Chunk(pairs, 2) {
			all[pair[0]] = pair[1]
		}
		return all
	}
	for _, test := range []struct {
		node Node
		want string // the switch, or the error
	}{
		{Node{Name: "gpu-1", Labels: labels("rack", "7", "example.node-restriction.kubernetes.io/bmc", "10.9.9.9")}, "https://10.9.9.9:8443"},
		{Node{Name: "gpu-1", Labels: labels("rack", "7")}, "switches.0: node gpu-1: it has no label example.node-restriction.kubernetes.io/bmc"},
		{Node{Name: "blade-4", Labels: labels("rack", "9"), Annotations: labels("example.com/bmc", "10.9.9.9:8443")}, "https://10.9.9.9:8443"},
		{Node{Name: "blade-5", Labels: labels("rack", "9"), Annotations: labels("example.com/bmc", "10.9.9.9:8443")}, "it has no entry in fingerprints"},
		{Node{Name: "blade-4", Labels: labels("rack", "9")}, "it has no annotation example.com/bmc"},
		{Node{Name: "gpu-1", Labels: labels("rack", "10")}, "ipmi://gpu-1.bmc.example.com:6230"},
		{Node{Name: "gpu-1"}, "ipmi://gpu-1.bmc.example.com:6230"},
		{Node{Name: "worker-1"}, "ipmi://10.0.0.1:623"},
		{Node{Name: "worker-2", Labels: labels("rack", "8")}, "ipmi://[fd00::2]:623"},
		{Node{Name: "worker-10"}, "ipmi://worker-10.bmc.example.com:6230"},
		{Node{Name: "edge-1", Labels: labels("node-restriction.kubernetes.io/plug", "14")}, "/usr/local/sbin/fence-pdu for edge-1"},
		{Node{Name: "edge-1"}, "it has no label node-restriction.kubernetes.io/plug"},
		{Node{Name: "blade-1", Labels: labels("rack", "8")}, "https://10.0.1.1"},
		{Node{Name: "blade-2", Labels: labels("rack", "8")}, "it has no entry in fingerprints"},
		{Node{Name: "metal-1"}, "BareMetalHost hosts/bmh-7"},
		{Node{Name: "metal-2"}, "it has no entry in hosts"},
		{Node{Name: "blade-3", Labels: labels("rack", "8")}, "it has no entry in urls"},
	} {
		got := ""
		s, err := c.Switch(test.node)
		if err != nil {
			got = err.Error()
		} else {
			got = s.String()
			// What is kept of the node is enough, and no more.
			kept := test.node
			kept.Labels = labels("other", "label")
			maps.Copy(kept.Labels, test.node.Labels)
			kept = c.Needed(kept)
			if again, err := c.Switch(kept); err != nil || again.String() != got || kept.Labels["other"] != "" {
				t.Errorf("%+v: of what is kept: got %v, %v", kept, again, err)
			}
		}
		if !strings.Contains(got, test.want) || err == nil && got != test.want {
			t.Errorf("%+v: got %q, want %q", test.node, got, test.want)
		}
	}
	c.Switches = c.Switches[:6]
	if _, err := c.Switch(Node{Name: "other"}); !errors.Is(err, power.ErrNoSwitch) || !strings.Contains(err.Error(), "remote.yaml: node other") {
		t.Errorf("got %v", err)
	}
}

func TestEachKindOfSwitchIsMade(t *testing.T) {
	c, err := Parse("remote.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := c.Switch(Node{Name: "worker-1"}); err != nil {
		t.Error(err)
	} else if _, is := s.(*ipmilan.Switch); !is {
		t.Errorf("got %T", s)
	}
	if s, err := c.Switch(Node{Name: "blade-1", Labels: map[string]string{"rack": "8"}}); err != nil {
		t.Error(err)
	} else if _, is := s.(*redfish.Switch); !is {
		t.Errorf("got %T", s)
	}
	if s, err := c.Switch(Node{Name: "edge-1", Labels: map[string]string{"node-restriction.kubernetes.io/plug": "1"}}); err != nil {
		t.Error(err)
	} else if _, is := s.(*program.Switch); !is {
		t.Errorf("got %T", s)
	}
}

func TestANodeOfOpenStackIsAServer(t *testing.T) {
	c, err := Parse("remote.yaml", []byte(entry("openstack: {cloudsFile: /c, cloud: prod, serverName: '{label:example.node-restriction.kubernetes.io/server}'}")+
		"- openstack: {cloudsFile: /c}\n  nodes: {names: [never]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	node := Node{Name: "a", Labels: map[string]string{"example.node-restriction.kubernetes.io/server": "s-1", "b": "c"}, ProviderID: "openstack:///x"}
	needed := c.Needed(node)
	if needed.ProviderID != node.ProviderID || len(needed.Labels) != 1 {
		t.Errorf("kept: %+v", needed)
	}
	if s, err := c.Switch(needed); err != nil || s.String() != "openstack://prod/s-1" {
		t.Errorf("got %v, %v", s, err)
	}
	c.Switches = c.Switches[1:]
	if s, err := c.Switch(Node{Name: "never"}); err != nil || s.String() != "openstack://openstack/never" {
		t.Errorf("got %v, %v", s, err)
	}
}

// A kubelet writes all annotations, and most labels, of its node.
func TestANodeDoesNotChooseWhoGetsThePassword(t *testing.T) {
	for _, by := range []string{
		"{annotation:example.com/bmc}", "{annotation:node-restriction.kubernetes.io/bmc}", "{label:bmc}", "{label:example.com/bmc}", "{label:kubernetes.io/hostname}",
		"{label:node-restriction.kubernetes.io}", "{label:evilnode-restriction.kubernetes.io/bmc}", "{label:node-restriction.kubernetes.io.example.com/bmc}", "{name}-{label:a}",
	} {
		for field, text := range map[string]string{
			"ipmi.host":            ipmi("host: '" + by + "'"),
			"redfish.url":          red("url: 'https://" + by + "', caFile: /ca"),
			"redfish.serverName":   red("url: 'https://a', caFile: /ca, serverName: '" + by + "'"),
			"redfish.system":       red("url: 'https://a', caFile: /ca, system: '" + by + "'"),
			"metal3.host":          entry("metal3: {namespace: hosts, host: '" + by + "'}"),
			"program.options.plug": entry("program: {path: /p, options: {plug: '" + by + "'}}"),
		} {
			_, err := Parse("remote.yaml", []byte(text))
			if err == nil || !strings.Contains(err.Error(), "line 2: switches.0."+field+": {") || !strings.Contains(err.Error(), "is what a node can write itself") {
				t.Errorf("%s %s: got %v", field, by, err)
			}
		}
	}
	if _, err := Parse("remote.yaml", []byte(red("url: 'https://{annotation:a}', fingerprint: "+digits))); err == nil {
		t.Error("a fingerprint of all nodes does not say whose service it is")
	}
}

func TestAValueOfANodeIsOnlyANameOrAnAddress(t *testing.T) {
	c, err := Parse("remote.yaml", []byte(entry("program: {path: /p, options: {plug: '{label:node-restriction.kubernetes.io/plug}'}}")))
	if err != nil {
		t.Fatal(err)
	}
	for value, accepted := range map[string]bool{
		"14": true, "bmc-7.example.com": true, "fd00::1": true, "A_1": true,
		"": false, "-o": false, ".": false, "_a": false, ":1": false, "a b": false, "a;id>/tmp/x": false, "$(id)": false, "a${IFS}b": false, "a|b": false, "'a'": false, `"a"`: false,
		"a\vb": false, "a\u2028b": false, "a\n": false, "a@b": false, "a/b": false, "a%2fb": false, "é": false,
	} {
		_, err := c.Switch(Node{Name: "a", Labels: map[string]string{"node-restriction.kubernetes.io/plug": value}})
		if (err == nil) != accepted {
			t.Errorf("%q: got %v", value, err)
		}
	}
}

// An emptied list is no list of all.
func TestASelectionOfNodesThatIsWrittenIsNotEmpty(t *testing.T) {
	for text, field := range map[string]string{
		"nodes: {names: []}": "nodes.names", "nodes: {names: }": "nodes.names", "nodes: {matchLabels: {}}": "nodes.matchLabels",
		"nodes: {names: [a], matchLabels: }": "nodes.matchLabels", "nodes: {}": "nodes", "nodes:": "nodes",
	} {
		_, err := Parse("remote.yaml", []byte(entry(text+"\n  ipmi: {host: a, user: b, passwordFile: /p}")))
		if want := "remote.yaml: line 2: switches.0." + field + ": is empty: accepted are names or labels"; err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestEveryMistakeHasItsLineAndSaysWhatIsAccepted(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                       {"remote.yaml: is empty: accepted are switches, a list, and replace"},
		"switches: []":                           {"line 1: switches: has no entry"},
		"switch: []":                             {`unknown field "switch"`, "has no entry"},
		"switches:\n- nodes: {}":                 {"line 2: switches.0: has 0 of ipmi, redfish, metal3, openstack and program"},
		"switches:\n- ipmi: {}\n  redfish: {}":   {"has 2 of ipmi", "line 2: switches.0.ipmi: has neither host nor hosts", "line 2: switches.0.ipmi.user: is missing", "line 3: switches.0.redfish: has neither url nor urls", "passwordFile: is missing"},
		entry("nodes: {names: [Worker_1, '[']}"): {`line 2: switches.0.nodes.names.0: "Worker_1" is no name or pattern`, `switches.0.nodes.names.1: "["`},
		entry("nodes: {matchLabels: {'a b': c}}"): {`line 2: switches.0.nodes.matchLabels.a b: "a b=c" is no label`},
		"replace: {}":                {"line 1: replace: allows nothing: accepted are clusterAPI, karpenter: true and magnum"},
		"replace: {capi: {}}":        {`unknown field "capi"`},
		"replace:\n  clusterAPI: {}": {`line 2: replace.clusterAPI.namespace: "" is no namespace`, `line 2: replace.clusterAPI.cluster: "" is no name of a Cluster`},
		"replace:\n  clusterAPI:\n    namespace: a\n    cluster: b\n    kubeconfig: c":              {`line 5: replace.clusterAPI.kubeconfig: "c" is not an absolute path`},
		entry("redfish: {url: 'https://b', user: u, passwordFile: /p, system: '{label:a}'}"):        {"redfish.system: {label:a} is what a node can write itself"},
		entry("redfish: {url: 'https://b', user: u, passwordFile: /p, system: a, systems: {b: c}}"): {"has neither system nor systems, or both"},
		entry("redfish: {url: 'https://b', user: u, passwordFile: /p, systems: {B: c, d: ''}}"):     {`redfish.systems.B: "B" is no name of a node`, "redfish.systems.d: is empty"},
		entry("metal3: {}"): {`switches.0.metal3.namespace: "" is no namespace`, "switches.0.metal3: has neither host nor hosts"},
		entry("metal3: {namespace: a, host: 'B', kubeconfig: c}"):     {`switches.0.metal3.host: "B" is no name of a BareMetalHost`, `switches.0.metal3.kubeconfig: "c" is not an absolute path`},
		"replace:\n  magnum: {cluster: prod}":                         {`line 2: replace.magnum.cluster: "prod" is no UUID`, "line 2: replace.magnum.cloudsFile: is missing"},
		entry("openstack: {}"):                                        {"line 2: switches.0.openstack.cloudsFile: is missing"},
		entry("openstack: {cloudsFile: c, serverName: '{label:a}'}"):  {`openstack.cloudsFile: "c" is not an absolute path`, "serverName: {label:a} is what a node can write itself"},
		entry("node: {}"):                                             {`line 2: unknown field "node"`},
		ipmi("host: a, reportedIn: [10.0.0.0/8]"):                     {"line 2: switches.0.ipmi.reportedIn: is beside host or hosts: accepted is one of the three"},
		ipmi("hosts: {a: b}, reportedIn: []"):                         {"ipmi.reportedIn: is beside host or hosts"},
		ipmi("reportedIn: []"):                                        {"line 2: switches.0.ipmi.reportedIn: is empty: accepted are the networks of the BMCs, such as 10.20.0.0/16"},
		ipmi("reportedIn: [10.20.0.0/16, 10.0.0.0, all]"):             {`reportedIn.1: "10.0.0.0" is no network: accepted are such as`, `reportedIn.2: "all" is no network`},
		ipmi("reportedIn: [10.20.0.7/16]"):                            {`reportedIn.0: "10.20.0.7/16" is an address in the network 10.20.0.0/16: accepted is the network, or 10.20.0.7/32`},
		ipmi("reportedIn: [0.0.0.0/0, '::/0', '::ffff:0:0/96']"):      {`reportedIn.0: "0.0.0.0/0" is every network`, `reportedIn.1: "::/0" is every network`, `reportedIn.2: "::ffff:0:0/96" is no network`},
		ipmi("host: a, hosts: {b: c}"):                                {"has neither host nor hosts, or both"},
		ipmi("host: '{nodename}'"):                                    {"line 2: switches.0.ipmi.host: {nodename} is no placeholder: accepted are {name}, {label:KEY} and {annotation:KEY}"},
		ipmi("host: '{name'"):                                         {"brace without its other one"},
		ipmi("host: '10.0.0.1:623'"):                                  {`"10.0.0.1:623" is no host: accepted is a name or an address, without a port`},
		ipmi("hosts: {a: 'b c'}"):                                     {`switches.0.ipmi.hosts.a: "b c" is no host`},
		ipmi("hosts: {A: b}"):                                         {`"A" is no name of a node`},
		ipmi("host: a, port: 70000, cipherSuite: 8"):                  {"ipmi.port: 70000 is no UDP port", "ipmi.cipherSuite: 8 is not accepted: accepted are 3 and 17"},
		ipmi("host: a, keyFile: key"):                                 {`ipmi.keyFile: "key" is not an absolute path`},
		ipmi("host: a, password: s3cret"):                             {`unknown field "password"`},
		red("url: http://bmc"):                                        {"switches.0.redfish.url: the URL of a Redfish service is https://HOST"},
		red("url: 'https://{name}/redfish'"):                          {"without a path or a user"},
		red("url: 'https://{x}'"):                                     {"{x} is no placeholder"},
		red("url: https://a, fingerprint: '00'"):                      {"switches.0.redfish.fingerprint: the fingerprint is not a SHA-256"},
		red("url: https://a, fingerprints: {a: '00'}"):                {"switches.0.redfish.fingerprints.a: the fingerprint is not"},
		red("url: https://a, caFile: /ca, fingerprint: " + digits):    {"neither an authority nor a name can be given"},
		red("url: https://a, insecure: true"):                         {`unknown field "insecure"`},
		entry("program: {path: fence_pdu}"):                           {"switches.0.program: the program \"fence_pdu\" is not an absolute path"},
		entry("program: {path: /p, options: {action: reboot}}"):       {"the option action is ours"},
		entry("program: {path: /p, secretFiles: {password: s3cret}}"): {"switches.0.program.secretFiles.password: \"s3cret\" is not an absolute path"},
	} {
		_, err := Parse("remote.yaml", []byte(text))
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s:\ngot %v\nwant %s", text, err, part)
			}
		}
	}
}

// A remote runner may be there for machines alone, or for power alone.
func TestMachinesThatMayBeReplacedNeedNoSwitches(t *testing.T) {
	c, err := Parse("remote.yaml", []byte("replace: {karpenter: true, clusterAPI: {namespace: fleet, cluster: prod, kubeconfig: /etc/nodemend/management/kubeconfig}}"))
	if err != nil || c.Replace == nil || !c.Replace.Karpenter || *c.Replace.ClusterAPI != (ClusterAPI{"fleet", "prod", "/etc/nodemend/management/kubeconfig"}) {
		t.Errorf("got %+v, %v", c.Replace, err)
	}
	if _, err := c.Switch(Node{Name: "a"}); err == nil {
		t.Error("a node has a switch that nobody has named")
	}
	c, err = Parse("remote.yaml", []byte(good+"replace: {karpenter: true}\n"))
	if err != nil || len(c.Switches) != 7 || c.Replace.ClusterAPI != nil {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err = Parse("remote.yaml", []byte(good)); err != nil || c.Replace != nil {
		t.Errorf("got %+v, %v", c.Replace, err)
	}
}

func entry(text string) string { return "switches:\n- " + text + "\n" }
func ipmi(text string) string {
	return entry("ipmi: {user: fence, passwordFile: /p, " + text + "}")
}
func red(text string) string {
	return entry("redfish: {user: fence, passwordFile: /p, " + text + "}")
}

func TestAFileIsReadAsAWhole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "remote.yaml")
	if _, err := Load(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	for text, entries := range map[string]int{good: 7, good + "- {}\n": 0} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(file)
		if len(c.Switches) != entries || (err == nil) != (entries > 0) || err != nil && !strings.Contains(err.Error(), file+": line 36: switches.7: ") {
			t.Errorf("got %d entries, %v", len(c.Switches), err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(ipmi("reportedIn: [10.0.0.0/8, 'fd00::/64']")))
	f.Add([]byte(entry("program: {path: /p, options: {a: '{label:node-restriction.kubernetes.io/x}'}}")))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("remote.yaml", data)
		if err != nil {
			return
		}
		if _, err := c.Switch(Node{Name: "worker-1", Labels: map[string]string{"node-restriction.kubernetes.io/x": "y"}}); err != nil && err.Error() == "" {
			t.Error("an error without a text")
		}
	})
}

// The example of the page is one.
func TestThePageShowsAFileThatIsAccepted(t *testing.T) {
	page, err := os.ReadFile("../../docs/fencing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\nswitches:\n")
	example, _, _ := strings.Cut(rest, "```")
	if c, err := Parse("docs/fencing.md", []byte("switches:\n"+example)); err != nil || len(c.Switches) != 5 || c.Switches[2].Metal3 == nil || c.Switches[3].OpenStack == nil {
		t.Errorf("%d switches, %v", len(c.Switches), err)
	}
}

func TestAFileIsTakenAsItIsNowAndParsedOnlyIfItHasChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "remote.yaml")
	write := func(host string) {
		t.Helper()
		hosts := "switches:\n- ipmi: {user: fence, passwordFile: /etc/password, hosts: {worker: " + host
		for i := range 5000 {
			hosts += fmt.Sprintf(", worker-%d: 10.0.%d.%d", i, i/250, i%250)
		}
		if err := os.WriteFile(path, []byte(hosts+"}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := &File{Path: path}
	is := func(want string) {
		t.Helper()
		c, err := file.Load()
		if err != nil || len(c.Switches) != 1 || c.Switches[0].IPMI.Hosts["worker"] != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	write("10.1.0.1")
	is("10.1.0.1")
	if allocs := testing.AllocsPerRun(10, func() { is("10.1.0.1") }); allocs > 50 {
		t.Errorf("to take it as it is costs %v allocations", allocs)
	}
	write("10.1.0.2")
	is("10.1.0.2")
	if err := os.WriteFile(path, []byte("switches: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if c, err := file.Load(); err == nil || !strings.Contains(err.Error(), "switches: has no entry") || c.Switches != nil {
			t.Errorf("got %v", err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Load(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	write("10.1.0.2")
	is("10.1.0.2")
}
