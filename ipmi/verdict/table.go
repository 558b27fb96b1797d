package verdict

import (
	"fmt"
	"strings"
)

// Table returns the rules as a table in Markdown, in their order.
func (r Rules) Table() string {
	var text strings.Builder
	text.WriteString("| rule | what | severity | latch | why |\n|---|---|---|---|---|\n")
	for _, rule := range r {
		severity := string(rule.Severity)
		if rule.WhileRedundant != "" {
			severity += fmt.Sprintf("; %s while redundant", rule.WhileRedundant)
		}
		what := rule.Match.String()
		if rule.Rate != nil {
			what += fmt.Sprintf(", %d times within %s", rule.Rate.Count, duration(rule.Rate.Per))
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s | %s |\n", rule.Name, cell(what), severity, rule.Latch, cell(rule.Why))
	}
	return text.String()
}

// cell makes text fit for a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}

// String returns the match for people: "Memory: Uncorrectable ECC".
func (m Match) String() string {
	var sensor []string
	if m.SensorType != "" {
		sensor = append(sensor, m.SensorType)
	}
	if m.SensorName != "" {
		sensor = append(sensor, "`"+m.SensorName+"`")
	}
	where := strings.Join(sensor, " ")
	if where == "" {
		where = "any sensor"
	}
	switch {
	case m.Chassis != "":
		return "chassis: " + m.Chassis
	case m.Event != "":
		return where + ": " + m.Event
	case m.Threshold != "":
		return where + ": at or beyond " + m.Threshold
	case m.Absent:
		return where + ": absent"
	default:
		return where
	}
}
