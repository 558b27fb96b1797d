package ipmitool

import (
	"regexp"
	"strconv"
	"strings"
)

// entry is a line of "sel elist".
type entry struct {
	timestamp uint32
	// sensor is the sensor's type, followed by its name or by its number: "Fan FAN1",
	// "Processor #0x04", "Memory".
	sensor string
}

// recordID begins every line of a SEL list.
var recordID = regexp.MustCompile(`^ *([0-9a-f]{1,4}) \| (.*)$`)

// parseSELList reads the output of "sel elist": the entries by the IDs of their records.
//
//	 4 |  Pre-Init  |0000001783| Fan FAN1 | Lower Non-recoverable going low  | Asserted | Reading 0 < Threshold 200 RPM
//	16 | 11/21/26 | 05:48:33 UTC | Processor #0x06 | Uncorrectable machine check exception | Asserted
//	17 | OEM record e0 | 0102030405060708090a0b0c0d
//
// Lines that are nothing of this are left out: a record that has none is noticed.
func parseSELList(text string) map[uint16]entry {
	entries := map[uint16]entry{}
	for line := range strings.Lines(text) {
		match := recordID.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if match == nil {
			continue
		}
		id, _ := strconv.ParseUint(match[1], 16, 16) // four hexadecimal digits
		if e, ok := parseEntry(match[2]); ok {
			entries[uint16(id)] = e
		}
	}
	return entries
}

func parseEntry(text string) (entry, bool) {
	if strings.HasPrefix(text, "OEM record ") || strings.HasPrefix(text, "Linux kernel panic:") {
		return entry{}, true
	}
	columns := strings.SplitN(text, "|", 4)
	if len(columns) < 3 {
		return entry{}, false
	}
	timestamp, err := parseTimestamp(strings.TrimSpace(columns[0]), strings.TrimSpace(columns[1]))
	if err != nil {
		return entry{}, false
	}
	return entry{timestamp: timestamp, sensor: strings.TrimSpace(columns[2])}, true
}

// sensorName returns the name in the sensor column, if there is one.
func (e entry) sensorName(sensorType string) string {
	name, ok := strings.CutPrefix(e.sensor, sensorType+" ")
	if !ok || unnamed.MatchString(name) {
		return ""
	}
	return cleanName(name)
}

// unnamed is what ipmitool writes in place of a name that it does not know.
var unnamed = regexp.MustCompile(`^#(0x)?[0-9a-f]{2}$`)
