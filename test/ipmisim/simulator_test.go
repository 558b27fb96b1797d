//go:build integration

package ipmisim

import (
	"bytes"
	"context"
	"encoding/binary"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// run runs ipmitool over the simulator's LAN.
func run(t *testing.T, s *Simulator, command ...string) string {
	t.Helper()
	program, err := exec.LookPath("ipmitool")
	if err != nil {
		t.Skip("needs ipmitool: apt-get install ipmitool")
	}
	cmd := exec.Command(program, append(s.IPMITool(), command...)...)
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC"}
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("ipmitool %q: %v", command, err)
	}
	return string(output)
}

func TestAServerIsHealthyUntilAFaultIsMade(t *testing.T) {
	s := Start(t)
	const healthy = `CPU0 Temp        | 01h | ok  |  3.1 | 45 degrees C
FAN1             | 02h | ok  | 29.1 | 6000 RPM
FAN2             | 07h | ok  | 29.2 | 5900 RPM
PSU1 Status      | 03h | ok  | 10.1 | Presence detected
PSU2 Status      | 08h | ok  | 10.2 | Presence detected
DIMM_A1          | 04h | ok  | 32.1 | Presence Detected
Disk0            | 05h | ok  | 26.1 | Drive Present
CPU0 Status      | 06h | ok  |  3.1 | Presence detected
12V              | 09h | ok  |  7.1 | 11.97 Volts
PSU Redundancy   | 0Ah | ok  | 19.1 | Fully Redundant
`
	if got := run(t, s, "sdr", "elist"); got != healthy {
		t.Errorf("the sensors are\n%s, want\n%s", got, healthy)
	}
	if got := run(t, s, "sel", "list"); got != "" {
		t.Errorf("the SEL has %s", got)
	}
	if got := run(t, s, "sdr", "elist", "mcloc"); !strings.HasPrefix(got, Name) {
		t.Errorf("the BMC is %s", got)
	}

	s.SetSensorValue(CPU0Temp, 98)
	s.SetSensorBit(PSU1Status, 1, true)
	s.SetScanning(FAN2, false)
	broken := strings.NewReplacer(
		"ok  |  3.1 | 45", "ucr |  3.1 | 98",
		"10.1 | Presence detected", "10.1 | Presence detected, Failure detected",
		"ok  | 29.2 | 5900 RPM", "ns  | 29.2 | Disabled",
	).Replace(healthy)
	if got := run(t, s, "sdr", "elist"); got != broken {
		t.Errorf("the sensors are\n%s, want\n%s", got, broken)
	}
	if got := strings.Count(run(t, s, "sel", "list"), "Asserted"); got != 3 {
		t.Errorf("the SEL has %d events, want 3", got)
	}

	s.SetSensorValue(CPU0Temp, 45)
	s.SetSensorBit(PSU1Status, 1, false)
	s.SetScanning(FAN2, true)
	if got := run(t, s, "sdr", "elist"); got != healthy {
		t.Errorf("after the repair the sensors are\n%s, want\n%s", got, healthy)
	}
}

func TestRecordsAreLoggedAsTheyAre(t *testing.T) {
	s := Start(t)
	data := [13]byte{0, 0, 0, 0, 0x31, 0, 4, 0x07, 0xaa, 0x6f, 0xa0, 0xa1, 0xb0}
	now := time.Unix(1795240113, 0)
	s.SetSELClock(now)
	s.AddSEL(0x02, data)
	record := s.command(0x0a, 0x43, 0, 0, 0, 0, 0, 0xff)[2:]
	if !bytes.Equal(record[7:], data[4:]) {
		t.Errorf("got % x, want % x", record[7:], data[4:])
	}
	if stamp := int64(binary.LittleEndian.Uint32(record[3:])); stamp < now.Unix() || stamp > now.Unix()+60 {
		t.Errorf("its time is %d, want %d", stamp, now.Unix())
	}
	s.ClearSEL()
	if info := s.command(0x0a, 0x40); info[1] != 0 || info[2] != 0 {
		t.Errorf("after it was cleared it has % x records", info[1:3])
	}
	s.AddSEL(0xe0, data)
	if record := s.command(0x0a, 0x43, 0, 0, 0, 0, 0, 0xff)[2:]; record[0] != 2 || !bytes.Equal(record[3:], data[:]) {
		t.Errorf("got % x, want number 2, and % x", record, data)
	}
}

