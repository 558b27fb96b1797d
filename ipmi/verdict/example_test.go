package verdict_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

func Example() {
	var state verdict.State // of a server that was never seen
	in := verdict.Input{
		Now:     time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC),
		BootID:  "0e9b8a6e-7a66-4c0f-8a53-cd9a4b8c5f10",
		Chassis: ipmi.Chassis{PowerOn: true},
		Sensors: []ipmi.Sensor{
			{Name: "PSU1 Status", Number: 3, Type: 0x08, EventType: ipmi.SensorSpecific, Available: true, States: 0b11},
		},
		// What the source returns for Events(ctx, state.Cursor()).
		Log: ipmi.EventLog{
			Events: []ipmi.Event{{
				ID: 7, RecordType: 0x02, Time: time.Date(2026, 11, 21, 5, 48, 33, 0, time.UTC), Timestamp: 1795240113,
				SensorType: 0x0c, SensorNumber: 4, SensorName: "DIMM_A1", EventType: ipmi.SensorSpecific, Offset: 1, Asserted: true,
			}},
			Next:  ipmi.Cursor{ID: 7, Timestamp: 1795240113, Read: true},
			Total: 1,
		},
	}
	result, state := verdict.Judge(nil, state, in)
	fmt.Println(result.Status, result.Reason)
	fmt.Println(result.Message)

	saved, err := json.Marshal(state) // for the next start of the detector
	if err != nil {
		fmt.Println(err)
	}
	if err := json.Unmarshal(saved, &state); err != nil {
		fmt.Println(err)
	}
	state = state.Acknowledge(7, "module is replaced on Monday", "alice", in.Now)
	in.Log = ipmi.EventLog{Next: state.Cursor(), Total: 1}
	in.Sensors[0].States = 0b01
	result, _ = verdict.Judge(nil, state, in)
	fmt.Println(result.Status, result.Reason)
	fmt.Println(result.Message)
	// Output:
	// failed MultipleFailures
	// DIMM_A1: uncorrectable ECC (SEL 0x07, 2026-11-21T05:48Z); PSU1: failure detected
	// healthy HardwareHealthy
	// no hardware failure: 1 of 1 sensors available, 1 SEL records; acknowledged by alice: DIMM_A1: uncorrectable ECC (SEL 0x07, 2026-11-21T05:48Z)
}
