package device_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/test/bmc"
)

// open returns a source that reads b. Pauses last as long as on the real clock, so tests
// that have any run in a bubble.
func open(t testing.TB, b *bmc.BMC) *device.Device {
	t.Helper()
	d, _ := openTransport(t, b)
	return d
}

func openTransport(t testing.TB, b *bmc.BMC) (*device.Device, *bmc.Transport) {
	t.Helper()
	transport := b.Transport()
	d := device.New("test", transport, clock.RealClock{})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d, transport
}

func TestTheBMCSaysWhatItIs(t *testing.T) {
	want := ipmi.DeviceID{Name: "Rack 7 BMC", Firmware: "2.14", IPMIVersion: "2.0", Manufacturer: 343, Product: 0x1234}
	for _, deviceSDRs := range []bool{false, true} {
		d := open(t, bmc.New(bmc.Config{Name: want.Name, DeviceSDRs: deviceSDRs}))
		got, err := d.DeviceID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("device SDRs %t (-want +got):\n%s", deviceSDRs, diff)
		}
	}
}

func TestTheChassisShowsEachOfItsFaults(t *testing.T) {
	tests := map[bmc.ChassisFault]ipmi.Chassis{
		bmc.PowerOverload:     {PowerOverload: true},
		bmc.MainPowerFault:    {MainPowerFault: true},
		bmc.PowerControlFault: {PowerControlFault: true},
		bmc.Intrusion:         {Intrusion: true},
		bmc.DriveFault:        {DriveFault: true},
		bmc.CoolingFault:      {CoolingFault: true},
	}
	b := bmc.New(bmc.Config{})
	b.SetRestartCause(0x4)
	d := open(t, b)
	for fault, want := range tests {
		b.SetFault(fault, true)
		got, err := d.Chassis(t.Context())
		b.SetFault(fault, false)
		want.PowerOn, want.RestartCause = true, ipmi.RestartWatchdog
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	b.SetPower(false)
	if got, err := d.Chassis(t.Context()); err != nil || got.PowerOn {
		t.Errorf("switched off: %+v, %v", got, err)
	}
}

func TestABMCThatDoesNotTellTheRestartCauseIsNoError(t *testing.T) {
	b := bmc.New(bmc.Config{})
	b.Fail(bmc.GetRestartCause, uint8(ipmi.InvalidCommand), -1)
	got, err := open(t, b).Chassis(t.Context())
	if err != nil || got.RestartCause != ipmi.RestartUnknown || !got.PowerOn {
		t.Errorf("Chassis = %+v, %v", got, err)
	}
}

func TestAMissingDeviceIsSaidToBeMissing(t *testing.T) {
	_, err := device.Open(filepath.Join(t.TempDir(), "ipmi0"))
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "ipmi_devintf") {
		t.Errorf("Open: %v", err)
	}
}

func TestSomethingElseThanADeviceIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ipmi0")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := device.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := d.DeviceID(t.Context()); err == nil {
		t.Errorf("DeviceID of a file: %+v", id)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestABusyBMCIsAskedAgain(t *testing.T) {
	for _, code := range []ipmi.CompletionCode{ipmi.NodeBusy, ipmi.ProcessingTimeout, ipmi.OutOfSpace, ipmi.Initializing} {
		synctest.Test(t, func(t *testing.T) {
			b := bmc.New(bmc.Config{})
			b.Fail(bmc.GetChassisStatus, uint8(code), 3)
			if _, err := open(t, b).Chassis(t.Context()); err != nil {
				t.Errorf("busy three times: %v", err)
			}
		})
	}
}

func TestABMCThatStaysBusyIsAnErrorWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bmc.New(bmc.Config{Name: "BMC"})
		b.SetHook(func(bmc.Command, []byte) []byte { return []byte{uint8(ipmi.NodeBusy)} })
		d := open(t, b)
		for name, call := range calls(d) {
			start := time.Now()
			err := call(t.Context())
			if !errors.Is(err, ipmi.NodeBusy) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(start); took == 0 || took > time.Second {
				t.Errorf("%s took %v", name, took)
			}
		}
	})
}

