package verdict

import (
	"slices"
	"time"
)

const day = 24 * time.Hour

// DefaultRules returns the rules that are tried after those of people, the gravest
// first: failures are listed in this order.
func DefaultRules() Rules {
	return slices.Concat(processorRules(), criticalRules("processor", "Processor"), memoryRules(), criticalRules("memory", "Memory"), busRules(), powerRules(), climateRules(), driveRules(), otherRules())
}

// on matches a state of a type of sensors.
func on(sensorType, event string) Match { return Match{SensorType: sensorType, Event: event} }

// limit matches a limit of a type of sensors.
func limit(sensorType, threshold string) Match {
	return Match{SensorType: sensorType, Threshold: threshold}
}

func failure(name string, match Match, latch Latch, why string) Rule {
	return Rule{Name: name, Match: match, Severity: SeverityFailure, Latch: latch, Why: why}
}

func warning(name string, match Match, latch Latch, why string) Rule {
	return Rule{Name: name, Match: match, Severity: SeverityWarning, Latch: latch, Why: why}
}

// often makes a rule count only what comes that often.
func often(count int, per time.Duration, rule Rule) Rule {
	rule.Rate = &Rate{Count: count, Per: per}
	return rule
}

// criticalRules are those for a sensor of a type that calls its own state critical, which
// for such a part is over as soon as the sensor has said it, and has proved something.
func criticalRules(prefix, sensorType string) Rules {
	const worn = "so says the sensor's maker; such a part does not mend itself"
	return Rules{
		failure(prefix+"-non-recoverable", on(sensorType, "Transition to Non-recoverable"), LatchMomentary, worn),
		failure(prefix+"-non-recoverable-rising", on(sensorType, "Transition to Non-recoverable from less severe"), LatchMomentary, worn),
		failure(prefix+"-critical", on(sensorType, "Transition to Critical from less severe"), LatchMomentary, worn),
		failure(prefix+"-critical-falling", on(sensorType, "Transition to Critical from Non-recoverable"), LatchMomentary, worn),
	}
}

func processorRules() Rules {
	const (
		processor = "Processor"
		stopped   = "stopped by an internal error; its last results can't be trusted"
		untested  = "failed a test at start"
	)
	catastrophic := func(pattern string) Match {
		return Match{SensorType: processor, SensorName: pattern, Event: "State Asserted"}
	}
	return Rules{
		failure("processor-ierr", on(processor, "IERR"), LatchMomentary, stopped),
		failure("processor-caterr", catastrophic("*CATERR*"), LatchMomentary, stopped+"; some BMCs have this sensor"),
		failure("processor-ierr-signal", catastrophic("*IERR*"), LatchMomentary, stopped+"; some BMCs have this sensor"),
		failure("processor-machine-check", on(processor, "Uncorrectable machine check exception"), LatchMomentary, "lost data: in the processor, a cache or on a link"),
		failure("processor-uncorrectable", on(processor, "SM BIOS Uncorrectable CPU-complex Error"), LatchMomentary, "lost data: in the processor, a cache or on a link"),
		failure("processor-thermal-trip", on(processor, "Thermal Trip"), LatchMomentary, "turned itself off: its cooling has failed"),
		failure("processor-frb1", on(processor, "FRB1/BIST failure"), LatchMomentary, untested),
		failure("processor-frb2", on(processor, "FRB2/Hang in POST failure"), LatchMomentary, untested),
		failure("processor-frb3", on(processor, "FRB3/Processor startup/init failure"), LatchMomentary, untested),
		failure("processor-disabled", on(processor, "Disabled"), LatchPresent, "the BIOS does not use it; its cores, memory and slots are gone"),
		warning("processor-configuration", on(processor, "Configuration Error"), LatchPresent, "the rest works: an unusable processor is reported as disabled"),
		often(10, day, warning("processor-correctable", on(processor, "Correctable machine check error"), LatchMomentary, "lost nothing; there is no agreed rate at which a processor is worn out")),
		warning("processor-throttled", on(processor, "Throttled"), LatchPresent, "slow, not wrong; bad cooling shows in a temperature or a fan"),
	}
}

