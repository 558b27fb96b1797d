package ipmitool

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/ipmi"
)

// parseMCInfo reads the output of "mc info".
func parseMCInfo(text string) (ipmi.DeviceID, error) {
	f := parseFields(text)
	id := ipmi.DeviceID{Firmware: f["Firmware Revision"], IPMIVersion: f["IPMI Version"]}
	if id.Firmware == "" || id.IPMIVersion == "" {
		return ipmi.DeviceID{}, fmt.Errorf("its output lacks the versions of firmware and IPMI: %q", head(text))
	}
	manufacturer, err := strconv.ParseUint(f["Manufacturer ID"], 10, 20)
	if err != nil {
		return ipmi.DeviceID{}, fmt.Errorf("its output has a Manufacturer ID that is no number: %w", err)
	}
	decimal, _, _ := strings.Cut(f["Product ID"], " ") // "3842 (0x0f02)"
	product, err := strconv.ParseUint(decimal, 10, 16)
	if err != nil {
		return ipmi.DeviceID{}, fmt.Errorf("its output has a Product ID that is no number: %w", err)
	}
	id.Manufacturer, id.Product = uint32(manufacturer), uint16(product)
	return id, nil
}

// parseBMCName finds the BMC in the output of "sdr elist mcloc":
//
//	node-bmc         | 00h | ok  |  7.1 | Dynamic MC @ 20h
func parseBMCName(text string) string {
	for line := range strings.Lines(text) {
		if before, found := strings.CutSuffix(strings.TrimSpace(line), " MC @ 20h"); found {
			name, _, _ := strings.Cut(before, "| 00h |")
			return cleanName(name)
		}
	}
	return ""
}

// head returns the beginning of a text, for messages.
func head(text string) string { return cut.Head(strings.TrimSpace(text), 80) }
