package device_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/test/bmc"
)

// router is a transport that reaches satellites, too; those of them that are there.
type router struct {
	device.Transport

	satellites map[device.Target]device.Transport
	asked      map[device.Target]int
	rested     int
}

func (r *router) Reaches(to device.Target) bool { return to.Owner&1 == 0 }

func (r *router) SendRecvTo(ctx context.Context, to device.Target, netfn, cmd uint8, data []byte) ([]byte, error) {
	r.asked[to]++
	if satellite := r.satellites[to]; satellite != nil {
		return satellite.SendRecv(ctx, netfn, cmd, data)
	}
	return nil, errors.New("there is no such controller")
}

func (r *router) Rest() { r.rested++ }

func TestSensorsOfOthersAreAskedWhereTheyAre(t *testing.T) {
	satellite := func(reading uint8) device.Transport {
		b := bmc.New(bmc.Config{})
		b.AddSensor(bmc.Sensor{
			Number: 3, Name: "Temp", Type: 1, EventType: 1, Full: true, Factors: bmc.Factors{M: 1}, Reading: reading,
			States: ipmi.UpperCritical, Thresholds: [6]uint8{4: 90}, ThresholdMask: 0x10,
		})
		return b.Transport()
	}
	b := bmc.New(bmc.Config{})
	add := func(name string, owner, lun uint8) {
		b.AddSensor(bmc.Sensor{
			Number: 3, Owner: owner, LUN: lun, Name: name, Type: 1, EventType: 1, Full: true, Factors: bmc.Factors{M: 1}, Reading: 45,
			Thresholds: [6]uint8{4: 90}, ThresholdMask: 0x10,
		})
	}
	add("BMC", ipmi.BMCAddress, 0)
	add("LUN 1", ipmi.BMCAddress, 1)
	add("ME", 0x2c, 0)
	add("gone 1", 0x30, 0)
	add("gone 2", 0x30, 0)
	add("software", 0x41, 0)
	add("last", ipmi.BMCAddress, 0)
	lun1, me, gone := device.Target{Owner: ipmi.BMCAddress, LUN: 1}, device.Target{Owner: 0x2c}, device.Target{Owner: 0x30}
	r := &router{
		Transport: b.Transport(), asked: map[device.Target]int{},
		satellites: map[device.Target]device.Transport{lun1: satellite(91), me: satellite(92)},
	}
	d := device.New("routed", r, clock.RealClock{})
	for range 2 {
		sensors, err := d.Sensors(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{"BMC": 45, "LUN 1": 91, "ME": 92, "last": 45}
		for _, s := range sensors {
			reading, there := want[s.Name]
			if s.Available != there || there && (*s.Reading != reading || (s.States == ipmi.UpperCritical) != (reading > 90)) {
				t.Errorf("%+v", s)
			}
			if problem := strings.Contains(s.Problem, "no such controller"); problem != strings.HasPrefix(s.Name, "gone") {
				t.Errorf("%s has the problem %q", s.Name, s.Problem)
			}
		}
		if r.asked[gone] != 1 {
			t.Errorf("the one that is gone was asked %d times", r.asked[gone])
		}
		clear(r.asked)
	}
	d.Rest()
	if r.rested != 1 {
		t.Errorf("the transport was rested %d times", r.rested)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