func memoryRules() Rules {
	const memory = "Memory"
	return Rules{
		failure("memory-uncorrectable-ecc", on(memory, "Uncorrectable ECC"), LatchMomentary, "lost data, and will lose more"),
		failure("memory-parity", on(memory, "Parity"), LatchMomentary, "lost data"),
		failure("memory-scrub-failed", on(memory, "Memory Scrub Failed"), LatchMomentary, "the patrol scrubber found an uncorrectable error before a program did"),
		failure("memory-device-disabled", on(memory, "Memory Device Disabled"), LatchPresent, "the BIOS does not use it after errors; its capacity is gone"),
		failure("memory-ecc-limit", on(memory, "Correctable ECC logging limit reached"), LatchMomentary, "too many errors for the BIOS to log: an uncorrectable one will come without warning"),
		failure("memory-predictive", on(memory, "Predictive Failure Asserted"), LatchMomentary, "too many errors, by the board's own count: an uncorrectable one comes next"),
		often(10, day, failure("memory-correctable-ecc", on(memory, "Correctable ECC"), LatchMomentary, "single errors are cosmic rays, a series is a defect; the rate is mcelog's")),
		failure("memory-overtemperature", on(memory, "Critical Overtemperature"), LatchPresent, "outside its specification"),
		warning("memory-configuration", on(memory, "Configuration Error"), LatchPresent, "the rest works: an unusable module is reported as disabled or absent"),
		warning("memory-throttled", on(memory, "Throttled"), LatchPresent, "slow, not wrong"),
		warning("memory-logging-disabled", on("Event Logging Disabled", "Correctable memory error logging disabled"), LatchMomentary, "correctable errors are no longer seen; a module with too many has its own record"),
	}
}

func busRules() Rules {
	const (
		interrupt = "Critical Interrupt"
		lost      = "a device, its slot or the board lost or garbled data"
	)
	return Rules{
		failure("bus-fatal", on(interrupt, "Bus Fatal Error"), LatchMomentary, "a PCIe link or device failed beyond recovery"),
		failure("bus-uncorrectable", on(interrupt, "Bus Uncorrectable error"), LatchMomentary, lost),
		failure("bus-fatal-nmi", on(interrupt, "Fatal NMI"), LatchMomentary, "the hardware stopped the system"),
		failure("bus-pci-serr", on(interrupt, "PCI SERR"), LatchMomentary, lost),
		failure("bus-pci-perr", on(interrupt, "PCI PERR"), LatchMomentary, lost),
		failure("bus-io-check", on(interrupt, "I/O Channel check NMI"), LatchMomentary, lost),
		failure("chipset-thermal-trip", on("Chip Set", "Thermal Trip"), LatchMomentary, "turned the system off: its cooling has failed"),
		failure("chipset-power-control", on("Chip Set", "Soft Power Control Failure"), LatchMomentary, "did not obey a command to turn power on or off"),
		warning("system-failure", on("System Event", "Undetermined system hardware failure"), LatchMomentary, "the board does not say which part: there is none to exchange. A grave one has another record, too"),
		warning("bus-timeout", on(interrupt, "Bus Timeout"), LatchMomentary, "drivers cause it, too; nothing is lost if the device is asked again"),
		warning("bus-nmi", on(interrupt, "NMI/Diag Interrupt"), LatchMomentary, "people press this button to get a crash dump"),
		warning("bus-software-nmi", on(interrupt, "Software NMI"), LatchMomentary, "programs send it"),
		warning("bus-degraded", on(interrupt, "Bus Degraded"), LatchMomentary, "a link has less width or speed: slow, not wrong"),
		often(10, time.Hour, warning("bus-correctable", on(interrupt, "Bus Correctable error"), LatchMomentary, "lost nothing; many cards log a few")),
		warning("firmware-error", on("System Firmwares", "Unknown Error"), LatchMomentary, "the self-test found a fault, from a dead battery to a missing keyboard; grave ones have another record, too"),
	}
}

