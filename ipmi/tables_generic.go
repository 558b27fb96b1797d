package ipmi

// genericStates are the states of the generic event/reading types (IPMI 2.0,
// table 42-2).
var genericStates = map[EventType]stateTable{
	Threshold: {
		"Lower Non-critical going low",
		"Lower Non-critical going high",
		"Lower Critical going low",
		"Lower Critical going high",
		"Lower Non-recoverable going low",
		"Lower Non-recoverable going high",
		"Upper Non-critical going low",
		"Upper Non-critical going high",
		"Upper Critical going low",
		"Upper Critical going high",
		"Upper Non-recoverable going low",
		"Upper Non-recoverable going high",
	},
	0x02: {"Transition to Idle", "Transition to Active", "Transition to Busy"},
	0x03: {"State Deasserted", "State Asserted"},
	0x04: {"Predictive Failure Deasserted", "Predictive Failure Asserted"},
	0x05: {"Limit Not Exceeded", "Limit Exceeded"},
	0x06: {"Performance Met", "Performance Lags"},
	0x07: {
		"Transition to OK",
		"Transition to Non-critical from OK",
		"Transition to Critical from less severe",
		"Transition to Non-recoverable from less severe",
		"Transition to Non-critical from more severe",
		"Transition to Critical from Non-recoverable",
		"Transition to Non-recoverable",
		"Monitor",
		"Informational",
	},
	0x08: {"Device Absent", "Device Present"},
	0x09: {"Device Disabled", "Device Enabled"},
	0x0a: {
		"Transition to Running",
		"Transition to In Test",
		"Transition to Power Off",
		"Transition to On Line",
		"Transition to Off Line",
		"Transition to Off Duty",
		"Transition to Degraded",
		"Transition to Power Save",
		"Install Error",
	},
	0x0b: {
		"Fully Redundant",
		"Redundancy Lost",
		"Redundancy Degraded",
		"Non-Redundant: Sufficient from Redundant",
		"Non-Redundant: Sufficient from Insufficient",
		"Non-Redundant: Insufficient Resources",
		"Redundancy Degraded from Fully Redundant",
		"Redundancy Degraded from Non-Redundant",
	},
	0x0c: {"D0 Power State", "D1 Power State", "D2 Power State", "D3 Power State"},
}

// limits are the states of a threshold sensor (section 35.14).
var limits = stateTable{
	"Lower Non-critical",
	"Lower Critical",
	"Lower Non-recoverable",
	"Upper Non-critical",
	"Upper Critical",
	"Upper Non-recoverable",
}

// restartCauses are those of table 28-11; ipmitool has words for the first ten.
var restartCauses = stateTable{
	"unknown",
	"chassis power control command",
	"reset via pushbutton",
	"power-up via pushbutton",
	"watchdog expired",
	"OEM",
	"power-up due to always-restore power policy",
	"power-up due to restore-previous power policy",
	"reset via PEF",
	"power-cycle via PEF",
	"soft reset",
	"power-up via RTC wakeup",
}
