package verdict_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/ipmi/verdict"
)

func TestAMessageIsReadAsItWasMeant(t *testing.T) {
	for message, want := range map[string][]verdict.Said{
		"no hardware failure: 7 of 7 sensors available, 1 SEL records": nil,
		"": nil,
		"DIMM_A1: uncorrectable ECC (SEL 0x02, 2026-11-21T05:48Z); PSU1: failure detected": {
			{Component: "DIMM_A1", What: "uncorrectable ECC", Source: "SEL 0x02"}, {Component: "PSU1", What: "failure detected"},
		},
		"CPU0 Temp: 98.46 degrees C, at or above upper critical": {{Component: "CPU0 Temp", What: "at or above upper critical"}},
		"FAN1: 0 RPM, at or below lower non-recoverable (SEL 0x06)": {
			{Component: "FAN1", What: "at or below lower non-recoverable", Source: "SEL 0x06"},
		},
		"one of P1-DIMMA1, P1-DIMMD1: correctable ECC, 10 times within 24h (SEL 0x0a)": {
			{Component: "one of P1-DIMMA1, P1-DIMMD1", What: "correctable ECC, 10 times within 24h", Source: "SEL 0x0a"},
		},
		"PSU1: failure detected; the SEL can't be read: no answer from the BMC; warning: PSU2: predictive failure; acknowledged by alice: FAN1: absent; and 3 more": {
			{Component: "PSU1", What: "failure detected"}, {Component: "PSU2", What: "predictive failure", Aside: true}, {Component: "FAN1", What: "absent", Aside: true},
		},
		"the BMC can't be read: no answer from the BMC; known before: PSU1: failure detected": {{Component: "PSU1", What: "failure detected"}},
		"no hardware failure: 7 of 7 sensors available, 9 SEL records; in the log from before the first look: DIMM_A1: parity (SEL 0x02, 2023-11-21T05:48Z)": {
			{Component: "DIMM_A1", What: "parity", Source: "SEL 0x02", Aside: true},
		},
		"power supply 2 has failed": nil, // of somebody else
	} {
		if diff := cmp.Diff(want, verdict.ReadMessage(message)); diff != "" {
			t.Errorf("%q: -want +got:\n%s", message, diff)
		}
	}
}
