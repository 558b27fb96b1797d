package hardware_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/hardware"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
	"github.com/nodemend/nodemend/test/bmc"
)

// addressed is a channel of a LAN with the address 10.0.0.N.
func addressed(n byte) bmc.Channel {
	return bmc.Channel{Medium: bmc.LAN, Parameters: map[uint8][][]byte{bmc.IPAddress: {{10, 0, 0, n}}}}
}

// reporting has a check tell in the slice what is to be reported.
func reporting(to *[]string) func(*hardware.Options) {
	return func(o *hardware.Options) {
		o.ReportBMC = func(r power.ReportedBMC) { *to = append(*to, r.String()) }
	}
}

func TestEachRunReportsWhereTheBMCIsReached(t *testing.T) {
	d := newDouble(t)
	d.SetChannel(1, addressed(7))
	var reported []string
	check := newCheck(t, d, filepath.Join(t.TempDir(), "state"), reporting(&reported))
	expect(t, check.Run(t.Context()), checks.False, verdict.ReasonHealthy)
	d.SetChannel(1, addressed(8))
	d.stopFan(true)
	if status := check.Run(t.Context()).Status; status != checks.True {
		t.Errorf("the fan has stopped: %s", status)
	}
	if want := `{"addresses":["10.0.0.7"]} {"addresses":["10.0.0.8"]}`; strings.Join(reported, " ") != want {
		t.Errorf("reported %q, want %s", reported, want)
	}
}

func TestABMCIsAskedWhereItIsReachedOnlyIfThatIsReported(t *testing.T) {
	d := newDouble(t)
	d.SetChannel(1, addressed(7))
	expect(t, newCheck(t, d, filepath.Join(t.TempDir(), "state")).Run(t.Context()), checks.False, verdict.ReasonHealthy)
	counts := d.TakeCounts()
	for _, command := range []bmc.Command{bmc.GetChannelInfo, bmc.GetLANParameter, bmc.GetSystemGUID} {
		if counts[command] > 0 {
			t.Errorf("%v was sent", command)
		}
	}
}

// What keeps the BMC from telling its address is no fault of the server's, and is told once.
func TestABMCThatDoesNotTellItsAddressIsAsHealthyAsEver(t *testing.T) {
	d := newDouble(t)
	var reported []string
	check := newCheck(t, d, filepath.Join(t.TempDir(), "state"), reporting(&reported))
	ctx, log := logging(t)
	const said = "Where the BMC is reached from outside can't be reported"
	for range 3 {
		expect(t, check.Run(ctx), checks.False, verdict.ReasonHealthy)
	}
	if reported != nil || strings.Count(log.String(), said) != 1 || !strings.Contains(log.String(), "says of no LAN channel") {
		t.Errorf("reported %q, log:\n%s", reported, log)
	}
	d.SetChannel(1, addressed(7))
	d.Fail(bmc.GetLANParameter, uint8(ipmi.InsufficientPrivilege), -1)
	expect(t, check.Run(ctx), checks.False, verdict.ReasonHealthy)
	d.SetHook(nil)
}

func TestABMCThatHangsWithItsAddressDelaysTheCheckForASecondOrFive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDouble(t)
		d.SetChannel(1, addressed(7))
		var reported []string
		check := newCheck(t, d, filepath.Join(t.TempDir(), "state"), reporting(&reported))
		d.SetHook(func(command bmc.Command, _ []byte) []byte {
			if command == bmc.GetChannelInfo {
				<-time.After(time.Minute)
			}
			return nil
		})
		began := time.Now()
		expect(t, check.Run(t.Context()), checks.False, verdict.ReasonHealthy)
		if took := time.Since(began); took != 5*time.Second || reported != nil {
			t.Errorf("it took %s, reported %q", took, reported)
		}
		<-time.After(time.Minute)
	})
}

func TestTheGUIDIsReportedIfTheBMCTellsItFromInside(t *testing.T) {
	b := bmc.New(bmc.Config{GUID: bytes.Repeat([]byte{0x4c, 1}, 8)})
	b.SetChannel(1, addressed(7))
	var reported []string
	check := newCheck(t, &double{BMC: b, t: t}, filepath.Join(t.TempDir(), "state"), reporting(&reported))
	check.Run(t.Context())
	if want := `{"addresses":["10.0.0.7"],"guid":"4c014c01-4c01-4c01-4c01-4c014c014c01"}`; strings.Join(reported, " ") != want {
		t.Errorf("reported %q, want %s", reported, want)
	}
}

func TestABMCIsReportedOnlyAsItIsSeenFromInside(t *testing.T) {
	present, missing := filepath.Join(t.TempDir(), "ipmi0"), filepath.Join(t.TempDir(), "missing")
	if err := os.WriteFile(present, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		source, device, host string
		want                 bool
	}{
		"the device":                  {config.SourceDevice, missing, "", true},
		"auto, with a device":         {config.SourceAuto, present, "bmc", true},
		"auto, over the network":      {config.SourceAuto, missing, "bmc", false},
		"auto, the device may come":   {config.SourceAuto, missing, "", true},
		"over the network":            {config.SourceLAN, present, "bmc", false},
		"Redfish":                     {config.SourceRedfish, present, "", false},
		"ipmitool":                    {config.SourceIPMITool, present, "", true},
		"ipmitool of another machine": {config.SourceIPMITool, present, "bmc", false},
	} {
		c := config.Default().Checks.Hardware
		c.Source, c.Device, c.LAN.Host, c.IPMITool.Host = tt.source, tt.device, tt.host, tt.host
		if got := hardware.InBand(c); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
