package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"net"
	"os/exec"
	"time"

	"github.com/nodemend/nodemend/test/bmc"
)

//go:embed ipmitool.sh
var ipmitoolScript string

// fan is the sensor of the fan that stops.
const fan = 2

// server is the BMC that the demo plays.
type server struct {
	*bmc.BMC
	listener net.Listener
	served   chan error
}

// startBMC starts a BMC for this machine, which is read through ipmitool. Where that
// can't be the demo goes on without one, and says what is missing.
func (d *demo) startBMC(ctx context.Context) error {
	const without = "WITHOUT THE HARDWARE STORY: "
	program, err := exec.LookPath("ipmitool")
	if err != nil {
		d.say(without + "no ipmitool in PATH; to see it, too, install the package ipmitool (no BMC is needed)")
		return nil
	}
	d.ipmitool = program
	if err := d.render("ipmitool", ipmitoolScript, 0o700); err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "unix", d.path("bmc.sock"))
	if err != nil {
		return err
	}
	d.bmc = &server{BMC: newBMC(), listener: listener, served: make(chan error, 1)}
	go d.bmc.serve()

	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, d.path("ipmitool"), "-I", "open", "mc", "info").CombinedOutput() // as the detector runs it
	if err != nil {
		d.say(without+"%s can't read the BMC that the demo plays: %v: %s", program, err, bytes.TrimSpace(out))
		return d.stopBMC()
	}
	return nil
}

// stopBMC ends the BMC, if there is one.
func (d *demo) stopBMC() error {
	if d.bmc == nil {
		return nil
	}
	err := errors.Join(d.bmc.listener.Close(), <-d.bmc.served)
	d.bmc = nil
	return err
}

func (s *server) serve() { s.served <- s.ServeIPMItool(s.listener) }

// newBMC returns the BMC of a healthy server that is switched on.
func newBMC() *bmc.BMC {
	b := bmc.New(bmc.Config{Name: "demo-bmc"})
	b.SetClock(uint32(time.Now().Unix()))
	celsius, rpm := [3]uint8{0, 1, 0}, [3]uint8{0, 18, 0}
	for _, s := range []bmc.Sensor{
		{Number: 1, Name: "CPU0 Temp", Type: 0x01, EventType: 1, Full: true, Units: celsius, Factors: bmc.Factors{M: 1}, Reading: 45},
		{Number: fan, Name: "FAN1", Type: 0x04, EventType: 1, Full: true, Units: rpm, Factors: bmc.Factors{M: 50}, Reading: 120},
		{Number: 3, Name: "FAN2", Type: 0x04, EventType: 1, Full: true, Units: rpm, Factors: bmc.Factors{M: 50}, Reading: 118},
		{Number: 4, Name: "PSU1 Status", Type: 0x08, States: 1 << 0},
		{Number: 5, Name: "DIMM_A1", Type: 0x0c, States: 1 << 6},
	} {
		b.AddSensor(s)
	}
	return b
}

// turnFan has the fan turn, or stand still.
func (s *server) turnFan(turns bool) error {
	const lowerLimits = 1<<0 | 1<<1 | 1<<2
	return s.SetSensor(fan, func(s *bmc.Sensor) {
		s.Reading, s.States = 0, lowerLimits
		if turns {
			s.Reading, s.States = 120, 0
		}
	})
}
