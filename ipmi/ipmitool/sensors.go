package ipmitool

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nodemend/nodemend/ipmi"
)

// parseSensors reads the output of "sdr list" while verbose: a block of lines for each
// sensor. One that lacks what a Sensor needs has a Problem; if all do, that is an error.
func parseSensors(text string) ([]ipmi.Sensor, error) {
	bad := 0
	var last error
	var sensors []ipmi.Sensor
	for _, block := range blocks(text, "Sensor ID  ") {
		b := parseSensorBlock(block)
		sensor, err := b.sensor()
		if err != nil {
			last = fmt.Errorf("sensor %q: %w", cleanName(b.id), err)
			sensor.Available, sensor.Reading, sensor.States, sensor.Problem = false, nil, 0, last.Error()
			sensor.Name = cmp.Or(sensor.Name, cleanName(b.id))
			bad++
		}
		sensors = append(sensors, sensor)
	}
	if bad > 0 && bad == len(sensors) {
		return nil, last
	}
	return sensors, nil
}

// blocks returns the parts of a text that begin with a line that has that prefix.
func blocks(text, prefix string) []string {
	var all []string
	var block strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			if inside {
				all = append(all, block.String())
			}
			block.Reset()
			inside = true
		}
		block.WriteString(line)
	}
	if inside {
		all = append(all, block.String())
	}
	return all
}

// sensorBlock is a sensor in ipmitool's words.
type sensorBlock struct {
	id     string // "CPU0 Temp (0x1)"
	fields fields
	// lists are the words in brackets below the lines "States Asserted",
	// "Assertions Enabled" and the like, by these names.
	lists map[string][]string
}

func parseSensorBlock(text string) sensorBlock {
	// A name may hold anything, even the end of a line.
	head, rest, _ := strings.Cut(text, "\n Entity ID ")
	_, id, _ := strings.Cut(head, ":")
	b := sensorBlock{id: strings.TrimSpace(id), fields: parseFields("Entity ID" + rest), lists: map[string][]string{}}
	list := ""
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if word, ok := strings.CutPrefix(line, "["); ok {
			if word, ok = strings.CutSuffix(word, "]"); ok {
				b.lists[list] = append(b.lists[list], word)
				continue
			}
		}
		if name, _, ok := field(line); ok {
			list = name
		}
	}
	return b
}

var (
	// "CPU0 Temp (0x1)", "Power Supply (0x08)"
	wordAndNumber = regexp.MustCompile(`(?s)^(.*?) *\(0x([0-9a-f]{1,2})\)$`)
	// "10.1 (Power Supply)"
	entity = regexp.MustCompile(`^(\d{1,3})\.(\d{1,3})(?: |$)`)
	// "98 (+/- 0) degrees C", "11.970 (+/- 0) Volts", and of a discrete sensor
	// "204.50 Watts"
	analogReading = regexp.MustCompile(`^(-?(?:\d+(?:\.\d+)?|nan|inf)) (?:\(\+/- -?[0-9.naif]+\) )?(.*)$`)
	// "5h" of a discrete sensor, "0x2D (+/- 0x00) unspecified" of a threshold sensor
	// without a factor
	rawReading = regexp.MustCompile(`^(?:[0-9a-f]+h|0x[0-9A-Fa-f]+\b.*)$`)
)

