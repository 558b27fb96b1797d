//go:build integration

package ipmitool_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/ipmi/ipmitool"
	"github.com/nodemend/nodemend/test/ipmisim"
)

// options are those for a simulator.
func options(bmc *ipmisim.Simulator) ipmitool.Options {
	host, port := bmc.LAN()
	return ipmitool.Options{Host: host, Port: port, User: ipmisim.User, PasswordFile: bmc.PasswordFile()}
}

func open(t *testing.T, o ipmitool.Options) *device.Device {
	t.Helper()
	s, err := ipmitool.New(o)
	if errors.Is(err, ipmitool.ErrNoProgram) {
		t.Skip("needs ipmitool: apt-get install ipmitool")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// states returns the names of what is asserted of each sensor, and "-" of one that is
// not available.
func states(t *testing.T, s ipmi.Source) map[string]string {
	t.Helper()
	sensors, err := s.Sensors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, sensor := range sensors {
		all[sensor.Name] = strings.Join(sensor.StateNames(), ", ")
		if !sensor.Available {
			all[sensor.Name] = "-"
		}
	}
	return all
}

func events(t *testing.T, s ipmi.Source, after ipmi.Cursor) ipmi.EventLog {
	t.Helper()
	log, err := s.Events(t.Context(), after)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// words returns events as people read them.
func words(log ipmi.EventLog) []string {
	var all []string
	for _, e := range log.Events {
		direction := "Asserted"
		if !e.Asserted {
			direction = "Deasserted"
		}
		all = append(all, strings.Join([]string{e.SensorType.String(), e.SensorName, e.StateName(), direction}, " | "))
	}
	return all
}

func TestAHealthyServer(t *testing.T) {
	s := open(t, options(ipmisim.Start(t)))
	id, err := s.DeviceID(t.Context())
	if want := (ipmi.DeviceID{Name: ipmisim.Name, Firmware: "2.14", IPMIVersion: "2.0", Manufacturer: 0x1291, Product: 0xf02}); err != nil || id != want {
		t.Errorf("the BMC is %+v, %v, want %+v", id, err, want)
	}
	chassis, err := s.Chassis(t.Context())
	if err != nil || chassis != (ipmi.Chassis{PowerOn: true}) {
		t.Errorf("the chassis is %+v, %v", chassis, err)
	}
	sensors, err := s.Sensors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	readings := map[string]float64{"CPU0 Temp": 45, "FAN1": 6000, "FAN2": 5900, "12V": 11.97}
	for _, sensor := range sensors {
		want, analog := readings[sensor.Name]
		if analog != (sensor.Reading != nil) || analog && *sensor.Reading != want {
			t.Errorf("%s reads %v, want %v", sensor.Name, sensor.Reading, want)
		}
		if !sensor.Available || analog != (sensor.EventType == ipmi.Threshold) || analog && sensor.States != 0 {
			t.Errorf("%+v", sensor)
		}
	}
	if len(sensors) != 10 {
		t.Errorf("there are %d sensors, want 10", len(sensors))
	}
	log := events(t, s, ipmi.Cursor{})
	if len(log.Events) != 0 || log.Next.Read || log.Full || log.Restarted {
		t.Errorf("the SEL is %+v", log)
	}
}

func TestEachFaultIsSeenAndItsRepair(t *testing.T) {
	bmc := ipmisim.Start(t)
	s := open(t, options(bmc))
	healthy := states(t, s)
	cursor := ipmi.Cursor{}
	bit := func(number, offset byte) func(bool) {
		return func(on bool) { bmc.SetSensorBit(number, offset, on) }
	}
	value := func(number, broken, whole byte) func(bool) {
		return func(on bool) {
			if on {
				bmc.SetSensorValue(number, broken)
			} else {
				bmc.SetSensorValue(number, whole)
			}
		}
	}
	for _, test := range []struct {
		name   string
		set    func(bool)
		sensor string
		states string
		event  string // the last one, while there is the fault
		events int    // of the fault alone
	}{
		{"PSU fails", bit(ipmisim.PSU1Status, 1), "PSU1 Status", "Presence detected, Failure detected", "Power Supply | PSU1 Status | Failure detected", 1},
		{"PSU has no input", bit(ipmisim.PSU2Status, 3), "PSU2 Status", "Presence detected, Power Supply AC lost", "Power Supply | PSU2 Status | Power Supply AC lost", 1},
		{"PSU has a bad input", bit(ipmisim.PSU2Status, 5), "PSU2 Status", "Presence detected, AC out-of-range, but present", "Power Supply | PSU2 Status | AC out-of-range, but present", 1},
		{"uncorrectable ECC", bit(ipmisim.DIMMA1, 1), "DIMM_A1", "Uncorrectable ECC, Presence Detected", "Memory | DIMM_A1 | Uncorrectable ECC", 1},
		{"drive fault", bit(ipmisim.Disk0, 1), "Disk0", "Drive Present, Drive Fault", "Drive Slot / Bay | Disk0 | Drive Fault", 1},
		{"IERR", bit(ipmisim.CPU0Status, 0), "CPU0 Status", "IERR, Presence detected", "Processor | CPU0 Status | IERR", 1},
		{"redundancy lost", bit(ipmisim.PSURedundancy, 1), "PSU Redundancy", "Fully Redundant, Redundancy Lost", "Power Unit | PSU Redundancy | Redundancy Lost", 1},
		{"too hot", value(ipmisim.CPU0Temp, 98, 45), "CPU0 Temp", "Upper Non-critical, Upper Critical", "Temperature | CPU0 Temp | Upper Critical going high", 2},
		{"too cold", value(ipmisim.CPU0Temp, 1, 45), "CPU0 Temp", "Lower Non-critical, Lower Critical, Lower Non-recoverable", "Temperature | CPU0 Temp | Lower Non-recoverable going low", 3},
		{"fan stops", value(ipmisim.FAN1, 0, 120), "FAN1", "Lower Non-critical, Lower Critical, Lower Non-recoverable", "Fan | FAN1 | Lower Non-recoverable going low", 3},
		{"voltage too high", value(ipmisim.Volts12, 206, 190), "12V", "Upper Non-critical, Upper Critical", "Voltage | 12V | Upper Critical going high", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.set(true)
			now := states(t, s)
			if now[test.sensor] != test.states {
				t.Errorf("%s is %q, want %q", test.sensor, now[test.sensor], test.states)
			}
			now[test.sensor] = healthy[test.sensor]
			for name := range healthy {
				if now[name] != healthy[name] {
					t.Errorf("%s is %q, too", name, now[name])
				}
			}
			log := events(t, s, cursor)
			got := words(log)
			if log.Restarted || len(got) != test.events || got[len(got)-1] != test.event+" | Asserted" {
				t.Errorf("events %q, restarted %t, want %d with %q", got, log.Restarted, test.events, test.event)
			}

			test.set(false)
			if now := states(t, s)[test.sensor]; now != healthy[test.sensor] {
				t.Errorf("%s is %q after the repair, want %q", test.sensor, now, healthy[test.sensor])
			}
			log = events(t, s, log.Next)
			if got := words(log); log.Restarted || len(got) != test.events || !slices.Contains(got, test.event+" | Deasserted") {
				t.Errorf("events %q, restarted %t, want %d with %q", got, log.Restarted, test.events, test.event)
			}
			cursor = log.Next
		})
	}
}

func TestASensorThatIsNotScannedIsNotAvailable(t *testing.T) {
	bmc := ipmisim.Start(t)
	s := open(t, options(bmc))
	bmc.SetScanning(ipmisim.PSU2Status, false)
	bmc.SetScanning(ipmisim.FAN2, false)
	now := states(t, s)
	if now["PSU2 Status"] != "-" || now["FAN2"] != "-" || now["PSU1 Status"] != "Presence detected" {
		t.Errorf("states %q", now)
	}
	bmc.SetScanning(ipmisim.PSU2Status, true)
	if now := states(t, s)["PSU2 Status"]; now != "Presence detected" {
		t.Errorf("scanned again it is %q", now)
	}
}

func TestTimesAreThoseOfTheBMC(t *testing.T) {
	bmc := ipmisim.Start(t)
	s := open(t, options(bmc))
	bmc.SetSELClock(time.Unix(2*24*3600, 0))
	bmc.SetSensorBit(ipmisim.DIMMA1, 1, true)
	set := time.Date(2026, 11, 21, 23, 59, 57, 0, time.UTC)
	bmc.SetSELClock(set)
	bmc.SetSensorBit(ipmisim.DIMMA1, 1, false)
	log := events(t, s, ipmi.Cursor{})
	if len(log.Events) != 2 {
		t.Fatalf("events %q", words(log))
	}
	first, second := log.Events[0], log.Events[1]
	if first.Timestamp/60 != 2*24*60 || !first.Time.IsZero() {
		t.Errorf("before the clock was set: %d, %s", first.Timestamp, first.Time)
	}
	if late := second.Time.Sub(set); late < 0 || late > time.Minute || second.Time.Unix() != int64(second.Timestamp) {
		t.Errorf("after that: %d, %s, want %s", second.Timestamp, second.Time, set)
	}

	// The time of erasing is one, too.
	bmc.ClearSEL()
	if log := events(t, s, log.Next); !log.Restarted || int64(log.Next.Erased) < set.Unix() {
		t.Errorf("cleared: %+v", log)
	}
	bmc.SetSELClock(time.Unix(2*24*3600, 0))
	bmc.ClearSEL()
	if log := events(t, s, ipmi.Cursor{}); log.Next.Erased/60 != 2*24*60 {
		t.Errorf("cleared after the clock was lost: %+v", log)
	}
}

func TestAClearedSELIsToldFromOneThatHasGrown(t *testing.T) {
	bmc := ipmisim.Start(t)
	s := open(t, options(bmc))
	failed := func(on bool) { bmc.SetSensorBit(ipmisim.PSU1Status, 1, on) }
	failed(true)
	first := events(t, s, ipmi.Cursor{})
	if len(first.Events) != 1 || first.Restarted {
		t.Fatalf("first: %+v", first)
	}
	if none := events(t, s, first.Next); len(none.Events) != 0 || none.Restarted || none.Next != first.Next || none.Total != 1 {
		t.Errorf("nothing new: %+v", none)
	}
	bmc.ClearSEL()
	cleared := events(t, s, first.Next)
	if len(cleared.Events) != 0 || !cleared.Restarted || cleared.Next.Read || cleared.Total != 0 {
		t.Errorf("cleared: %+v", cleared)
	}
	failed(false)
	one := events(t, s, cleared.Next)
	if got := words(one); one.Restarted || !slices.Equal(got, []string{"Power Supply | PSU1 Status | Failure detected | Deasserted"}) {
		t.Errorf("after that: %q, restarted %t", got, one.Restarted)
	}
	bmc.ClearSEL()
	failed(true)
	failed(false)
	// By a source that has not seen the SEL before, as after a restart.
	again := events(t, open(t, options(bmc)), one.Next)
	if len(again.Events) != 2 || !again.Restarted {
		t.Errorf("cleared and logged since: %+v", again)
	}
}

func TestEventsOfOthersHaveNoName(t *testing.T) {
	bmc := ipmisim.Start(t)
	s := open(t, options(bmc))
	const bios, specific = 0x31, 0x6f
	// The BMC has a sensor of that number and type.
	bmc.AddEvent(bios, 0x07, ipmisim.CPU0Status, specific, [3]byte{0x0b, 0xff, 0xff})
	bmc.AddEvent(bios, 0x13, 0x00, specific, [3]byte{0x08, 0xff, 0xff})
	bmc.AddEvent(0x20, 0x07, ipmisim.CPU0Status, specific, [3]byte{0x01, 0xff, 0xff})
	bmc.AddSEL(0xdf, [13]byte{0, 0, 0, 0, 1, 2, 3})
	bmc.AddSEL(0xff, [13]byte{1, 2, 3})
	log := events(t, s, ipmi.Cursor{})
	want := []string{
		"Processor |  | Uncorrectable machine check exception | Asserted",
		"Critical Interrupt |  | Bus Uncorrectable error | Asserted",
		"Processor | CPU0 Status | Thermal Trip | Asserted",
	}
	if got := words(log); len(got) != 5 || !slices.Equal(got[:3], want) {
		t.Errorf("got %q, want %q and two of OEMs", got, want)
	}
	if oem := log.Events[3:]; oem[0].RecordType != 0xdf || oem[0].Timestamp == 0 || oem[1].RecordType != 0xff || oem[1].Timestamp != 0 {
		t.Errorf("of OEMs: %+v", oem)
	}
}

func TestALongSELIsReadAsAWhole(t *testing.T) {
	bmc := ipmisim.Start(t)
	s := open(t, options(bmc))
	const records = 1000 // as many as it can hold
	for i := range records {
		bmc.AddEvent(0x20, 0x0c, ipmisim.DIMMA1, 0x6f, [3]byte{0x00, byte(i), byte(i >> 8)})
	}
	log := events(t, s, ipmi.Cursor{})
	if len(log.Events) != records || log.Full || log.Next.ID != records {
		t.Errorf("%d events, up to %#x, full %t", len(log.Events), log.Next.ID, log.Full)
	}
	bmc.SetSensorBit(ipmisim.PSU1Status, 1, true) // there is no space for it
	if log := events(t, s, log.Next); !log.Full || len(log.Events) != 0 || log.Total != records {
		t.Errorf("%d events, %d in all, full %t", len(log.Events), log.Total, log.Full)
	}
}

func TestABMCThatDoesNotLetIn(t *testing.T) {
	bmc := ipmisim.Start(t)
	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte("wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*ipmitool.Options){
		"wrong password":     func(o *ipmitool.Options) { o.PasswordFile = wrong },
		"unknown user":       func(o *ipmitool.Options) { o.User = "nobody" },
		"wrong key":          func(o *ipmitool.Options) { o.KeyFile = wrong },
		"wrong cipher suite": func(o *ipmitool.Options) { o.CipherSuite = 17 },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(bmc)
			change(&o)
			if _, err := open(t, o).Sensors(t.Context()); !errors.Is(err, ipmitool.ErrNoSession) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestABMCThatHangs(t *testing.T) {
	bmc := ipmisim.Start(t)
	s, o := open(t, options(bmc)), options(bmc)
	o.Timeout = 500 * time.Millisecond
	bmc.Freeze()
	if _, err := open(t, o).Sensors(t.Context()); !errors.Is(err, ipmi.ErrNoAnswer) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Sensors(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	bmc.Thaw()
	if _, err := s.Sensors(t.Context()); err != nil {
		t.Errorf("awake again: %v", err)
	}
}

func TestAMachineWithoutABMC(t *testing.T) {
	if _, err := os.Stat("/dev/ipmi0"); err == nil {
		t.Skip("this machine has a BMC")
	}
	if _, err := open(t, ipmitool.Options{}).Sensors(t.Context()); !errors.Is(err, ipmitool.ErrNoDevice) {
		t.Errorf("error %v", err)
	}
}
