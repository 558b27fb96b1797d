package hardware_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/hardware"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/ipmi/ipmitool"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

func TestTheSourceIsTheOneThatIsAskedFor(t *testing.T) {
	dir := t.TempDir()
	device, program, missing := filepath.Join(dir, "ipmi0"), filepath.Join(dir, "ipmitool"), filepath.Join(dir, "missing")
	for _, path := range []string{device, program} {
		if err := os.WriteFile(path, []byte("secret"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		source, device, program, host string
		lan, redfish                  string
		want                          string // the source's name
		err                           error
		present                       bool
	}{
		"auto is the device":              {config.SourceAuto, device, program, "bmc", "", "", device, nil, true},
		"auto without a device":           {config.SourceAuto, missing, program, "bmc", "", "", "ipmitool at bmc:623", nil, true},
		"auto without anything":           {config.SourceAuto, missing, program, "", "", "", "", hardware.ErrNoBMC, false},
		"the device":                      {config.SourceDevice, device, program, "bmc", "", "", device, nil, true},
		"a device that is not there":      {config.SourceDevice, missing, program, "bmc", "", "", "", fs.ErrNotExist, true},
		"ipmitool, beside a device":       {config.SourceIPMITool, device, program, "bmc", "", "", "ipmitool at bmc:623", nil, true},
		"ipmitool of this machine":        {config.SourceIPMITool, device, program, "", "", "", "ipmitool", nil, true},
		"an ipmitool that is not there":   {config.SourceIPMITool, device, missing, "", "", "", "", ipmitool.ErrNoProgram, true},
		"auto, over the network":          {config.SourceAuto, missing, program, "bmc", "{name}-bmc", "", "lan at worker-1-bmc:623", nil, true},
		"the network, beside a device":    {config.SourceLAN, device, program, "", "10.0.0.1", "", "lan at 10.0.0.1:623", nil, true},
		"auto with no ipmitool for a BMC": {config.SourceAuto, missing, missing, "bmc", "", "", "", ipmitool.ErrNoProgram, true},
		"auto, by Redfish":                {config.SourceAuto, missing, program, "", "", "https://{name}-bmc", "redfish at worker-1-bmc", nil, true},
		"Redfish, beside a device":        {config.SourceRedfish, device, program, "", "", "https://10.0.0.1:8443", "redfish at 10.0.0.1:8443", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := config.Default().Checks.Hardware
			c.Source, c.Device, c.IPMITool.Path, c.IPMITool.Host = tc.source, tc.device, tc.program, tc.host
			c.LAN.Host, c.LAN.PasswordFile, c.LAN.TrustAddress = tc.lan, device, true
			c.Redfish.URL, c.Redfish.PasswordFile, c.Redfish.TrustAddress = tc.redfish, password, true
			if tc.host != "" {
				c.IPMITool.PasswordFile = device
			}
			if got := hardware.Present(c); got != tc.present {
				t.Errorf("present: %t", got)
			}
			source, err := hardware.Open(c, "worker-1")
			if tc.err != nil {
				if !errors.Is(err, tc.err) {
					t.Errorf("error %v, want %v", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if source.String() != tc.want {
				t.Errorf("the source is %s, want %s", source, tc.want)
			}
			if err := source.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// After a repair the BMC starts with the node, and its driver may be loaded later than the detector.
func TestADriverThatComesLaterThanTheDetectorIsAwaited(t *testing.T) {
	dir := t.TempDir()
	c := config.Default()
	c.Checks.Hardware.Device, c.Checks.Hardware.StateFile = filepath.Join(dir, "ipmi0"), filepath.Join(dir, "state")
	node := func() *checks.Node {
		return &checks.Node{Config: c, NodeName: "worker-1", Registerer: prometheus.NewRegistry(), Clock: clock.RealClock{}}
	}
	_, err := hardware.Kind().New(node())
	if off := (checks.Off{}); !errors.As(err, &off) {
		t.Errorf("where no BMC was ever read: %v", err)
	}
	d := newDouble(t)
	expect(t, newCheck(t, d, c.Checks.Hardware.StateFile).Run(t.Context()), checks.False, verdict.ReasonHealthy)
	check, err := hardware.Kind().New(node())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, check.Run(t.Context()), checks.Unknown, hardware.ReasonNoBMC, "load the kernel modules")
	d.must(os.WriteFile(c.Checks.Hardware.Device, nil, 0o600)) // which answers nothing
	expect(t, check.Run(t.Context()), checks.Unknown, verdict.ReasonUnreachable)
}

func TestABMCOfTheNetworkHasToBeKnownAndLoggedInTo(t *testing.T) {
	c := config.Default().Checks.Hardware
	c.Source, c.LAN.Host, c.LAN.PasswordFile = config.SourceLAN, "bmc", filepath.Join(t.TempDir(), "missing")
	// Of most machines where this is tested nobody knows which they are.
	if _, err := hardware.Open(c, "worker-1"); err == nil {
		t.Error("without trust and without a password: no error")
	}
	c.LAN.TrustAddress = true
	if _, err := hardware.Open(c, "worker-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a password: %v", err)
	}
}
