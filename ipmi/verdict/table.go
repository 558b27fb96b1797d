package verdict

import (
	"fmt"
	"strings"

	"github.com/nodemend/nodemend/internal/cut"
)

// Table returns the rules as a table in Markdown, in their order. Neighbours that
// differ only in what they match share a row.
func (r Rules) Table() string {
	var text strings.Builder
	text.WriteString("| rule | what | severity | latch | why |\n|---|---|---|---|---|\n")
	for len(r) > 0 {
		alike := 1
		for alike < len(r) && r[alike].verdict() == r[0].verdict() {
			alike++
		}
		var names, what []string
		for _, rule := range r[:alike] {
			names, what = append(names, "`"+rule.Name+"`"), append(what, cell(rule.what()))
		}
		fmt.Fprintf(&text, "| %s | %s | %s |\n", strings.Join(names, "<br>"), strings.Join(what, "<br>"), r[0].verdict())
		r = r[alike:]
	}
	return text.String()
}

// what returns what a rule is for, with its rate.
func (r Rule) what() string {
	if r.Rate == nil {
		return r.Match.String()
	}
	return fmt.Sprintf("%s, %d times within %s", r.Match, r.Rate.Count, cut.Zeros(r.Rate.Per))
}

// verdict returns the cells with what a rule makes of a match.
func (r Rule) verdict() string {
	severity := string(r.Severity)
	if r.Recurs != nil {
		severity += fmt.Sprintf("; also when over, %d times within %s", r.Recurs.Count, cut.Zeros(r.Recurs.Per))
	}
	if r.WhileRedundant != "" {
		severity += fmt.Sprintf("; %s while redundant", r.WhileRedundant)
	}
	return fmt.Sprintf("%s | %s | %s", severity, r.Latch, cell(r.Why))
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
