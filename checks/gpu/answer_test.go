package gpu

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// What nvidia-smi 580.159.04 has said of an H200.
const (
	realRow     = "00000000:00:06.0, NVIDIA H200, GPU-00000000-1111-2222-3333-444444444444, 1650000000001, None, 0, [N/A], No, No, Not Active, Not Active\n"
	realUnknown = "Field \"nosuch\" is not a valid field to query.\n\n"
)

func TestWhatNvidiaSMISaysIsRead(t *testing.T) {
	a := parse("WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n"+realRow+"Unable to determine the device handle for GPU1: 0001:34:00.0: Unknown Error\n", fields())
	want := answer{
		rows: map[string]map[string]string{"0000:00:06.0": {
			fieldAddress: "00000000:00:06.0", fieldName: "NVIDIA H200", fieldUUID: "GPU-00000000-1111-2222-3333-444444444444", fieldSerial: "1650000000001",
			fieldRecovery: "None", fieldErrors: "0", fieldRetirement: "[N/A]", fieldPending: "No", fieldFailed: "No", fieldHot: "Not Active", fieldPower: "Not Active",
		}},
		refusals: map[string]string{"0001:34:00.0": "Unknown Error"},
		rest:     "WARNING: infoROM is corrupted at gpu 0000:3B:00.0",
	}
	if diff := cmp.Diff(want, a, cmp.AllowUnexported(answer{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if a := parse(realUnknown, []string{fieldAddress, "nosuch"}); a.unknown != "nosuch" {
		t.Errorf("it does not know %q, want nosuch", a.unknown)
	}
	if a := parse(realUnknown, fields()); a.unknown != "" || a.rest != `Field "nosuch" is not a valid field to query.` {
		t.Errorf("it does not know %q, which it was not asked; %q", a.unknown, a.rest)
	}
	if a := parse("No devices were found\n", fields()); !a.none {
		t.Error("no devices is not seen")
	}
}

func TestTheDriversOwnFileIsRead(t *testing.T) {
	h := newHost(t)
	h.gpu("0000:00:06.0", 1)
	data, err := os.ReadFile("testdata/information")
	h.must(err)
	h.set("driver/nvidia/gpus/0000:00:06.0", "information", string(data))
	got := files{h.path, h.path}.look()
	want := []gpu{{address: "0000:00:06.0", driver: "nvidia", model: "NVIDIA H200", uuid: "GPU-00000000-1111-2222-3333-444444444444"}}
	if diff := cmp.Diff(want, got.gpus, cmp.AllowUnexported(gpu{})); diff != "" || got.version != "580.159.04" || got.err != nil {
		t.Errorf("%q, %v, -want +got:\n%s", got.version, got.err, diff)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(realRow)
	f.Add(realUnknown)
	f.Add("Unable to determine the device handle for GPU0000:CB:00.0: Unknown Error\nNo devices were found\n")
	f.Add("00000000:3B:00.0, a, b, c, [GPU is lost], ERR!, d, e, f, g, h\n")
	f.Add("FFFFFFFF:3B:00.0,,,,,,,,,,\n")
	f.Fuzz(func(t *testing.T, output string) {
		a := parse(output, fields())
		for address, row := range a.rows {
			if at, is := addressOf(address); !is || at != address {
				t.Errorf("address %q is none of the kernel's", address)
			}
			if len(row) != len(fields()) {
				t.Errorf("row %q of %s", row, address)
			}
			wrong, note := problems(row)
			for _, w := range wrong {
				if w.Reason == "" || !utf8.ValidString(w.Text) || len(w.Text) > 300 || strings.ContainsAny(w.Text, "\n\x00") {
					t.Errorf("%+v", w)
				}
			}
			if len(wrong) == 0 && !healthyAction(row[fieldRecovery]) {
				t.Errorf("%q is healthy", row)
			}
			if !utf8.ValidString(note + slowed(row)) {
				t.Errorf("note %q", note)
			}
		}
		for address, why := range a.refusals {
			if at, is := addressOf(address); !is || at != address || !utf8.ValidString(why) {
				t.Errorf("refusal %q of %q", why, address)
			}
		}
		if !utf8.ValidString(a.rest) || len(a.rest) > maxRest {
			t.Errorf("rest %q", a.rest)
		}
	})
}

// healthyAction is whether the driver asks for nothing, or has nothing to ask for.
func healthyAction(value string) bool {
	return plain(value) == "none" || strings.TrimSuffix(plain(value), " required") == "none" || untold(value)
}
