package ipmi_test

import (
	"strings"
	"testing"

	"github.com/nodemend/nodemend/ipmi"
)

func TestLimitsThatMakeNoSenseAreNotBelieved(t *testing.T) {
	const (
		temperature, voltage, fan ipmi.SensorType = 0x01, 0x02, 0x04

		lnc, lcr, lnr = ipmi.LowerNonCritical, ipmi.LowerCritical, ipmi.LowerNonRecoverable
		unc, ucr, unr = ipmi.UpperNonCritical, ipmi.UpperCritical, ipmi.UpperNonRecoverable

		none = -1000.0 // can't be read
	)
	for _, test := range []struct {
		name         string
		kind         ipmi.SensorType
		limits       [6]float64
		states, want uint16
	}{
		{"good limits", temperature, [6]float64{10, 5, 2, 85, 95, 105}, unc | ucr, unc | ucr},
		{"good limits of a fan", fan, [6]float64{600, 400, 200, none, none, none}, lnc | lcr | lnr, lnc | lcr | lnr},
		{"none can be read", fan, [6]float64{none, none, none, none, none, none}, lcr, lcr},
		{"all are zero, and any reading is beyond", temperature, [6]float64{0, 0, 0, 0, 0, 0}, unc | ucr | unr, 0},
		{"all are the lowest that there is", voltage, [6]float64{-128, -128, -128, -128, -128, -128}, unc | ucr | unr, 0},
		{"an upper one of zero", temperature, [6]float64{none, none, none, none, 0, none}, ucr, 0},
		{"an upper one of zero beside a good one", temperature, [6]float64{none, none, none, 85, 0, none}, unc | ucr, unc},
		{"a fan that stands still in an empty bay, without a limit", fan, [6]float64{0, 0, none, none, none, none}, lnc | lcr, 0},
		{"a lower one of zero beside a good one", fan, [6]float64{600, 400, 0, none, none, none}, lnc | lcr | lnr, lnc | lcr},
		{"frost", temperature, [6]float64{5, 0, none, 85, 95, none}, lnc | lcr, lnc | lcr},
		{"lower and upper are swapped", voltage, [6]float64{none, 13.2, none, none, 10.8, none}, lcr | ucr, 0},
		{"an upper one below a lower one", voltage, [6]float64{11, 10, none, none, 5, none}, ucr, 0},
		{"critical and non-critical are swapped, one is passed", temperature, [6]float64{none, none, none, 95, 85, none}, ucr, 0},
		{"critical and non-critical are swapped, both are passed", temperature, [6]float64{none, none, none, 95, 85, none}, unc | ucr, unc | ucr},
		{"critical and non-critical are the same", temperature, [6]float64{5, 5, none, 95, 95, none}, unc | ucr, unc | ucr},
		{"critical and non-recoverable are the same, and no other", temperature, [6]float64{none, none, none, none, 95, 95}, ucr | unr, ucr | unr},
		{"a negative rail", voltage, [6]float64{-13, -14, none, -11, -10, none}, unc | ucr, unc | ucr},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := ipmi.Sensor{Name: "S", Type: test.kind, EventType: ipmi.Threshold, Available: true, States: test.states}
			var limits ipmi.Limits
			for i, value := range test.limits {
				if value != none {
					limits[i] = &value
				}
			}
			s.Believe(limits)
			if s.States != test.want {
				t.Errorf("states %06b, want %06b", s.States, test.want)
			}
			if said := strings.Contains(s.Problem, "make no sense"); said != (test.states != test.want) {
				t.Errorf("the problem is %q", s.Problem)
			}
		})
	}
}
