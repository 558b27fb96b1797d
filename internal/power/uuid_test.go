package power

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

const dell = "4c4c4544-0032-3810-8052-b4c04f4a5731"

func bytesOf(t *testing.T, text string) (g GUID) {
	t.Helper()
	if n, err := hex.Decode(g[:], []byte(text)); n != len(g) || err != nil {
		t.Fatalf("%s: %d bytes, %v", text, n, err)
	}
	return g
}

func TestAGUIDMatchesInTheThreeOrdersInUse(t *testing.T) {
	machine, err := ParseUUID(strings.ToUpper(dell))
	if err != nil || machine.String() != dell {
		t.Fatalf("got %s, %v", machine, err)
	}
	for wire, want := range map[string]Order{
		"4c4c4544003238108052b4c04f4a5731": RFC4122,
		"44454c4c320010388052b4c04f4a5731": SMBIOS,
		"31574a4fc0b452801038320044454c4c": IPMI,
		// None of them: another machine, one with a bit flipped, other groups reversed.
		"5c4c4544003238108052b4c04f4a5731": "",
		"4c4c4544003238108052b4c04f4a5730": "",
		"4c4c4544320010388052b4c04f4a5731": "",
		"44454c4c003238108052b4c04f4a5731": "",
	} {
		guid := bytesOf(t, wire)
		order, matches := guid.Matches(machine)
		if order != want || matches != (want != "") {
			t.Errorf("%s: matches in %q, %t, want %q", wire, order, matches, want)
		}
		if err := Check(guid, machine); (err == nil) != (want != "") || err != nil && !errors.Is(err, ErrOtherMachine) {
			t.Errorf("%s: %v", wire, err)
		}
	}
}

// Such a UUID is that of thousands of machines.
func TestAGUIDThatManyMachinesHaveIsOfNone(t *testing.T) {
	for _, text := range append(placeholders(),
		"00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "fefefefe-fefe-fefe-fefe-fefefefefefe",
		"00020003-0004-0005-0006-000700080009", "09000800-0700-0600-0005-000400020003") {
		if _, err := ParseUUID(text); !errors.Is(err, ErrNoIdentity) {
			t.Errorf("%s: %v", text, err)
		}
		guid, err := ParseGUID(text)
		if err != nil {
			t.Fatal(err)
		}
		// Also for a node that has, in some order, the same.
		for _, order := range Orders() {
			if _, matches := guid.Matches(guid.In(order)); matches {
				t.Errorf("%s matches itself", text)
			}
			if err := Check(guid, guid.In(order)); !errors.Is(err, ErrNoIdentity) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

func TestUUIDsAreAlikeIfOneGUIDMatchesThem(t *testing.T) {
	a := UUID(bytesOf(t, strings.ReplaceAll(dell, "-", "")))
	for text, want := range map[string]bool{
		dell:                                   true,
		"44454c4c-3200-1038-8052-b4c04f4a5731": true,  // SMBIOS
		"31574a4f-c0b4-5280-1038-320044454c4c": true,  // IPMI
		"4f4a5731-b4c0-8052-3810-0032454c4c44": false, // of no order
		"4c4c4544-0032-3810-8052-b4c04f4a5730": false,
	} {
		b, err := ParseUUID(text)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(a.Alike(), b) != want || slices.Contains(b.Alike(), a) != want {
			t.Errorf("%s: %v, and %v, want %t", text, a.Alike(), b.Alike(), want)
		}
	}
	// Every GUID that matches one of two says whether they are alike.
	for _, order := range Orders() {
		guid := GUID(GUID(a).In(order))
		for _, other := range Orders() {
			if b := guid.In(other); !slices.Contains(a.Alike(), b) || !slices.Contains(b.Alike(), a) {
				t.Errorf("%s is both %s and %s", guid, a, b)
			}
		}
	}
}

func TestWhatIsNoUUIDIsRefused(t *testing.T) {
	for _, text := range []string{"", "4c4c4544003238108052b4c04f4a5731", dell + "0", " " + dell, dell[1:], strings.Replace(dell, "4c", "4g", 1), strings.Repeat("a", 1000)} {
		if _, err := ParseUUID(text); err == nil || !strings.Contains(err.Error(), "is no UUID such as") || len(err.Error()) > 200 {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestUUIDsAreTextInJSON(t *testing.T) {
	in := struct {
		Machine UUID
		GUID    GUID
	}{GUID: bytesOf(t, "44454c4c320010388052b4c04f4a5731")}
	in.Machine = in.GUID.In(SMBIOS)
	text, err := json.Marshal(in)
	if want := `{"Machine":"` + dell + `","GUID":"44454c4c-3200-1038-8052-b4c04f4a5731"}`; err != nil || string(text) != want {
		t.Fatalf("got %s, %v, want %s", text, err, want)
	}
	out := in
	out.Machine, out.GUID = UUID{}, GUID{}
	if err := json.Unmarshal(text, &out); err != nil || out != in {
		t.Errorf("got %v, %v, want %v", out, err, in)
	}
	if err := json.Unmarshal([]byte(`{"Machine":"00000000-0000-0000-0000-000000000000"}`), &out); !errors.Is(err, ErrNoIdentity) {
		t.Errorf("got %v", err)
	}
}