func powerRules() Rules {
	const (
		supply = "Power Supply"
		unit   = "Power Unit"

		battery = "the battery of the clock: the server works without"
		input   = "a cord, breaker or feed: work on it must not empty a rack, and the server runs on another supply"
	)
	return Rules{
		failure("power-supply-failed", on(supply, "Failure detected"), LatchPresent, "broken: replace it before the next one fails. Where that may wait, use whileRedundant"),
		failure("power-unit-failed", on(unit, "Failure detected"), LatchPresent, "broken"),
		failure("power-unit-control", on(unit, "Soft-power control failure"), LatchPresent, "did not obey a command to turn on or off"),
		failure("power-unit-240va", on(unit, "240VA power down"), LatchMomentary, "overcurrent on a rail: something is shorted"),
		failure("redundancy-insufficient", Match{Event: "Non-Redundant: Insufficient Resources"}, LatchPresent, "too few power supplies or fans are left for the load"),
		warning(inputVoltage, Match{SensorType: "Voltage", SensorName: "*Input*"}, LatchPresent, "what the feed gives to a supply"),
		warning(inputVoltageVIN, Match{SensorType: "Voltage", SensorName: "PS*VIN*"}, LatchPresent, "what the feed gives to a supply"),
		warning("voltage-battery", Match{SensorType: "Voltage", SensorName: "*BAT*"}, LatchPresent, battery),
		warning("voltage-battery-cmos", Match{SensorType: "Voltage", SensorName: "*CMOS*"}, LatchPresent, battery),
		warning("voltage-battery-rtc", Match{SensorType: "Voltage", SensorName: "*RTC*"}, LatchPresent, battery),
		failure("voltage-non-recoverable", limit("Voltage", "non-recoverable"), LatchPresent, "beyond what the board stands"),
		failure("voltage-critical", limit("Voltage", "critical"), LatchPresent, "outside its specification: a regulator or a power supply fails"),
		failure("voltage-limit", on("Voltage", "Limit Exceeded"), LatchPresent, "the same, from sensors without a reading"),
		warning("power-supply-input-lost", on(supply, "Power Supply AC lost"), LatchPresent, input),
		warning("power-supply-input-lost-or-range", on(supply, "AC lost or out-of-range"), LatchPresent, input),
		warning("power-supply-predictive", on(supply, "Predictive failure"), LatchPresent, "works; most servers allow replacing it under power. Its end has its own rule"),
		warning("power-supply-range", on(supply, "AC out-of-range, but present"), LatchPresent, "works"),
		warning("power-supply-configuration", on(supply, "Config Error"), LatchPresent, "works; differs from the others, as after a wrong replacement"),
		warning("power-unit-predictive", on(unit, "Predictive failure"), LatchPresent, "works"),
		warning("redundancy-lost", Match{Event: "Redundancy Lost"}, LatchPresent, "the lost power supply or fan has its own rule; servers with one power supply always report this"),
		warning("redundancy-gone", Match{Event: "Non-Redundant: Sufficient from Redundant"}, LatchPresent, "as redundancy-lost"),
		warning("redundancy-degraded", Match{Event: "Redundancy Degraded"}, LatchPresent, "as redundancy-lost; some is left"),
		warning("redundancy-degraded-from-full", Match{Event: "Redundancy Degraded from Fully Redundant"}, LatchPresent, "as redundancy-lost; some is left"),
	}
}

func climateRules() Rules {
	const (
		temperature = "Temperature"
		hot         = "parts are outside their specification, and soon turn off"
	)
	return slices.Concat(
		Rules{
			failure("temperature-non-recoverable", limit(temperature, "upper non-recoverable"), LatchPresent, hot),
			failure("temperature-critical", limit(temperature, "upper critical"), LatchPresent, hot),
			failure("temperature-limit", on(temperature, "Limit Exceeded"), LatchPresent, "the same, from sensors without a reading"),
		},
		coolerRules("fan", "Fan"),
		coolerRules("cooling", "Cooling Device"),
	)
}

func coolerRules(prefix, sensorType string) Rules {
	const still = "stands still or turns too slowly; the others make up for it only for a while"
	// One that stops again and again between two looks is worn out.
	again := func(match Match, why string) Rule {
		rule := failure("", match, LatchPresent, why)
		rule.Recurs = &Rate{Count: 10, Per: day}
		return rule
	}
	rules := Rules{
		again(limit(sensorType, "lower non-recoverable"), still),
		again(limit(sensorType, "lower critical"), still),
		again(on(sensorType, "Limit Exceeded"), "the same, from sensors without a reading"),
		again(on(sensorType, "Performance Lags"), "the same, from sensors without a reading"),
	}
	for i, name := range []string{"non-recoverable", "critical", "limit", "lags"} {
		rules[i].Name = prefix + "-" + name
	}
	return rules
}

func driveRules() Rules {
	const drive = "Drive Slot / Bay"
	return Rules{
		failure("drive-array-failed", on(drive, "In Failed Array"), LatchPresent, "data on the array is lost"),
		failure("drive-fault", on(drive, "Drive Fault"), LatchPresent, "broken"),
		failure("drive-predictive", on(drive, "Predictive Failure"), LatchPresent, "data of pods is lost unless it is moved before"),
		failure("drive-predictive-state", on(drive, "Predictive Failure Asserted"), LatchPresent, "data of pods is lost unless it is moved before"),
		warning("drive-array-critical", on(drive, "In Critical Array"), LatchPresent, "works without redundancy; the lost drive has its own rule"),
		warning("drive-rebuild-aborted", on(drive, "Rebuild Aborted"), LatchPresent, "works without redundancy"),
	}
}

