package detector

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/redfish"
	"github.com/nodemend/nodemend/ipmi/lan"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// Sources of a BMC's state.
const (
	SourceAuto     = "auto"
	SourceDevice   = "device"
	SourceIPMITool = "ipmitool"
	SourceLAN      = "lan"
	SourceRedfish  = "redfish"
)

// Hardware is the check that owns the condition HardwareFailure.
type Hardware struct {
	Run `yaml:",inline"`
	// Source is one of auto, device, lan, ipmitool and redfish. With auto it is the driver's
	// device, or else lan or ipmitool if it has a host, or redfish if it has a URL, or else the
	// check is off, unless its state file shows that there was a device.
	Source string `yaml:"source"`
	// Device of the kernel's IPMI driver; empty: its usual names.
	Device string `yaml:"device"`
	// LAN says how the BMC is reached over the network.
	LAN LAN `yaml:"lan"`
	// IPMITool says how ipmitool is run.
	IPMITool IPMITool `yaml:"ipmitool"`
	// Redfish says where the BMC's Redfish service is.
	Redfish Redfish `yaml:"redfish"`
	// SMBIOS is the folder with the firmware's tables; empty: they are not read.
	SMBIOS string `yaml:"smbios"`
	// ReportBMC has the node report where its BMC is reached from outside, as far as that is read by
	// device, or by ipmitool without a host: power.BMCAnnotation. It takes a right of its own.
	ReportBMC bool `yaml:"reportBMC"`
	// StateFile keeps what was read from the System Event Log and what people
	// have acknowledged.
	StateFile string `yaml:"stateFile"`
	// Rules come before the default ones.
	Rules verdict.Rules `yaml:"rules"`
}

// LAN says how a BMC is reached by IPMI 2.0 over the network.
type LAN struct {
	// Host is a name or an address. {name} in it is the node's name.
	Host string `yaml:"host"`
	Port int    `yaml:"port"`
	User string `yaml:"user"`
	// PasswordFile and KeyFile hold the user's password and the BMC's key. Nobody else than
	// their owner and group may read them.
	PasswordFile string `yaml:"passwordFile"`
	KeyFile      string `yaml:"keyFile"`
	// CipherSuite is 3 or 17.
	CipherSuite int `yaml:"cipherSuite"`
	// Privilege is the privilege level of the session: user, operator or administrator.
	Privilege string `yaml:"privilege"`
	// TrustAddress reads a BMC that is not known to be this machine's.
	TrustAddress bool `yaml:"trustAddress"`
}

// HostOf returns the BMC's host for a node.
func (l LAN) HostOf(node string) string { return strings.ReplaceAll(l.Host, nodeName, node) }

const nodeName = "{name}"

// IPMITool says how ipmitool reaches the BMC.
type IPMITool struct {
	// Path of the program, or its name in PATH; empty: ipmitool.
	Path string `yaml:"path"`
	// Host of the BMC in the network; empty: the BMC of this machine.
	Host string `yaml:"host"`
	Port int    `yaml:"port"`
	User string `yaml:"user"`
	// PasswordFile and KeyFile hold the user's password and the BMC's key.
	PasswordFile string `yaml:"passwordFile"`
	KeyFile      string `yaml:"keyFile"`
	CipherSuite  int    `yaml:"cipherSuite"`
}

// Redfish says how a BMC is reached by Redfish, over its host interface or the network.
type Redfish struct {
	// URL is https://HOST or https://HOST:PORT. {name} in it is the node's name.
	URL  string `yaml:"url"`
	User string `yaml:"user"`
	// PasswordFile holds the user's password. Nobody else than its owner and group may read it.
	PasswordFile string `yaml:"passwordFile"`
	// CAFile has certificates in PEM of which one has signed that of the BMC, or is it; empty:
	// those that this machine trusts. ServerName is the name in it, if it is not the host of the
	// URL, with {name} as there.
	CAFile     string `yaml:"caFile"`
	ServerName string `yaml:"serverName"`
	// Fingerprints are the SHA-256 of the BMCs' certificates by the names of their nodes, instead.
	Fingerprints map[string]string `yaml:"fingerprints"`
	// TrustAddress reads a BMC that is not known to be this machine's.
	TrustAddress bool `yaml:"trustAddress"`
}

// Of returns how the BMC of a node is reached. No file is read.
func (r Redfish) Of(node string) (o redfish.Options, err error) {
	of := func(text string) string { return strings.ReplaceAll(text, nodeName, node) }
	tls := redfish.TLS{CAFile: r.CAFile, ServerName: of(r.ServerName)}
	if len(r.Fingerprints) > 0 {
		if tls.Fingerprint = r.Fingerprints[node]; tls.Fingerprint == "" {
			return o, fmt.Errorf("fingerprints has none for the node %s", node)
		}
	}
	return redfish.Options{URL: of(r.URL), User: r.User, Password: power.Secret{File: r.PasswordFile, Private: true}, TLS: tls}.Validated()
}