func TestThePowerIsSwitched(t *testing.T) {
	s := Start(t)
	power := func() byte { return s.command(0x00, 0x01)[0] & 1 }
	if power() != 1 {
		t.Error("it is off at first")
	}
	s.PowerOff()
	if power() != 0 {
		t.Error("it is on")
	}
	s.PowerOn()
	run(t, s, "chassis", "power", "off")
	if power() != 0 {
		t.Error("it is on although it was switched off over LAN")
	}
}

// machine tells what is done to it.
type machine struct{ done chan string }

func (m machine) PowerOff(context.Context) error { m.done <- "off"; return nil }
func (m machine) PowerOn(context.Context) error  { m.done <- "on"; return nil }
func (m machine) Reset(context.Context) error    { m.done <- "reset"; return nil }
func (m machine) PushPowerButton(context.Context) error {
	m.done <- "soft"
	return nil
}

// next returns what is done next.
func (m machine) next(t *testing.T) string {
	t.Helper()
	select {
	case done := <-m.done:
		return done
	case <-time.After(answerTimeout):
		t.Fatal("nothing is done to the machine")
		return ""
	}
}

func TestAMachineIsSwitchedByItsBMC(t *testing.T) {
	s := Start(t)
	m := machine{done: make(chan string, 1)}
	address := s.Attach(m)
	for command, want := range map[string]string{"off": "off", "on": "on", "reset": "reset", "soft": "soft"} {
		run(t, s, "chassis", "power", command)
		if got := m.next(t); got != want {
			t.Errorf("chassis power %s: %s", command, got)
		}
	}
	s.PowerOff()
	if got := m.next(t); got != "off" {
		t.Errorf("PowerOff: %s", got)
	}
	s.PowerOn()
	if got := m.next(t); got != "on" {
		t.Errorf("PowerOn: %s", got)
	}
	s.SwitchedItselfOff()
	if got := s.command(0x00, 0x01)[0] & 1; got != 0 || len(m.done) > 0 {
		t.Errorf("once it has switched itself off the power reads %d, and %d things were done to it", got, len(m.done))
	}

	// The machine's connection is the only one.
	connection, err := s.connect(s.ports.system)
	if err != nil || connection.RemoteAddr().String() != address {
		t.Fatalf("connecting to %s: %v", address, err)
	}
	defer func() { _ = connection.Close() }()
	inside, err := newSystemInterface(connection).sendRecv(0x06, 0x01, nil)
	if outside, outsideErr := s.SendRecv(0x06, 0x01); err != nil || outsideErr != nil || !bytes.Equal(inside, outside) || inside[0] != 0 {
		t.Errorf("Get Device ID: % x, %v inside, % x, %v outside", inside, err, outside, outsideErr)
	}
	if got, err := s.SendRecv(0x0a, 0x43, 0, 0, 0, 0, 0, 0xff); err != nil || !bytes.Equal(got, []byte{0xcb}) {
		t.Errorf("an entry of an empty SEL: % x, %v, want completion code cb", got, err)
	}
}

func TestManySimulatorsRunAtOnce(t *testing.T) {
	for range 3 {
		t.Run("one", func(t *testing.T) {
			t.Parallel()
			s := Start(t)
			s.SetSensorBit(PSU1Status, 1, true)
			if !strings.Contains(run(t, s, "sel", "list"), "Failure detected") {
				t.Error("it has another's SEL")
			}
		})
	}
}
