package device_test

import (
	"context"
	"errors"
	"os"
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

// faulty is a transport that gives up some commands, and takes its time for all.
type faulty struct {
	device.Transport

	silent func(netfn, cmd uint8, data []byte) bool
	takes  time.Duration
}

func (f faulty) SendRecv(ctx context.Context, netfn, cmd uint8, data []byte) ([]byte, error) {
	if f.takes > 0 {
		<-clock.RealClock{}.After(f.takes) // in a bubble
	}
	if f.silent != nil && f.silent(netfn, cmd, data) {
		return nil, os.ErrDeadlineExceeded
	}
	return f.Transport.SendRecv(ctx, netfn, cmd, data)
}

// One bad sensor costs that one, and is said to be bad.
func TestABadSensorCostsNoOther(t *testing.T) {
	const fan, supply = 0x02, 0x03
	reading := func(number uint8, code ipmi.CompletionCode) func(b *bmc.BMC) {
		return func(b *bmc.BMC) {
			b.SetHook(func(command bmc.Command, data []byte) []byte {
				if command == bmc.GetSensorReading && data[0] == number {
					return []byte{byte(code)}
				}
				return nil
			})
		}
	}
	// record answers requests for the body of the second SDR, that of the fan.
	record := func(answer func(data []byte) []byte) func(b *bmc.BMC) {
		return func(b *bmc.BMC) {
			b.SetHook(func(command bmc.Command, data []byte) []byte {
				if command == bmc.GetSDR && data[2] == 2 && data[4] >= 5 {
					return answer(data)
				}
				return nil
			})
		}
	}
	for _, test := range []struct {
		name    string
		arrange func(b *bmc.BMC)
		silent  func(netfn, cmd uint8, data []byte) bool
		bad     string // the sensor that is lost
		says    string // of it
	}{
		{name: "a record that is too short", arrange: func(b *bmc.BMC) { b.AddSDR(0x01, make([]byte, 9)) }, bad: "SDR 0x0006", says: "SDR of type 0x01 with 14 bytes of 48"},
		{name: "an empty record", arrange: func(b *bmc.BMC) { b.AddSDR(0x02, nil) }, bad: "SDR 0x0006", says: "malformed answer"},
		{
			name: "a record that the BMC does not return", bad: "SDR 0x0002", says: "0xff",
			arrange: record(func([]byte) []byte { return []byte{byte(ipmi.UnspecifiedError)} }),
		},
		{
			name: "16 bytes at once are too many, says the code for a timeout", // FreeIPMI, issue 29
			arrange: record(func(data []byte) []byte {
				if data[5] > 8 {
					return []byte{byte(ipmi.ProcessingTimeout)}
				}
				return nil
			}),
		},
		{name: "a sensor that times out", arrange: reading(fan, ipmi.ProcessingTimeout), bad: "FAN1", says: "0xc3"},
		{name: "a sensor that is always busy", arrange: reading(fan, ipmi.NodeBusy), bad: "FAN1", says: "node busy"},
		{name: "a sensor with an error", arrange: reading(supply, ipmi.UnspecifiedError), bad: "PSU1 Status", says: "0xff"},
		{name: "a sensor that is not there", arrange: reading(supply, ipmi.NotPresent), bad: "PSU1 Status"},
		{
			name: "an answer that is too short", bad: "FAN1", says: "1 bytes of 2",
			arrange: func(b *bmc.BMC) {
				b.SetHook(func(command bmc.Command, data []byte) []byte {
					if command == bmc.GetSensorReading && data[0] == fan {
						return []byte{0, 1}
					}
					return nil
				})
			},
		},
		{
			name: "a sensor that hangs", bad: "FAN1", says: "does not answer",
			silent: func(_, cmd uint8, data []byte) bool { return cmd == 0x2d && data[0] == fan },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := smallServer()
				if test.arrange != nil {
					test.arrange(b)
				}
				d := device.New("test", faulty{Transport: b.Transport(), silent: test.silent}, clock.RealClock{})
				for range 2 {
					sensors, err := d.Sensors(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					lost := map[string]string{}
					for _, s := range sensors {
						if !s.Available {
							lost[s.Name] = s.Problem
						}
					}
					want := map[string]string{}
					if test.bad != "" {
						if got := lost[test.bad]; !strings.Contains(got, test.says) || (got == "") != (test.says == "") {
							t.Errorf("the problem is %q", got)
						}
						want[test.bad] = lost[test.bad]
					}
					if diff := cmp.Diff(want, lost); diff != "" {
						t.Errorf("not available (-want +got):\n%s", diff)
					}
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestLimitsThatMakeNoSenseAreFoundOverTheDevice(t *testing.T) {
	const both = ipmi.LowerCritical | ipmi.UpperCritical
	for name, test := range map[string]struct {
		limits [6]uint8
		want   uint16
	}{
		"good":    {[6]uint8{0, 50, 0, 0, 40, 0}, both}, // as they are not readable
		"swapped": {[6]uint8{0, 95, 0, 0, 5, 0}, 0},
		"zero":    {[6]uint8{}, 0},
	} {
		s := bmc.Sensor{
			Type: 2, EventType: 1, Full: true, Factors: bmc.Factors{M: 1}, Reading: 45, States: both, Thresholds: test.limits, ThresholdMask: 0x12,
		}
		if name == "good" {
			s.ThresholdMask = 0
		}
		if got := only(t, s); got.States != test.want || (got.Problem == "") != (test.want == both) || !got.Available {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestABMCThatStopsToAnswerIsNotAskedForEverySensor(t *testing.T) {
	b := bmc.New(bmc.Config{})
	for i := range uint8(40) {
		b.AddSensor(bmc.Sensor{Number: i, Type: 8, States: 1})
	}
	asked := 0
	d := device.New("test", faulty{Transport: b.Transport(), silent: func(_, cmd uint8, _ []byte) bool {
		if cmd == 0x2d {
			asked++
		}
		return asked > 10
	}}, clock.RealClock{})
	sensors, err := d.Sensors(t.Context())
	if !errors.Is(err, ipmi.ErrPartial) || len(sensors) != 40 || asked != 13 {
		t.Errorf("%d sensors, %v, after %d", len(sensors), err, asked)
	}
}

// slowly reads over a BMC that takes two seconds for a command, with the deadline of a run,
// until nothing is left to be read.
func slowly(t *testing.T, b *bmc.BMC, read func(context.Context, *device.Device) error) (runs int) {
	t.Helper()
	d := device.New("test", faulty{Transport: b.Transport(), takes: 2 * time.Second}, clock.RealClock{})
	for runs = 1; runs < 100; runs++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := read(ctx, d)
		cancel()
		if err == nil {
			break
		}
		<-clock.RealClock{}.After(time.Minute)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	return runs
}

func TestASlowBMCIsReadOnWhereTheTimeWasUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bmc.New(bmc.Config{})
		for i := range uint8(60) {
			b.AddSensor(bmc.Sensor{Number: i, Type: 8, States: 1})
		}
		read := map[uint8]bool{}
		runs := slowly(t, b, func(ctx context.Context, d *device.Device) error {
			sensors, err := d.Sensors(ctx)
			for _, s := range sensors {
				read[s.Number] = read[s.Number] || s.Available
			}
			for i := range uint8(60) {
				if !read[i] {
					return err
				}
			}
			return nil
		})
		if runs > 20 || len(read) != 60 {
			t.Errorf("%d runs, %d sensors", runs, len(read))
		}

		logN(b, 100)
		var ids []uint16
		cursor := ipmi.Cursor{}
		runs = slowly(t, b, func(ctx context.Context, d *device.Device) error {
			log, err := d.Events(ctx, cursor)
			if err == nil || errors.Is(err, ipmi.ErrPartial) {
				for _, e := range log.Events {
					ids = append(ids, e.ID)
				}
				cursor = log.Next
			}
			return err
		})
		if runs > 20 || len(ids) != 100 || ids[0] != 1 || ids[99] != 100 {
			t.Errorf("%d runs, records %d", runs, ids)
		}
	})
}