func (h *Hardware) setDefaults() {
	*h = Hardware{
		Run: Run{
			Enabled: true, Interval: Duration{5 * time.Minute}, Timeout: Duration{2 * time.Minute},
			FailureThreshold: 2, SuccessThreshold: 2,
		},
		Source: SourceAuto, LAN: LAN{Port: 623, CipherSuite: 3, Privilege: lan.User.String()}, IPMITool: IPMITool{Port: 623, CipherSuite: 3},
		Redfish: Redfish{Fingerprints: map[string]string{}},
		SMBIOS:  "/sys/firmware/dmi/tables", StateFile: "/var/lib/nodemend/hardware.json", Rules: verdict.Rules{},
	}
}

func (h *Hardware) problems(found *problems, at func(field ...string) []string) {
	h.problemsWithin(maxHeartbeat, found, at)
	if !slices.Contains([]string{SourceAuto, SourceDevice, SourceLAN, SourceIPMITool, SourceRedfish}, h.Source) {
		found.add(fmt.Sprintf("%q is none of %s, %s, %s, %s and %s", h.Source, SourceAuto, SourceDevice, SourceLAN, SourceIPMITool, SourceRedfish), at("source")...)
	}
	found.path(h.Device, at("device")...)
	found.stateFile(h.StateFile, "acknowledgements and the place in the System Event Log have to be kept", at("stateFile")...)
	found.path(h.SMBIOS, at("smbios")...)
	h.LAN.problems(found, h.Source == SourceLAN, func(field string) []string { return at("lan", field) })
	h.Redfish.problems(found, h.Source == SourceRedfish, func(field ...string) []string { return at(append([]string{"redfish"}, field...)...) })
	t := h.IPMITool
	found.path(t.PasswordFile, at("ipmitool", "passwordFile")...)
	found.path(t.KeyFile, at("ipmitool", "keyFile")...)
	if t.Port < 1 || t.Port > 65535 {
		found.add(fmt.Sprintf("%d is no UDP port", t.Port), at("ipmitool", "port")...)
	}
	if t.CipherSuite < 1 || t.CipherSuite > 255 {
		found.add(fmt.Sprintf("%d is not between 1 and 255", t.CipherSuite), at("ipmitool", "cipherSuite")...)
	}
	if t.Host != "" && t.PasswordFile == "" {
		found.add("is missing: a host is given", at("ipmitool", "passwordFile")...)
	}
	for _, mistake := range h.Rules.Validate() {
		found.add(mistake.Text, at(append([]string{"rules"}, mistake.Path...)...)...)
	}
}

func (l LAN) problems(found *problems, asked bool, at func(field string) []string) {
	host := l.HostOf("node")
	switch {
	case l.Host == "" && asked:
		found.add("is missing: the source is "+SourceLAN, at("host")...)
	case strings.ContainsAny(host, "{}/@?#%\\ \t\r\n\x00"):
		found.add(fmt.Sprintf("%q is neither a name nor an address: accepted are such as 10.0.0.1 and %s-bmc.example.com", l.Host, nodeName), at("host")...)
	}
	if l.Host != "" && l.PasswordFile == "" {
		found.add("is missing: a host is given", at("passwordFile")...)
	}
	if l.Port < 1 || l.Port > 65535 {
		found.add(fmt.Sprintf("%d is no UDP port", l.Port), at("port")...)
	}
	if len(l.User) > lan.MaxUser {
		found.add(fmt.Sprintf("is longer than IPMI allows, %d bytes", lan.MaxUser), at("user")...)
	}
	found.path(l.PasswordFile, at("passwordFile")...)
	found.path(l.KeyFile, at("keyFile")...)
	if !slices.Contains(lan.Suites(), l.CipherSuite) {
		found.add(fmt.Sprintf("%d is not accepted: 3 and 17 are, as others do not encrypt, or sign, well enough", l.CipherSuite), at("cipherSuite")...)
	}
	if _, err := l.Level(); err != nil {
		found.add(err.Error(), at("privilege")...)
	}
}

func (r Redfish) problems(found *problems, asked bool, at func(field ...string) []string) {
	found.path(r.PasswordFile, at("passwordFile")...)
	found.path(r.CAFile, at("caFile")...)
	if r.URL == "" {
		if asked {
			found.add("is missing: the source is "+SourceRedfish, at("url")...)
		}
		return
	}
	if r.PasswordFile == "" {
		found.add("is missing: a URL is given", at("passwordFile")...)
	}
	const node = "node"
	check := func(fingerprint string, field ...string) {
		one := r
		if one.Fingerprints = nil; fingerprint != "" {
			one.Fingerprints = map[string]string{node: fingerprint}
		}
		if _, err := one.Of(node); err != nil {
			found.add(err.Error(), at(field...)...)
		}
	}
	if len(r.Fingerprints) == 0 {
		check("", "url")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Fingerprints)) {
		check(r.Fingerprints[name], "fingerprints", name)
	}
}

// Level returns the privilege level.
func (l LAN) Level() (lan.Privilege, error) {
	for _, p := range lan.Privileges() {
		if p.String() == l.Privilege {
			return p, nil
		}
	}
	return 0, fmt.Errorf("%q is none of user, operator and administrator", l.Privilege)
}
