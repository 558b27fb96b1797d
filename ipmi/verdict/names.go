package verdict

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nodemend/nodemend/ipmi"
)

// Kind of a component, one word for metrics and reasons.
type Kind string

// kindOf returns the kind of component that s is about.
func kindOf(s subject) Kind {
	switch s.Chassis {
	case flagPowerOverload, flagMainPowerFault, flagPowerControlFault:
		return "PowerSupply"
	case flagDriveFault:
		return "Drive"
	case flagCoolingFault:
		return "Fan"
	case flagIntrusion:
		return "Chassis"
	}
	if kind, ok := kinds()[s.Type]; ok {
		return kind
	}
	return "Hardware"
}

func kinds() map[ipmi.SensorType]Kind {
	return map[ipmi.SensorType]Kind{
		0x01: "Temperature",
		0x02: "Voltage",
		0x03: "Current",
		0x04: "Fan",
		0x05: "Chassis",
		0x07: "Processor",
		0x08: "PowerSupply",
		0x09: "PowerSupply",
		0x0a: "Fan",
		0x0c: "Memory",
		0x0d: "Drive",
		0x10: "EventLog",
		0x11: "Watchdog",
		0x13: "Bus",
		0x18: "Chassis",
		0x19: "Chipset",
		0x1b: "Cable",
		0x21: "Slot",
		0x23: "Watchdog",
		0x28: "BMC",
		0x29: "Battery",
	}
}

// component returns what people call the part that s is about: the sensor's name
// without a "Status" behind it, or its entity if the name does not tell.
func component(s subject) string {
	if s.Chassis != "" {
		return "Chassis"
	}
	switch {
	case strings.HasPrefix(s.Located, "module ") || strings.HasPrefix(s.Located, "data "):
		return clip(s.name+" "+s.Located, maxName)
	case s.Located == ipmi.OfLog:
		return s.name
	case s.Located != "":
		return s.Located
	case s.part != "":
		return s.part
	case isGeneric(s.name):
		return sensorName("", s.Type, s.Number)
	}
	short := s.name
	if s.EventType.Discrete() {
		for _, word := range []string{"status", "state"} {
			if cut := len(short) - len(word); cut > 1 && strings.EqualFold(short[cut:], word) && strings.ContainsAny(short[cut-1:cut], " _-") {
				short = strings.TrimRight(short[:cut], " _-")
			}
		}
	}
	if short == "" {
		return s.name
	}
	return short
}

// sensorName returns the name, or what stands for it: "Processor #0x06".
func sensorName(name string, t ipmi.SensorType, number uint8) string {
	switch {
	case name != "":
		return name
	case number == 0:
		return t.String()
	default:
		return fmt.Sprintf("%s #0x%02x", t, number)
	}
}

// what returns the state that s is, for a message. sensor has the present reading,
// if there is one.
func what(s subject, sensor ipmi.Sensor) string {
	switch {
	case s.absent:
		return "absent"
	case s.Chassis != "":
		return lower(s.Chassis)
	case !s.EventType.Discrete():
		text := "at or below "
		if s.State >= 3 {
			text = "at or above "
		}
		text += limitNames[min(int(s.State), len(limitNames)-1)]
		if sensor.Reading == nil {
			return text
		}
		return strings.TrimSpace(number(*sensor.Reading)+" "+clean(sensor.Unit)) + ", " + text
	}
	if words := healthWords(s); words != "" {
		return words
	}
	if name := ipmi.StateName(s.Type, s.EventType, s.State); name != "" {
		return lower(name)
	}
	return fmt.Sprintf("state %d", s.State)
}

// healthWords are those of Redfish for the severity of a part's health.
func healthWords(s subject) string {
	const severities ipmi.EventType = 0x07
	words := map[uint8]string{1: "health Warning", 2: "health Critical"}[s.State]
	switch {
	case s.EventType != severities:
		return ""
	case s.Located == ipmi.OfLog:
		return "logged as Critical"
	case s.Path == "":
		return ""
	default:
		return words
	}
}

// lower writes the words of a name small, except abbreviations: "power supply AC
// lost".
func lower(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		if len(word) > 1 && word[1] >= 'a' && word[1] <= 'z' {
			words[i] = strings.ToLower(word)
		}
	}
	return strings.Join(words, " ")
}

func number(x float64) string {
	if math.Abs(x) < 1e9 {
		return strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

// clean makes what a BMC has written fit for a line of text: printable ASCII, of
// at most maxName bytes.
func clean(text string) string { return clip(printable(text), maxName) }

func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r >= ' ' && r <= '~':
			return r
		case r == 0:
			return -1
		case unicode.IsSpace(r):
			return ' '
		default:
			return '?'
		}
	}, text)
	return strings.TrimSpace(text)
}

// clip cuts text to at most n bytes, and marks that.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	cut := n - len("...")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}
