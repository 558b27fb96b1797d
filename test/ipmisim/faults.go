package ipmisim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// SetSensorValue gives an analog sensor a raw value. The limits that it reaches or
// leaves are logged in the SEL.
func (s *Simulator) SetSensorValue(number, raw byte) {
	s.t.Helper()
	s.must(s.console.run(fmt.Sprintf("sensor_set_value 0x20 0 %d %d 1", number, raw)))
}

// SetSensorBit asserts or deasserts a state of a discrete sensor, and logs the
// change in the SEL.
func (s *Simulator) SetSensorBit(number, offset byte, asserted bool) {
	s.t.Helper()
	value := 0
	if asserted {
		value = 1
	}
	s.must(s.console.run(fmt.Sprintf("sensor_set_bit 0x20 0 %d %d %d 1", number, offset, value)))
}

// SetScanning makes the BMC scan a sensor, or not: then it has no reading and logs
// nothing.
func (s *Simulator) SetScanning(number byte, enabled bool) {
	s.t.Helper()
	for _, sensor := range sensors() {
		if sensor.number == number {
			s.must(s.console.run(sensor.scanning(enabled)))
			return
		}
	}
	s.t.Fatalf("the simulator has no sensor %#02x", number)
}

// AddSEL adds a record to the SEL: bytes 4 to 16 of it (IPMI 2.0, section 32). The
// first four are a time stamp that the BMC replaces, unless the type is from 0xe0 on.
func (s *Simulator) AddSEL(recordType byte, data [13]byte) {
	s.t.Helper()
	s.must(s.console.run(fmt.Sprintf("sel_add 0x20 %#02x % #x", recordType, data)))
}

// AddEvent adds a system event. The generator is 0x20 for the BMC; of another one, such
// as the BIOS (0x31), no SDR names the sensor. Bit 7 of the event type is set for a
// deassertion.
func (s *Simulator) AddEvent(generator, sensorType, number, eventType byte, eventData [3]byte) {
	s.t.Helper()
	const systemEvent, revision = 0x02, 0x04
	s.AddSEL(systemEvent, [13]byte{
		0, 0, 0, 0, generator, 0, revision, sensorType, number, eventType, eventData[0], eventData[1], eventData[2],
	})
}

// ClearSEL removes all records. IDs go on from where they were.
func (s *Simulator) ClearSEL() {
	s.t.Helper()
	const storage, reserve, clearSEL, initiate = 0x0a, 0x42, 0x47, 0xaa
	reservation := s.command(storage, reserve)
	s.command(storage, clearSEL, reservation[0], reservation[1], 'C', 'L', 'R', initiate)
}

// SetSELClock sets the clock of the SEL, in seconds.
func (s *Simulator) SetSELClock(now time.Time) {
	s.t.Helper()
	const storage, setSELTime = 0x0a, 0x49
	s.command(storage, setSELTime, binary.LittleEndian.AppendUint32(nil, uint32(now.Unix()))...)
}

// PowerOff switches the server off.
func (s *Simulator) PowerOff() {
	s.t.Helper()
	s.write("power", "0\n")
	if s.machine != nil {
		s.must(s.machine.PowerOff(s.t.Context()))
	}
}

// PowerOn switches the server on.
func (s *Simulator) PowerOn() {
	s.t.Helper()
	s.write("power", "1\n")
	if s.machine != nil {
		s.must(s.machine.PowerOn(s.t.Context()))
	}
}

// SwitchedItselfOff is told by the machine that is attached, whose operating system has shut down. It is
// safe for concurrent use.
func (s *Simulator) SwitchedItselfOff() {
	next := s.path("power.next") // the BMC may be reading
	if err := errors.Join(os.WriteFile(next, []byte("0\n"), 0o600), os.Rename(next, s.path("power"))); err != nil {
		s.t.Errorf("the BMC simulator: %v", err)
	}
}

// Shutdowns returns how often the operating system was asked to shut down. Only that of a machine that
// is attached may heed it.
func (s *Simulator) Shutdowns() int {
	s.t.Helper()
	text, err := os.ReadFile(s.path("shutdown"))
	if !os.IsNotExist(err) {
		s.must(err)
	}
	return strings.Count(string(text), "asked")
}

// Identify returns for how many seconds the light was last told to shine, and 1 if for ever.
func (s *Simulator) Identify() string {
	s.t.Helper()
	text, err := os.ReadFile(s.path("identify"))
	s.must(err)
	return strings.TrimSpace(string(text))
}

// Freeze makes the BMC answer nothing until Thaw.
func (s *Simulator) Freeze() { s.t.Helper(); s.must(s.process.Signal(syscall.SIGSTOP)) }

// Thaw ends a Freeze.
func (s *Simulator) Thaw() { s.t.Helper(); s.must(s.process.Signal(syscall.SIGCONT)) }

// Restart has the BMC of an attached machine restart, also a frozen one: its sessions are lost, and the
// machine goes on.
func (s *Simulator) Restart() {
	s.t.Helper()
	_ = s.console.connection.Close() // it is the old one's
	s.process.Kill()                 // with what switches the power, which has its ports, too
	s.must(s.ports.free(s.t.Context()))
	s.must(s.launch())
	s.must(s.attend())
}

// SendRecv sends a command to the BMC as /dev/ipmi0 does, and returns the response
// from its completion code on. It is safe for concurrent use.
func (s *Simulator) SendRecv(netFn, cmd byte, data ...byte) ([]byte, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.system == nil {
		return s.sendOverLAN(netFn, cmd, data)
	}
	return s.system.sendRecv(netFn, cmd, data)
}

// command returns the response after its completion code, which is success.
func (s *Simulator) command(netFn, cmd byte, data ...byte) []byte {
	s.t.Helper()
	response, err := s.SendRecv(netFn, cmd, data...)
	if err == nil && response[0] != 0 {
		err = fmt.Errorf("command %#02x/%#02x has completion code %#02x", netFn, cmd, response[0])
	}
	s.must(err)
	return response[1:]
}
