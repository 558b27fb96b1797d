package power

import (
	"net/netip"
	"strings"
	"testing"
)

func TestWhatANodeReportsOfItsBMCIsReadAsItWasWritten(t *testing.T) {
	guid, err := ParseGUID(dell)
	if err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]ReportedBMC{
		`{"addresses":["10.0.0.7"],"guid":"` + dell + `"}`: {[]netip.Addr{netip.MustParseAddr("10.0.0.7")}, &guid},
		`{"addresses":["10.0.0.7","fd00::7"]}`:             {[]netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")}, nil},
	} {
		text := r.String()
		if text != want {
			t.Errorf("got %s, want %s", text, want)
		}
		if read, err := ParseReported(text); err != nil || read.String() != want {
			t.Errorf("%s is read as %s, %v", text, read, err)
		}
	}
}

func TestTheLongestReportOfABMCIsAccepted(t *testing.T) {
	guid, r := GUID{}, ReportedBMC{}
	for range MaxAddresses {
		r.Addresses = append(r.Addresses, netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"))
	}
	r.GUID = &guid
	if _, err := ParseReported(r.String()); err != nil || CutReported(r.String()) != r.String() {
		t.Error(err)
	}
}

func TestAnotherReportOfABMCIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":         `"": EOF: accepted is such as {"addresses":["10.0.0.7"],"guid":`,
		"10.0.0.7": "accepted is such as",
		`{"addresses":["10.0.0.7"]} {"addresses":["10.0.0.8"]}`: "more follows",
		`{"addresses":["10.0.0.7"],"user":"admin"}`:             `unknown field "user"`,
		`{"addresses":"10.0.0.7"}`:                              "accepted is such as",
		`{"addresses":["bmc.example.com"]}`:                     "bmc.example.com",
		`{"addresses":["10.0.0.7:623"]}`:                        "accepted is such as",
		`{"addresses":["10.0.0.7"],"guid":"4c4c4544"}`:          "is no UUID such as",
		`{"addresses":[""]}`:                                    "accepted are addresses",
		`{"addresses":["fe80::1%eth0"]}`:                        "without a zone",
		`{"addresses":[]}`:                                      "has 0 addresses: accepted are 1 to 4",
		`{}`:                                                    "has 0 addresses",
		`{"addresses":["::1","::2","::3","::4","::5"]}`:         "has 5 addresses",
		strings.Repeat(" ", 600):                                "more than 512 characters",
	} {
		if r, err := ParseReported(text); err == nil || !strings.Contains(err.Error(), want) || r.Addresses != nil {
			t.Errorf("%s: got %s, %v, want %s", text, r, err, want)
		}
	}
	if r, err := ParseReported(`{"addresses":["::ffff:10.0.0.7"]}`); err != nil || r.Addresses[0] != netip.MustParseAddr("10.0.0.7") {
		t.Errorf("got %s, %v", r, err)
	}
	if _, err := ParseReported(CutReported(`{"addresses":["10.0.0.7"]}` + strings.Repeat(" ", 600))); err == nil {
		t.Error("what was cut is taken for whole")
	}
}
