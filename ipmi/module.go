package ipmi

import (
	"fmt"
	"strings"
)

// Module is a memory module, or the empty slot of one, as the firmware tells (SMBIOS type 17;
// DSP0134, section 7.18).
type Module struct {
	// Locator is how the slot is labelled on the board: "DIMM_A1", "P1-DIMMA1", "A1".
	Locator      string `json:"locator"`
	Manufacturer string `json:"manufacturer,omitempty"`
	PartNumber   string `json:"partNumber,omitempty"`
	Serial       string `json:"serial,omitempty"`
	// Bytes is its size; 0 of an empty slot.
	Bytes uint64 `json:"bytes"`
}

// String returns "32 GiB Samsung M393A4K40DB3-CWE, serial 4711", or what is known of that.
func (m Module) String() string {
	if m.Bytes == 0 {
		return "empty"
	}
	words := []string{}
	if size := m.Bytes >> 30; size > 0 {
		words = append(words, fmt.Sprintf("%d GiB", size))
	}
	for _, word := range []string{m.Manufacturer, m.PartNumber} {
		if word != "" {
			words = append(words, word)
		}
	}
	text := strings.Join(words, " ")
	if m.Serial != "" {
		text += ", serial " + m.Serial
	}
	return strings.TrimPrefix(text, ", ")
}
