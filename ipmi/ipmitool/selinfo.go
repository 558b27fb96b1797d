package ipmitool

import (
	"fmt"
	"strconv"
	"strings"
)

// selInfo is the state of the SEL (IPMI 2.0, section 31.2).
type selInfo struct {
	entries       int
	added, erased uint32 // 0: not known, or never
	overflow      bool
	full          bool // no space is left
}

// wrapping reports whether new records may take the place of old ones, so that
// their number tells nothing.
func (i selInfo) wrapping() bool { return i.overflow || i.full }

// parseSELInfo reads the output of "sel info".
func parseSELInfo(text string) (selInfo, error) {
	f := parseFields(text)
	entries, err := strconv.ParseUint(f["Entries"], 10, 16)
	if err != nil {
		return selInfo{}, fmt.Errorf("its output has no number of SEL entries: %w", err)
	}
	info := selInfo{entries: int(entries), full: strings.HasPrefix(f["Free Space"], "0 bytes")}
	if info.overflow, err = f.flag("Overflow", "true", "false"); err != nil {
		return selInfo{}, err
	}
	if info.added, err = infoTime(f["Last Add Time"]); err != nil {
		return selInfo{}, fmt.Errorf("its output has no Last Add Time: %w", err)
	}
	if info.erased, err = infoTime(f["Last Del Time"]); err != nil {
		return selInfo{}, fmt.Errorf("its output has no Last Del Time: %w", err)
	}
	return info, nil
}

// infoTime reads "11/21/26 13:10:31 UTC", "S+ 01:27:52", "S+ 70/002 01:27:52" or "Not
// Available".
func infoTime(text string) (uint32, error) {
	if text == "Not Available" {
		return 0, nil
	}
	if text == "Unspecified" {
		return noTime, nil
	}
	if rest, ok := strings.CutPrefix(text, "S+ "); ok {
		if day, clock, ok := strings.Cut(rest, " "); ok {
			return sinceStart(day, clock)
		}
		return sinceStart("", rest)
	}
	day, clock, _ := strings.Cut(text, " ")
	return parseTimestamp(day, clock)
}
