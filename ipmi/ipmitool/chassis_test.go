package ipmitool

import (
	"strings"
	"testing"

	"github.com/nodemend/nodemend/ipmi"
)

func TestTheChassisIsReadFromIPMItoolsWords(t *testing.T) {
	healthy := fixture(t, "on-chassis-status.txt")
	for name, test := range map[string]struct {
		text string
		want ipmi.Chassis
	}{
		"on":              {healthy, ipmi.Chassis{PowerOn: true}},
		"off":             {fixture(t, "off-chassis-status.txt"), ipmi.Chassis{}},
		"overload":        {fault(healthy, "Power Overload"), ipmi.Chassis{PowerOn: true, PowerOverload: true}},
		"main power":      {fault(healthy, "Main Power Fault"), ipmi.Chassis{PowerOn: true, MainPowerFault: true}},
		"power control":   {fault(healthy, "Power Control Fault"), ipmi.Chassis{PowerOn: true, PowerControlFault: true}},
		"drive":           {fault(healthy, "Drive Fault"), ipmi.Chassis{PowerOn: true, DriveFault: true}},
		"fans":            {fault(healthy, "Cooling/Fan Fault"), ipmi.Chassis{PowerOn: true, CoolingFault: true}},
		"intrusion":       {fault(healthy, "Chassis Intrusion"), ipmi.Chassis{PowerOn: true, Intrusion: true}},
		"nothing matters": {fault(healthy, "Front-Panel Lockout"), ipmi.Chassis{PowerOn: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseChassis(test.text)
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// fault changes a line of "chassis status" to the other value.
func fault(text, name string) string {
	var changed strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name) {
			line = strings.NewReplacer("inactive", "active", "false", "true").Replace(line)
		}
		changed.WriteString(line)
	}
	return changed.String()
}

func TestAChassisThatIsNotUnderstoodIsNotHealthy(t *testing.T) {
	healthy := fixture(t, "on-chassis-status.txt")
	for _, text := range []string{
		"",
		strings.Replace(healthy, "Drive Fault", "Laufwerk", 1),
		strings.Replace(healthy, ": on", ": maybe", 1),
	} {
		if chassis, err := parseChassis(text); err == nil {
			t.Errorf("%q is %+v", text, chassis)
		}
	}
}

func TestTheRestartCauseIsUnknownUnlessTold(t *testing.T) {
	for text, want := range map[string]ipmi.RestartCause{
		"System restart cause: watchdog expired\n":              ipmi.RestartWatchdog,
		"System restart cause: chassis power control command\n": ipmi.RestartChassisControl,
		"System restart cause: power-up via RTC wakeup\n":       ipmi.RestartRTC,
		"System restart cause: unknown\n":                       ipmi.RestartUnknown,
		"System restart cause: Unknown (0x0F)\n":                ipmi.RestartUnknown,
		"":                                                      ipmi.RestartUnknown,
	} {
		if got := parseRestartCause(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func FuzzParseChassis(f *testing.F) {
	f.Add(fixture(f, "on-chassis-status.txt"))
	f.Add("System restart cause: watchdog expired\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := parseChassis(text); err == nil && !strings.Contains(text, "Drive Fault") {
			t.Errorf("not enough for a chassis: %q", text)
		}
		if cause := parseRestartCause(text); cause > ipmi.RestartRTC {
			t.Errorf("cause %v", cause)
		}
	})
}