func otherRules() Rules {
	const (
		watchdog   = "Watchdog2"
		management = "Management Subsys Health"
		hung       = "a server that hangs again and again can't be trusted; once may be anything"
		unseen     = "the server works, but less of it is seen"
		alone      = "a flag does not tell the part, some BMCs never clear it, and a failed part has a sensor or a record"
	)
	return Rules{
		failure("slot-fault", on("Slot / Connector", "Fault Status"), LatchPresent, "its card can't be used"),
		failure("cable-error", on("Cable / Interconnect", "Config Error"), LatchPresent, "devices behind it can't be reached, or are on the wrong cable"),
		failure("severity-non-recoverable", Match{Event: "Transition to Non-recoverable"}, LatchPresent, "so says the sensor's maker"),
		failure("severity-non-recoverable-rising", Match{Event: "Transition to Non-recoverable from less severe"}, LatchPresent, "so says the sensor's maker"),
		failure("severity-critical", Match{Event: "Transition to Critical from less severe"}, LatchPresent, "so says the sensor's maker"),
		failure("severity-critical-falling", Match{Event: "Transition to Critical from Non-recoverable"}, LatchPresent, "so says the sensor's maker"),
		often(3, day, failure("watchdog-reset", on(watchdog, "Hard reset"), LatchMomentary, hung)),
		often(3, day, failure("watchdog-power-cycle", on(watchdog, "Power cycle"), LatchMomentary, hung)),
		often(3, day, failure("watchdog-power-down", on(watchdog, "Power down"), LatchMomentary, hung)),
		failure("component-absent", Match{Absent: true}, LatchPresent, "was there before: pulled, fallen out or dead"),
		warning("severity-non-critical", Match{Event: "Transition to Non-critical from OK"}, LatchPresent, "so says the sensor's maker"),
		warning("severity-non-critical-falling", Match{Event: "Transition to Non-critical from more severe"}, LatchPresent, "so says the sensor's maker"),
		warning("predictive-failure", Match{Event: "Predictive Failure Asserted"}, LatchPresent, "works"),
		warning("limit-non-recoverable", Match{Threshold: "non-recoverable"}, LatchPresent, "all other sensors: power, current, flow, cold; too many kinds to stop a server for"),
		warning("limit-critical", Match{Threshold: "critical"}, LatchPresent, "as limit-non-recoverable"),
		warning("limit-non-critical", Match{Threshold: "non-critical"}, LatchPresent, "within its specification; worth a look"),
		warning("battery-failed", on("Battery", "Failed"), LatchPresent, "the server works without: it serves the clock or a write cache"),
		warning("battery-low", on("Battery", "Low"), LatchPresent, "as battery-failed"),
		warning("fru-communication-lost", on("FRU State", "Communication lost"), LatchPresent, unseen),
		warning("hardware-incompatible", on("Version Change", "Hardware incompatibility detected"), LatchMomentary, "works; as after a wrong replacement"),
		warning("firmware-incompatible", on("Version Change", "Firmware or software incompatibility detected"), LatchMomentary, "works; as after an update"),
		warning("management-sensor-access", on(management, "Sensor access degraded or unavailable"), LatchPresent, unseen),
		warning("management-controller-access", on(management, "Controller access degraded or unavailable"), LatchPresent, unseen),
		warning("management-controller-offline", on(management, "Management controller off-line"), LatchPresent, unseen),
		warning("management-controller-unavailable", on(management, "Management controller unavailable"), LatchPresent, unseen),
		warning("management-sensor-failure", on(management, "Sensor failure"), LatchPresent, unseen),
		warning("management-fru-failure", on(management, "FRU failure"), LatchPresent, unseen),
		warning("log-full", on("Event Logging Disabled", "Log full"), LatchPresent, "the next error may not be recorded: clear the SEL"),
		warning("chassis-main-power", Match{Chassis: flagMainPowerFault}, LatchPresent, alone),
		warning("chassis-power-control", Match{Chassis: flagPowerControlFault}, LatchPresent, alone),
		warning("chassis-power-overload", Match{Chassis: flagPowerOverload}, LatchPresent, alone),
		warning("chassis-cooling", Match{Chassis: flagCoolingFault}, LatchPresent, alone),
		warning("chassis-drive", Match{Chassis: flagDriveFault}, LatchPresent, alone),
		warning("chassis-intrusion", Match{Chassis: flagIntrusion}, LatchPresent, "the lid was opened, which is no fault"),
	}
}