func (b sensorBlock) sensor() (ipmi.Sensor, error) {
	id := wordAndNumber.FindStringSubmatch(b.id)
	if id == nil {
		return ipmi.Sensor{}, errors.New("its number is missing")
	}
	s := ipmi.Sensor{Name: cleanName(id[1])}
	number, _ := strconv.ParseUint(id[2], 16, 8) // two hexadecimal digits
	s.Number = uint8(number)

	var err error
	if s.Entity, err = parseEntity(b.fields["Entity ID"]); err != nil {
		return s, err
	}
	kind, threshold := b.fields["Sensor Type (Threshold)"]
	if !threshold {
		kind = b.fields["Sensor Type (Discrete)"]
	}
	words := wordAndNumber.FindStringSubmatch(kind)
	if words == nil {
		return s, fmt.Errorf("its type is missing: %q", kind)
	}
	number, _ = strconv.ParseUint(words[2], 16, 8)
	s.Type = ipmi.SensorType(number)
	if threshold {
		s.EventType = ipmi.Threshold
	} else {
		s.EventType = b.eventType(s.Type)
	}

	if err := parseReading(b.fields["Sensor Reading"], &s); err != nil {
		return s, err
	}
	if !s.Available {
		return s, nil
	}
	if threshold {
		s.States, err = limitStates(b.fields["Status"], b.fields["Threshold Read Mask"])
		if s.States != 0 {
			s.Believe(b.limits())
		}
		return s, err
	}
	for _, word := range b.lists["States Asserted"] {
		if offset, ok := ipmi.FindState(s.Type, s.EventType, word); ok {
			s.States |= 1 << offset
		}
	}
	return s, nil
}

// limits returns the limits that the BMC lets be read: "Upper critical        : 95.000".
func (b sensorBlock) limits() (all ipmi.Limits) {
	lower, upper := limits()
	for i, limit := range slices.Concat(lower, upper) {
		name := limit.word[:1] + strings.ToLower(limit.word[1:])
		if value, err := strconv.ParseFloat(b.fields[name], 64); err == nil && !math.IsNaN(value) && strings.Contains(b.fields["Readable Thresholds"], limit.short) {
			all[i] = &value
		}
	}
	return all
}

func parseEntity(text string) (ipmi.Entity, error) {
	match := entity.FindStringSubmatch(text)
	if match == nil {
		return ipmi.Entity{}, fmt.Errorf("its entity is %q", text)
	}
	id, err := strconv.ParseUint(match[1], 10, 8)
	if err != nil {
		return ipmi.Entity{}, err
	}
	instance, err := strconv.ParseUint(match[2], 10, 8)
	if err != nil {
		return ipmi.Entity{}, err
	}
	return ipmi.Entity{ID: uint8(id), Instance: uint8(instance)}, nil
}

// parseReading reads the line "Sensor Reading".
func parseReading(text string, s *ipmi.Sensor) error {
	if text == "Disabled" || text == "No Reading" {
		return nil
	}
	if rawReading.MatchString(text) {
		s.Available = true
		return nil
	}
	match := analogReading.FindStringSubmatch(text)
	if match == nil {
		return fmt.Errorf("its reading is %q", text)
	}
	value, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		return err
	}
	s.Available = true
	s.Unit = match[2]
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		s.Reading = &value
	}
	return nil
}

// limits are the words for the limits, worst last: of the line "Status", and of the
// masks.
func limits() (lower, upper []limit) {
	return []limit{
			{ipmi.LowerNonCritical, "Lower Non-Critical", "lnc"},
			{ipmi.LowerCritical, "Lower Critical", "lcr"},
			{ipmi.LowerNonRecoverable, "Lower Non-Recoverable", "lnr"},
		}, []limit{
			{ipmi.UpperNonCritical, "Upper Non-Critical", "unc"},
			{ipmi.UpperCritical, "Upper Critical", "ucr"},
			{ipmi.UpperNonRecoverable, "Upper Non-Recoverable", "unr"},
		}
}

type limit struct {
	bit         uint16
	word, short string
}

// limitStates returns the limit that the status names and those before it that the sensor
// compares its reading with.
func limitStates(status, mask string) (uint16, error) {
	if status == "ok" {
		return 0, nil
	}
	lower, upper := limits()
	for _, side := range [][]limit{lower, upper} {
		var before uint16
		for _, limit := range side {
			if limit.word == status {
				return before | limit.bit, nil
			}
			if strings.Contains(mask, limit.short) {
				before |= limit.bit
			}
		}
	}
	return 0, fmt.Errorf("its status is %q", status)
}
