package verdict

import (
	"fmt"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// maxListed is how many failures, and how many modules of each, evidence lists at most.
const maxListed = 8

// Evidence returns what a technician has to know of the failures that count, or may, beside the
// message: since when, what was read in bytes, and which modules it may be about, a line for each. It does
// not change while nothing happens, so that no reading is in it.
func (v Verdict) Evidence() (lines []string) {
	listed := 0
	for i := range v.Failures {
		f := &v.Failures[i]
		if !f.Counts() {
			continue
		}
		listed++
		if listed <= maxListed {
			lines = append(lines, f.evidence()...)
		}
	}
	if more := listed - maxListed; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more failures", more))
	}
	return lines
}

func (f *Failure) evidence() []string {
	line := fmt.Sprintf("%s: %s, since %s", f.Component, saidReading.ReplaceAllString(f.What, "$1"), f.Since.UTC().Format(time.RFC3339))
	if f.Source != "" {
		line += ", " + f.Source
	}
	switch {
	case f.Path != "": // whose number is our own
		line += ", " + f.Path
	case f.Raw != "":
		line += ", " + f.Raw
	}
	lines := []string{line}
	if f.Identity != nil {
		lines = append(lines, "part: "+f.Identity.String())
	}
	if f.Module != nil {
		lines = append(lines, Slot(*f.Module))
	}
	for i, m := range f.Candidates {
		if i == maxListed {
			lines = append(lines, fmt.Sprintf("or one of %d more modules", len(f.Candidates)-i))
			break
		}
		which := "may be "
		if len(f.Candidates) == 1 {
			which = ""
		}
		lines = append(lines, which+Slot(m))
	}
	return lines
}

// Slot returns what a technician has to know of a slot of the memory: "slot A1: 32 GiB Samsung
// M393A4K40DB3-CWE, serial 4711".
func Slot(m ipmi.Module) string {
	text := fmt.Sprintf("slot %s: %s", m.Locator, m)
	if m.Bytes == 0 && m.Serial != "" {
		text += " now, as the firmware says; before: serial " + m.Serial
	}
	return printable(text)
}

// rawRecord returns the bytes of a record of the SEL for people.
func rawRecord(raw string) string {
	if raw == "" {
		return ""
	}
	return "record " + raw
}

// rawSensor returns the states of a sensor for people, as it has them.
func rawSensor(s ipmi.Sensor, k sensorKey) string {
	if !s.Available {
		return fmt.Sprintf("number 0x%02x", k.Number)
	}
	return fmt.Sprintf("number 0x%02x, states 0x%04x", k.Number, s.States)
}
