// Package smbios reads what the firmware tells of the machine (DSP0134), by u-root's decoder.
package smbios

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/u-root/u-root/pkg/smbios"

	"github.com/nodemend/nodemend/ipmi"
)

// maxTables is more than they are long.
const maxTables = 1 << 20

// Machine is what the firmware tells. What it does not is empty.
type Machine struct {
	Manufacturer string `json:"manufacturer,omitempty"`
	Product      string `json:"product,omitempty"`
	Serial       string `json:"serial,omitempty"`
	// BIOS is its version.
	BIOS string `json:"bios,omitempty"`
	// Modules are those of the memory, and empty slots.
	Modules []ipmi.Module `json:"modules,omitempty"`
	// Processors and Supplies are those that are there.
	Processors []Part `json:"processors,omitempty"`
	Supplies   []Part `json:"supplies,omitempty"`
}

// Part is something that can be exchanged.
type Part struct {
	// Locator is how its place is called: "CPU1", "PSU.Slot.1".
	Locator      string `json:"locator"`
	Manufacturer string `json:"manufacturer,omitempty"`
	PartNumber   string `json:"partNumber,omitempty"`
	Serial       string `json:"serial,omitempty"`
}

// String returns "PSU.Slot.1: DELL 0CMPGMA01, serial CN1797", or what is known of that.
func (p Part) String() string {
	text := p.Locator
	if what := strings.TrimSpace(p.Manufacturer + " " + p.PartNumber); what != "" {
		text += ": " + what
	}
	if p.Serial != "" {
		text += ", serial " + p.Serial
	}
	return text
}

// String returns "Dell Inc. PowerEdge R740, serial ABC1234, BIOS 2.21.1".
func (m Machine) String() string {
	text := strings.TrimSpace(m.Manufacturer + " " + m.Product)
	for _, part := range [][2]string{{"serial", m.Serial}, {"BIOS", m.BIOS}} {
		if part[1] != "" {
			text += ", " + part[0] + " " + part[1]
		}
	}
	return strings.TrimPrefix(text, ", ")
}

// Read reads the tables in a folder, as the kernel has them in /sys/firmware/dmi/tables, for
// root only.
func Read(dir string) (Machine, error) {
	entry, err := read(filepath.Join(dir, "smbios_entry_point"))
	if err != nil {
		return Machine{}, err
	}
	tables, err := read(filepath.Join(dir, "DMI"))
	if err != nil {
		return Machine{}, err
	}
	m, err := decode(entry, tables)
	if err != nil {
		return Machine{}, fmt.Errorf("the tables of SMBIOS in %s: %w", dir, err)
	}
	return m, nil
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // was only read
	data, err := io.ReadAll(io.LimitReader(file, maxTables+1))
	if err == nil && len(data) > maxTables {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxTables)
	}
	return data, err
}

// decode leaves out a structure that is malformed.
func decode(entry, tables []byte) (m Machine, err error) {
	info, err := smbios.ParseInfo(entry, tables)
	if err != nil {
		return m, err
	}
	if system, err := info.GetSystemInfo(); err == nil {
		m.Manufacturer, m.Product, m.Serial = text(system.Manufacturer), text(system.ProductName), text(system.SerialNumber)
	}
	if bios, err := info.GetBIOSInfo(); err == nil {
		m.BIOS = text(bios.Version)
	}
	for _, table := range info.GetTablesByType(smbios.TableTypeMemoryDevice) {
		device, err := smbios.NewMemoryDevice(table)
		if err != nil {
			continue
		}
		m.Modules = append(m.Modules, ipmi.Module{
			Locator: text(device.DeviceLocator), Manufacturer: text(device.Manufacturer), PartNumber: text(device.PartNumber),
			Serial: text(device.SerialNumber), Bytes: device.GetSizeBytes(),
		})
	}
	m.Processors = parts(info, smbios.TableTypeProcessorInfo, processor)
	m.Supplies = parts(info, powerSupply, supply)
	if m.Manufacturer == "" && m.Product == "" && len(m.Modules) == 0 {
		return m, errors.New("they tell nothing of the machine")
	}
	return m, nil
}

// powerSupply is the type of a System Power Supply (section 7.40).
const powerSupply smbios.TableType = 39

// fields are where a structure has what a Part is made of. There is one if a bit is set.
type fields struct {
	locator, manufacturer, partNumber, serial int
	there                                     int
	bit                                       uint8
}

var (
	processor = fields{locator: 0x04, manufacturer: 0x07, partNumber: 0x22, serial: 0x20, there: 0x18, bit: 1 << 6} // section 7.5
	supply    = fields{locator: 0x05, manufacturer: 0x07, partNumber: 0x0a, serial: 0x08, there: 0x0e, bit: 1 << 1} // section 7.40
)

// parts returns those of a type that are there and have a name. What an older structure lacks is empty.
func parts(info *smbios.Info, kind smbios.TableType, at fields) (all []Part) {
	for _, table := range info.GetTablesByType(kind) {
		field := func(offset int) string {
			value, err := table.GetStringAt(offset)
			if err != nil {
				return ""
			}
			return text(value)
		}
		p := Part{field(at.locator), field(at.manufacturer), field(at.partNumber), field(at.serial)}
		if there, err := table.GetByteAt(at.there); err == nil && there&at.bit != 0 && p.Locator != "" {
			all = append(all, p)
		}
	}
	return all
}

// text returns a text of the firmware, empty if it stands for nothing.
func text(s string) string {
	s = strings.TrimSpace(s)
	switch strings.ToLower(s) {
	case "not specified", "unknown", "none", "n/a", "no dimm", "to be filled by o.e.m.", "default string":
		return ""
	default:
		return s
	}
}
