package ipmitool

import (
	"errors"

	"github.com/nodemend/nodemend/ipmi"
)

// parseChassis reads the output of "chassis status".
func parseChassis(text string) (ipmi.Chassis, error) {
	f := parseFields(text)
	var chassis ipmi.Chassis
	var mistakes []error
	flag := func(name, yes, no string) bool {
		value, err := f.flag(name, yes, no)
		mistakes = append(mistakes, err)
		return value
	}
	chassis.PowerOn = flag("System Power", "on", "off")
	chassis.PowerOverload = flag("Power Overload", "true", "false")
	chassis.MainPowerFault = flag("Main Power Fault", "true", "false")
	chassis.PowerControlFault = flag("Power Control Fault", "true", "false")
	chassis.Intrusion = flag("Chassis Intrusion", "active", "inactive")
	chassis.DriveFault = flag("Drive Fault", "true", "false")
	chassis.CoolingFault = flag("Cooling/Fan Fault", "true", "false")
	if err := errors.Join(mistakes...); err != nil {
		return ipmi.Chassis{}, err
	}
	return chassis, nil
}

// parseRestartCause reads the output of "chassis restart_cause". A cause that the
// standard does not have is unknown.
func parseRestartCause(text string) ipmi.RestartCause {
	word := parseFields(text)["System restart cause"]
	for cause := ipmi.RestartUnknown; cause <= ipmi.RestartRTC; cause++ {
		if cause.String() == word {
			return cause
		}
	}
	return ipmi.RestartUnknown
}
