package ipmisim

import "fmt"

// Satellite is the address of the management controller that AddSatellite adds, and
// SatelliteSensor the name of its only sensor, of the type Power Supply.
const (
	Satellite       = 0x30
	SatelliteSensor = "PSU3 Status"
)

// satelliteSensor has a number that the BMC has for another sensor.
var satelliteSensor = sensor{
	name: SatelliteSensor, number: CPU0Temp, kind: 0x08, eventType: specific, entity: 10, instance: 3, healthy: 0, states: 0x7f,
}

// AddSatellite adds a management controller on the IPMB, with a sensor that the BMC has an SDR
// of. It is reached over LAN only.
func (s *Simulator) AddSatellite() {
	s.t.Helper()
	const owner = 5 // its place in the record
	record := satelliteSensor.record()
	record[owner] = Satellite
	for _, command := range []string{
		fmt.Sprintf("mc_add %#x 0 no-device-sdrs 1 2 0x14 0x9f 0x1291 0xf03", Satellite),
		fmt.Sprintf("sensor_add %#x 0 %d %#x %#x", Satellite, satelliteSensor.number, satelliteSensor.kind, satelliteSensor.eventType),
		fmt.Sprintf("sensor_set_event_support %#x 0 %d enable scanning per-state %015[3]b %015[3]b %015[3]b %015[3]b", Satellite, satelliteSensor.number, satelliteSensor.states),
		fmt.Sprintf("sensor_set_bit %#x 0 %d %d 1 0", Satellite, satelliteSensor.number, satelliteSensor.healthy),
		fmt.Sprintf("mc_enable %#x", Satellite),
		"main_sdr_add 0x20 " + hexBytes(record),
	} {
		s.must(s.console.run(command))
	}
}

// SetSatelliteBit asserts or deasserts a state of the satellite's sensor, which logs nothing.
func (s *Simulator) SetSatelliteBit(offset byte, asserted bool) {
	s.t.Helper()
	value := 0
	if asserted {
		value = 1
	}
	s.must(s.console.run(fmt.Sprintf("sensor_set_bit %#x 0 %d %d %d 0", Satellite, satelliteSensor.number, offset, value)))
}
