package detector

import (
	"fmt"
	"slices"
	"time"

	"github.com/nodemend/nodemend/ipmi/verdict"
)

// Sources of a BMC's state.
const (
	SourceAuto     = "auto"
	SourceDevice   = "device"
	SourceIPMITool = "ipmitool"
)

// Hardware is the check that owns the condition HardwareFailure.
type Hardware struct {
	Run `yaml:",inline"`
	// Source is one of auto, device and ipmitool. With auto it is the driver's
	// device, or else ipmitool if it has a host, or else the check is off.
	Source string `yaml:"source"`
	// Device of the kernel's IPMI driver; empty: its usual names.
	Device string `yaml:"device"`
	// IPMITool says how ipmitool is run.
	IPMITool IPMITool `yaml:"ipmitool"`
	// StateFile keeps what was read from the System Event Log and what people
	// have acknowledged.
	StateFile string `yaml:"stateFile"`
	// Rules come before the default ones.
	Rules verdict.Rules `yaml:"rules"`
}

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

func (h *Hardware) setDefaults() {
	*h = Hardware{
		Run: Run{
			Enabled: true, Interval: Duration{5 * time.Minute}, Timeout: Duration{2 * time.Minute},
			FailureThreshold: 2, SuccessThreshold: 2,
		},
		Source: SourceAuto, IPMITool: IPMITool{Port: 623, CipherSuite: 3},
		StateFile: "/var/lib/nodemend/hardware.json", Rules: verdict.Rules{},
	}
}

func (h *Hardware) problems(found *problems, at func(field ...string) []string) {
	h.problemsWithin(maxHeartbeat, found, at)
	if !slices.Contains([]string{SourceAuto, SourceDevice, SourceIPMITool}, h.Source) {
		found.add(fmt.Sprintf("%q is none of %s, %s and %s", h.Source, SourceAuto, SourceDevice, SourceIPMITool), at("source")...)
	}
	found.path(h.Device, at("device")...)
	found.stateFile(h.StateFile, "acknowledgements and the place in the System Event Log have to be kept", at("stateFile")...)
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
