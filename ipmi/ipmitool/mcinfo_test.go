package ipmitool

import (
	"strings"
	"testing"

	"github.com/nodemend/nodemend/ipmi"
)

func TestTheBMCIsIdentified(t *testing.T) {
	got, err := parseMCInfo(fixture(t, "mc-info.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := ipmi.DeviceID{Firmware: "2.14", IPMIVersion: "2.0", Manufacturer: 4753, Product: 0x0f02}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, broken := range []string{"", "Firmware Revision : 1.0\nIPMI Version : 2.0\nManufacturer ID : x\n"} {
		if id, err := parseMCInfo(broken); err == nil {
			t.Errorf("%q is %+v", broken, id)
		}
	}
}

func TestTheNameOfTheBMCIsThatOfItsAddress(t *testing.T) {
	const satellite = "ME               | 00h | ok  | 46.1 | Static MC @ 2Ch\n"
	for text, want := range map[string]string{
		fixture(t, "sdr-elist-mcloc.txt"):             "node-bmc",
		satellite + fixture(t, "sdr-elist-mcloc.txt"): "node-bmc",
		satellite: "",
		"":        "",
		"                 | 00h | ok  |  7.1 | Static MC @ 20h\n": "",
	} {
		if got := parseBMCName(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzParseMCInfo(f *testing.F) {
	f.Add(fixture(f, "mc-info.txt"))
	f.Add(fixture(f, "sdr-elist-mcloc.txt"))
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := parseMCInfo(text); err == nil && id.Firmware == "" {
			t.Errorf("no firmware: %+v", id)
		}
		if name := parseBMCName(text); strings.Contains(name, "\n") {
			t.Errorf("name %q", name)
		}
	})
}
