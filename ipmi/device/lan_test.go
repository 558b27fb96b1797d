package device_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/test/bmc"
)

// guid is a System GUID as it comes.
const guid = "44454c4c320010388052b4c04f4a5731"

// ipv4 are the parameters of a LAN channel with that address.
func ipv4(a, b, c, d byte) map[uint8][][]byte {
	return map[uint8][][]byte{bmc.IPAddress: {{a, b, c, d}}}
}

// static and dynamic are addresses of IPv6, as parameters 56 and 59 have them.
func static(t *testing.T, address string, enabled, status byte) []byte {
	return ipv6(t, 0, enabled<<7, address, status)
}

func dynamic(t *testing.T, set byte, address string, status byte) []byte {
	const slaac = 1
	return ipv6(t, set, slaac, address, status)
}

func ipv6(t *testing.T, set, source byte, address string, status byte) []byte {
	t.Helper()
	a, err := netip.ParseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	data := append([]byte{set, source}, a.AsSlice()...)
	return append(data, 64, status)
}

// sixes are the parameters of a LAN channel with these addresses of IPv6, and none of IPv4.
func sixes(enables byte, static, dynamic [][]byte) map[uint8][][]byte {
	return map[uint8][][]byte{
		bmc.IPAddress: {{0, 0, 0, 0}}, bmc.AddressingEnables: {{enables}}, bmc.IPv6Status: {{byte(len(static)), byte(len(dynamic)), 3}},
		bmc.IPv6StaticAddress: static, bmc.IPv6DynamicAddress: dynamic,
	}
}