// calls are the methods of a source.
func calls(s ipmi.Source) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"DeviceID": func(ctx context.Context) error { _, err := s.DeviceID(ctx); return err },
		"Chassis":  func(ctx context.Context) error { _, err := s.Chassis(ctx); return err },
		"Sensors":  func(ctx context.Context) error { _, err := s.Sensors(ctx); return err },
		"Events":   func(ctx context.Context) error { _, err := s.Events(ctx, ipmi.Cursor{}); return err },
	}
}

func TestGarbageIsAnError(t *testing.T) {
	for name, garbage := range map[string][]byte{"nothing": {}, "only a completion code": {0}, "a byte": {0, 0xff}} {
		b := smallServer()
		d := open(t, b)
		b.SetHook(func(bmc.Command, []byte) []byte { return garbage })
		for method, call := range calls(d) {
			if err := call(t.Context()); !errors.Is(err, ipmi.ErrMalformed) {
				t.Errorf("%s of %s: %v", method, name, err)
			}
		}
	}
}

func TestACallReturnsWhenItsContextEndsAlthoughTheDriverHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := smallServer()
		d, transport := openTransport(t, b)
		release := transport.Hang()
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			start := time.Now()
			_, err := d.Chassis(ctx)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ipmi.ErrNoAnswer) {
				t.Errorf("Chassis: %v", err)
			}
			if took := time.Since(start); took != 5*time.Second {
				t.Errorf("Chassis took %v", took)
			}
		}
		release()
		if _, err := d.Chassis(t.Context()); err != nil {
			t.Errorf("Chassis after the driver has returned: %v", err)
		}
		// That of the first call, and both of the last one: no command was
		// sent while another was under way.
		if counts := b.TakeCounts(); bmc.Sum(counts) != 3 {
			t.Errorf("commands: %v", counts)
		}
	})
}

func TestCloseEndsACommandThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, transport := openTransport(t, smallServer())
		transport.Hang()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.Sensors(ctx); err == nil {
			t.Error("Sensors returned without an error")
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if _, err := d.Sensors(t.Context()); !errors.Is(err, os.ErrClosed) {
			t.Errorf("Sensors after Close: %v", err)
		}
	})
}

// deaf is a transport by which no answer comes in time.
type deaf struct{ *bmc.Transport }

func (deaf) SendRecv(context.Context, uint8, uint8, []byte) ([]byte, error) {
	return nil, fmt.Errorf("reading: %w", os.ErrDeadlineExceeded)
}

func TestADriverThatGivesUpIsABMCThatDoesNotAnswer(t *testing.T) {
	d := device.New("test", deaf{bmc.New(bmc.Config{}).Transport()}, clock.RealClock{})
	for method, call := range calls(d) {
		if err := call(t.Context()); !errors.Is(err, ipmi.ErrNoAnswer) {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// smallServer is a BMC with a few sensors of each kind and some events.
func smallServer() *bmc.BMC {
	b := bmc.New(bmc.Config{Name: "BMC"})
	b.SetClock(0x69122001)
	b.AddSensor(bmc.Sensor{
		Number: 0x01, Name: "CPU0 Temp", Type: 0x01, EventType: 0x01, Entity: [2]uint8{3, 1}, Full: true,
		Units: [3]uint8{0, 1, 0}, Factors: bmc.Factors{M: 1}, Reading: 45,
		Thresholds: [6]uint8{0, 0, 0, 80, 90, 100}, ThresholdMask: 0x38,
	})
	b.AddSensor(bmc.Sensor{
		Number: 0x02, Name: "FAN1", Type: 0x04, EventType: 0x01, Entity: [2]uint8{29, 1}, Full: true,
		Units: [3]uint8{0, 18, 0}, Factors: bmc.Factors{M: 50}, Reading: 100,
		Thresholds: [6]uint8{12, 8, 4, 0, 0, 0}, ThresholdMask: 0x07,
	})
	b.AddSensor(bmc.Sensor{Number: 0x03, Name: "PSU1 Status", Type: 0x08, Entity: [2]uint8{10, 1}, States: 1 << 0})
	b.AddSensor(bmc.Sensor{Number: 0x04, Name: "DIMM_A1", Type: 0x0c, Entity: [2]uint8{32, 1}})
	b.Log(bmc.Event{Type: 0x0c, Number: 0x04, Data: [3]uint8{1, 0xff, 0xff}})
	return b
}
