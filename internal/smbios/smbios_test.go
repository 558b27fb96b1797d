package smbios

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/u-root/u-root/pkg/smbios"

	"github.com/nodemend/nodemend/ipmi"
)

// structure returns one of SMBIOS: the bytes after its header, in which texts are numbers, and
// the texts.
func structure(kind byte, body []byte, texts ...string) []byte {
	s := append([]byte{kind, byte(4 + len(body)), 0, kind}, body...)
	for _, text := range texts {
		s = append(append(s, text...), 0)
	}
	if len(texts) == 0 {
		s = append(s, 0)
	}
	return append(s, 0)
}

// module is one of type 17, of SMBIOS 2.8: MiB of memory, and its texts.
func module(mib uint16, locator, maker, serial, part string) []byte {
	body := make([]byte, 0x28-4)
	binary.LittleEndian.PutUint16(body[0x0c-4:], mib)
	body[0x10-4] = 1
	if maker != "" {
		body[0x17-4], body[0x18-4], body[0x1a-4] = 2, 3, 4
		return structure(17, body, locator, maker, serial, part)
	}
	return structure(17, body, locator)
}

// processorAt and supplyAt are one of type 4, of SMBIOS 2.5, and of type 39, with a byte that says
// whether it is there.
func processorAt(status byte, texts ...string) []byte {
	body := make([]byte, 0x28-4)
	body[0x04-4], body[0x07-4], body[0x20-4], body[0x22-4], body[0x18-4] = 1, 2, 3, 4, status
	return structure(4, body, texts...)
}

func supplyAt(characteristics byte, texts ...string) []byte {
	body := make([]byte, 0x10-4)
	body[0x05-4], body[0x07-4], body[0x08-4], body[0x0a-4], body[0x0e-4] = 1, 2, 3, 4, characteristics
	return structure(39, body, texts...)
}

// tables are those of a server.
func tables() []byte {
	system := make([]byte, 0x1b-4)
	copy(system, []byte{1, 2, 0, 3})
	bios := make([]byte, 0x18-4)
	copy(bios, []byte{1, 2, 0, 0, 3})
	var all []byte
	for _, s := range [][]byte{
		structure(0, bios, "Dell Inc.", "2.21.1", "02/19/2026"),
		structure(1, system, "Dell Inc.", "PowerEdge R740", "ABC1234"),
		module(0x7fff, "A1", "Samsung", "32A1B2C3", "M393A4K40DB3-CWE"),
		module(16384, "A2", "Hynix", "  0D0D0D0D ", "Not Specified"),
		module(0, "A3", "", "", ""),
		processorAt(0x41, "CPU1", "Intel", "Not Specified", "Unknown"),
		processorAt(0x00, "CPU2", "Intel", "S-2", "P-2"),
		supplyAt(0x02, "PSU.Slot.1", "DELL", "CN1797", "0CMPGMA01"),
		supplyAt(0x00, "PSU.Slot.2", "DELL", "N/A", "0CMPGMA01"),
		structure(39, []byte{1, 2}, "cut off"),
		structure(127, nil),
	} {
		all = append(all, s...)
	}
	// Of the first, the size is in the longer field.
	at := bytes.Index(all, []byte("A1\x00Samsung"))
	binary.LittleEndian.PutUint32(all[at-0x28+0x1c:], 65536)
	return all
}

func entry(t testing.TB, length int) []byte {
	t.Helper()
	data, err := (&smbios.Entry64{
		Anchor: [5]uint8{'_', 'S', 'M', '3', '_'}, Length: 0x18, SMBIOSMajorVersion: 3, StructMaxSize: uint32(length),
	}).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// folder has the tables as the kernel has them.
func folder(t *testing.T, entry, tables []byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string][]byte{"smbios_entry_point": entry, "DMI": tables} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTheFirmwareTellsOfTheMachine(t *testing.T) {
	got, err := Read(folder(t, entry(t, len(tables())), tables()))
	if err != nil {
		t.Fatal(err)
	}
	want := Machine{
		Manufacturer: "Dell Inc.", Product: "PowerEdge R740", Serial: "ABC1234", BIOS: "2.21.1",
		Modules: []ipmi.Module{
			{Locator: "A1", Manufacturer: "Samsung", Serial: "32A1B2C3", PartNumber: "M393A4K40DB3-CWE", Bytes: 64 << 30},
			{Locator: "A2", Manufacturer: "Hynix", Serial: "0D0D0D0D", Bytes: 16 << 30},
			{Locator: "A3"},
		},
		Processors: []Part{{Locator: "CPU1", Manufacturer: "Intel"}},
		Supplies:   []Part{{Locator: "PSU.Slot.1", Manufacturer: "DELL", PartNumber: "0CMPGMA01", Serial: "CN1797"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if text := got.String(); text != "Dell Inc. PowerEdge R740, serial ABC1234, BIOS 2.21.1" {
		t.Error(text)
	}
	if text := got.Processors[0].String() + "; " + got.Supplies[0].String(); text != "CPU1: Intel; PSU.Slot.1: DELL 0CMPGMA01, serial CN1797" {
		t.Error(text)
	}
}

func TestTablesThatCanNotBeReadSayWhy(t *testing.T) {
	whole := tables()
	for name, test := range map[string]struct {
		dir  string
		want string
	}{
		"no entry":   {folder(t, nil, whole), "entry point"},
		"cut off":    {folder(t, entry(t, 0), whole[:len(whole)/2-9]), "SMBIOS"},
		"empty":      {folder(t, entry(t, 0), nil), "nothing of the machine"},
		"without":    {folder(t, entry(t, 0), structure(127, nil)), "nothing of the machine"},
		"far longer": {folder(t, entry(t, 0), make([]byte, maxTables+1)), "is longer than"},
	} {
		if m, err := Read(test.dir); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %+v, %v; want %q", name, m, err, test.want)
		}
	}
	if _, err := Read(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
}

func FuzzTables(f *testing.F) {
	e := entry(f, 0)
	f.Add(tables())
	f.Add([]byte{17, 0x15, 0, 0})
	f.Fuzz(func(_ *testing.T, tables []byte) {
		m, _ := decode(e, tables)
		_ = m.String()
	})
}
