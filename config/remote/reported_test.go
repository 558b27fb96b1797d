package remote

import (
	"errors"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/internal/power"
)

const (
	machine = "4c4c4544-0032-3810-8052-b4c04f4a5731"
	// asSMBIOS and asIPMI are the same machine in the other orders of bytes.
	asSMBIOS = "44454c4c-3200-1038-8052-b4c04f4a5731"
	asIPMI   = "31574a4f-c0b4-5280-1038-320044454c4c"
)

// reports is a node of the machine with that annotation.
func reports(text string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", Annotations: map[string]string{power.BMCAnnotation: text, "other": "annotation"}}}
	node.Status.NodeInfo.SystemUUID = machine
	return node
}

func TestTheAddressThatANodeReportsIsUsedWithinTheNetworksAlone(t *testing.T) {
	at := func(addresses, guid string) *corev1.Node {
		text := `{"addresses":["` + strings.ReplaceAll(addresses, " ", `","`) + `"]`
		if guid != "" {
			text += `,"guid":"` + guid + `"`
		}
		return reports(text + "}")
	}
	silent := reports("")
	silent.Annotations = nil
	unknown := at("10.20.0.7", "5c4c4544-0032-3810-8052-b4c04f4a5731")
	unknown.Status.NodeInfo.SystemUUID = ""
	for name, tt := range map[string]struct {
		node *corev1.Node
		want string // the switch, or the error
	}{
		"in a network":                     {at("10.20.0.7", ""), "ipmi://10.20.0.7:6230"},
		"its last address":                 {at("10.20.255.255", ""), "ipmi://10.20.255.255:6230"},
		"IPv6":                             {at("fd00:20::7", ""), "ipmi://[fd00:20::7]:6230"},
		"IPv4, written as IPv6":            {at("::ffff:10.20.0.7", ""), "ipmi://10.20.0.7:6230"},
		"one machine":                      {at("192.168.7.7", ""), "ipmi://192.168.7.7:6230"},
		"the first that is in one":         {at("192.168.0.120 fe80::1 fd00:20::7 10.20.0.7", ""), "ipmi://[fd00:20::7]:6230"},
		"the node's GUID":                  {at("10.20.0.7", machine), "ipmi://10.20.0.7:6230"},
		"as SMBIOS has it":                 {at("10.20.0.7", asSMBIOS), "ipmi://10.20.0.7:6230"},
		"as IPMI has it":                   {at("10.20.0.7", asIPMI), "ipmi://10.20.0.7:6230"},
		"a GUID of many: the BMC is asked": {at("10.20.0.7", "03000200-0400-0500-0006-000700080009"), "ipmi://10.20.0.7:6230"},
		"a node of no machine":             {unknown, "ipmi://10.20.0.7:6230"},
		"beside it":                        {at("10.21.0.7", ""), "remote.yaml: switches.0: node worker-1: its annotation nodemend.dev/bmc reports 10.21.0.7, and reportedIn accepts 10.20.0.0/16, fd00:20::/64, 192.168.7.7/32"},
		"IPv6, beside it":                  {at("fd00:21::7 10.0.0.1", ""), "reports fd00:21::7, 10.0.0.1, and reportedIn accepts"},
		"another one than the one":         {at("192.168.7.8", ""), "reports 192.168.7.8, and"},
		"another GUID":                     {at("10.20.0.7", "5c4c4544-0032-3810-8052-b4c04f4a5731"), "its annotation nodemend.dev/bmc is of the BMC of another machine: it switches another machine: its GUID is 5c4c4544"},
		"no annotation":                    {silent, "it does not report its BMC (annotation nodemend.dev/bmc): either its detector may not (detector.reportBMC of the chart)"},
		"no report":                        {reports("10.20.0.7"), `its annotation nodemend.dev/bmc: "10.20.0.7": `},
		"a name":                           {at("bmc.example.com", ""), "accepted is such as"},
		"with a zone":                      {at("fd00:20::7%eth0", ""), "without a zone"},
		"too long":                         {reports(strings.Repeat(" ", 600) + `{"addresses":["10.20.0.7"]}`), "more than 512 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Parse("remote.yaml", []byte(ipmi("port: 6230, reportedIn: [10.20.0.0/16, 'fd00:20::/64', 192.168.7.7/32]")))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			s, err := c.Switch(NodeOf(tt.node))
			if err != nil {
				got = err.Error()
			} else {
				got = s.String()
			}
			if !strings.Contains(got, tt.want) || err == nil && got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if other := name == "another GUID"; errors.Is(err, power.ErrOtherMachine) != other {
				t.Errorf("%v is ErrOtherMachine: %t", err, !other)
			}
			// What is kept of the node is enough, bounded, and no more.
			kept := c.Needed(NodeOf(tt.node))
			again := ""
			if s, err := c.Switch(kept); err != nil {
				again = err.Error()
			} else {
				again = s.String()
			}
			if again != got || kept.Annotations["other"] != "" || len(kept.Annotations[power.BMCAnnotation]) > 520 {
				t.Errorf("of what is kept, %v: got %q, want %q", kept.Annotations, again, got)
			}
		})
	}
}

// The annotation is kept, with an action, for entries that go by it alone.
func TestWhatANodeReportsIsNotKeptForOtherEntries(t *testing.T) {
	c, err := Parse("remote.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if kept := c.Needed(NodeOf(reports(`{"addresses":["10.20.0.7"]}`))); len(kept.Annotations) > 0 || kept.SystemUUID != machine {
		t.Errorf("kept: %+v", kept)
	}
}

// The example of the page is one.
func TestThePageShowsAnEntryForReportedAddresses(t *testing.T) {
	page, err := os.ReadFile("../../docs/fencing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "### Addresses that nodes report")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	if c, err := Parse("docs/fencing.md", []byte(example)); err != nil || len(c.Switches) != 1 || len(c.Switches[0].IPMI.ReportedIn) != 2 {
		t.Errorf("%+v, %v", c.Switches, err)
	}
}