func TestABMCSaysFromInsideWhereItIsReachedFromOutside(t *testing.T) {
	const active, disabled, pending = 0, 1, 2
	lan := func(parameters map[uint8][][]byte) bmc.Channel {
		return bmc.Channel{Medium: bmc.LAN, Parameters: parameters}
	}
	for name, tt := range map[string]struct {
		channels map[uint8]bmc.Channel
		guid     string
		want     string // "": there is no address
	}{
		"one address":                {map[uint8]bmc.Channel{1: lan(ipv4(10, 0, 0, 7))}, guid, `{"addresses":["10.0.0.7"],"guid":"44454c4c-3200-1038-8052-b4c04f4a5731"}`},
		"no GUID from inside":        {map[uint8]bmc.Channel{1: lan(ipv4(10, 0, 0, 7))}, "", `{"addresses":["10.0.0.7"]}`},
		"a GUID that is too short":   {map[uint8]bmc.Channel{1: lan(ipv4(10, 0, 0, 7))}, guid[:8], `{"addresses":["10.0.0.7"]}`},
		"the last channel":           {map[uint8]bmc.Channel{0xb: lan(ipv4(10, 0, 0, 7))}, "", `{"addresses":["10.0.0.7"]}`},
		"a channel of software":      {map[uint8]bmc.Channel{0xc: lan(ipv4(10, 0, 0, 7))}, "", ""},
		"two ports":                  {map[uint8]bmc.Channel{8: lan(ipv4(10, 0, 0, 8)), 1: lan(ipv4(192, 168, 0, 120))}, "", `{"addresses":["192.168.0.120","10.0.0.8"]}`},
		"other media":                {map[uint8]bmc.Channel{1: {Medium: bmc.IPMB}, 2: {Medium: bmc.OtherLAN, Parameters: ipv4(10, 0, 0, 9)}, 3: lan(ipv4(10, 0, 0, 7))}, "", `{"addresses":["10.0.0.7"]}`},
		"none is set":                {map[uint8]bmc.Channel{1: lan(ipv4(0, 0, 0, 0))}, guid, ""},
		"all ones":                   {map[uint8]bmc.Channel{1: lan(ipv4(255, 255, 255, 255))}, guid, ""},
		"of its link alone":          {map[uint8]bmc.Channel{1: lan(ipv4(169, 254, 0, 2))}, guid, ""},
		"itself":                     {map[uint8]bmc.Channel{1: lan(ipv4(127, 0, 0, 1))}, guid, ""},
		"no parameter":               {map[uint8]bmc.Channel{1: lan(nil)}, guid, ""},
		"no LAN":                     {map[uint8]bmc.Channel{1: {Medium: bmc.IPMB}}, guid, ""},
		"no channel":                 {nil, guid, ""},
		"IPv6, static":               {map[uint8]bmc.Channel{1: lan(sixes(2, [][]byte{static(t, "fd00::7", 1, active)}, nil))}, "", `{"addresses":["fd00::7"]}`},
		"IPv6, dynamic":              {map[uint8]bmc.Channel{1: lan(sixes(1, nil, [][]byte{dynamic(t, 0, "fe80::7", active), dynamic(t, 1, "2001:db8::7", active)}))}, "", `{"addresses":["2001:db8::7"]}`},
		"IPv6, switched off":         {map[uint8]bmc.Channel{1: lan(sixes(0, [][]byte{static(t, "fd00::7", 1, active)}, nil))}, "", ""},
		"IPv6, not enabled":          {map[uint8]bmc.Channel{1: lan(sixes(2, [][]byte{static(t, "fd00::7", 0, active)}, nil))}, "", ""},
		"IPv6, disabled and pending": {map[uint8]bmc.Channel{1: lan(sixes(2, [][]byte{static(t, "fd00::9", 1, disabled)}, [][]byte{dynamic(t, 0, "fd00::8", pending)}))}, "", ""},
		"more than are kept": {map[uint8]bmc.Channel{
			1: lan(ipv4(10, 0, 0, 1)), 2: lan(ipv4(10, 0, 0, 2)), 3: lan(ipv4(10, 0, 0, 3)), 4: lan(ipv4(10, 0, 0, 4)), 5: lan(ipv4(10, 0, 0, 5)),
		}, "", `{"addresses":["10.0.0.1","10.0.0.2","10.0.0.3","10.0.0.4"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			config := bmc.Config{}
			if tt.guid != "" {
				var err error
				if config.GUID, err = hex.DecodeString(tt.guid); err != nil {
					t.Fatal(err)
				}
			}
			b := bmc.New(config)
			for number, c := range tt.channels {
				b.SetChannel(number, c)
			}
			got, err := open(t, b).Reported(t.Context())
			switch {
			case tt.want == "" && !errors.Is(err, device.ErrNoAddress):
				t.Errorf("got %s, %v, want ErrNoAddress", got, err)
			case tt.want != "" && (err != nil || got.String() != tt.want):
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestWhichChannelsAreALANIsAskedOnce(t *testing.T) {
	b := bmc.New(bmc.Config{})
	b.SetChannel(1, bmc.Channel{Medium: bmc.LAN, Parameters: ipv4(10, 0, 0, 7)})
	d := open(t, b)
	for _, last := range []byte{7, 8} {
		b.SetChannel(1, bmc.Channel{Medium: bmc.LAN, Parameters: ipv4(10, 0, 0, last)})
		if got, err := d.Reported(t.Context()); err != nil || got.Addresses[0] != netip.AddrFrom4([4]byte{10, 0, 0, last}) {
			t.Errorf("got %s, %v", got, err)
		}
	}
	if asked := b.TakeCounts()[bmc.GetChannelInfo]; asked != 11 {
		t.Errorf("asked %d times, want each of the 11 channels once", asked)
	}
}

func TestAnAddressThatIsCutShortIsAnError(t *testing.T) {
	b := bmc.New(bmc.Config{})
	b.SetChannel(1, bmc.Channel{Medium: bmc.LAN, Parameters: map[uint8][][]byte{bmc.IPAddress: {{10, 0, 0}}}})
	if got, err := open(t, b).Reported(t.Context()); !errors.Is(err, ipmi.ErrMalformed) || !strings.Contains(err.Error(), "parameter 3: ") || !strings.Contains(err.Error(), "3 bytes of 4") {
		t.Errorf("got %s, %v", got, err)
	}
}

// A BMC that has no time is no BMC without an address.
func TestABMCThatIsBusyIsAskedAgain(t *testing.T) {
	for _, busy := range []bmc.Command{bmc.GetChannelInfo, bmc.GetLANParameter, bmc.GetSystemGUID} {
		synctest.Test(t, func(t *testing.T) {
			b := bmc.New(bmc.Config{GUID: bytes.Repeat([]byte{1}, 16)})
			b.SetChannel(1, bmc.Channel{Medium: bmc.LAN, Parameters: ipv4(10, 0, 0, 7)})
			d := open(t, b)
			b.Fail(busy, uint8(ipmi.NodeBusy), -1)
			if got, err := d.Reported(t.Context()); !errors.Is(err, ipmi.NodeBusy) {
				t.Errorf("busy with %v: got %s, %v", busy, got, err)
			}
			b.SetHook(nil)
			if got, err := d.Reported(t.Context()); err != nil || got.GUID == nil {
				t.Errorf("then: got %s, %v", got, err)
			}
		})
	}
}
