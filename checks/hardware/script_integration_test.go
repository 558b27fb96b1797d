//go:build integration

package hardware_test

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/ipmi/ipmitool"
	"github.com/nodemend/nodemend/ipmi/remote"
	"github.com/nodemend/nodemend/test/ipmisim"
)

// simulated is a server by OpenIPMI's simulator.
type simulated struct{ *ipmisim.Simulator }

func (s simulated) stopFan(stopped bool) {
	raw := byte(120)
	if stopped {
		raw = 0
	}
	s.SetSensorValue(ipmisim.FAN1, raw)
}

func (s simulated) heat(hot bool) {
	raw := byte(45)
	if hot {
		raw = 98
	}
	s.SetSensorValue(ipmisim.CPU0Temp, raw)
}

func (s simulated) failSupply(failed bool) { s.SetSensorBit(ipmisim.PSU1Status, 1, failed) }
func (s simulated) loseFeed(lost bool)     { s.SetSensorBit(ipmisim.PSU1Status, 3, lost) }
func (s simulated) pullSupply(pulled bool) { s.SetSensorBit(ipmisim.PSU1Status, 0, !pulled) }
func (s simulated) loseData(lost bool)     { s.SetSensorBit(ipmisim.DIMMA1, 1, lost) }
func (s simulated) clearSEL()              { s.ClearSEL() }
func (s simulated) setClock(now time.Time) { s.SetSELClock(now) }

// start has the BIOS log what kind of start it was, as the simulator has no restart
// cause.
func (s simulated) start(switchedOff bool) {
	const systemBoot, byPowerUp, byWarmReset = 0x1d, 0, 2
	offset := byte(byWarmReset)
	if switchedOff {
		offset = byPowerUp
	}
	s.log(systemBoot, offset)
}

func (s simulated) log(sensorType, offset uint8) {
	const bios, specific = 0x31, 0x6f
	s.AddEvent(bios, sensorType, 0, specific, [3]byte{offset, 0xff, 0xff})
}

// systemInterface is the simulator's as the device source wants it.
type systemInterface struct{ *ipmisim.Simulator }

func (i systemInterface) SendRecv(_ context.Context, netFn, cmd uint8, data []byte) ([]byte, error) {
	return i.Simulator.SendRecv(netFn, cmd, data...) //nolint:contextcheck // the simulator ends with its test
}

func (systemInterface) Close() error { return nil }

// TestTheLifeOfAServerOverAllSources has all watch the same server, two over the network.
func TestTheLifeOfAServerOverAllSources(t *testing.T) {
	if _, err := exec.LookPath("ipmitool"); err != nil {
		t.Skip("needs ipmitool: apt-get install ipmitool")
	}
	for _, m := range manners() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel() // it waits for what ipmitool is told
			s := ipmisim.Start(t)
			host, port := s.LAN()
			newScene(t, simulated{s}, map[string]func() (ipmi.Source, error){
				"device": func() (ipmi.Source, error) {
					return device.New("simulator", systemInterface{s}, clock.RealClock{}), nil
				},
				"lan": func() (ipmi.Source, error) {
					return remote.New(remote.Options{Host: host, Port: port, User: ipmisim.Reader, PasswordFile: s.PasswordFile()})
				},
				"ipmitool": func() (ipmi.Source, error) {
					return ipmitool.New(ipmitool.Options{Host: host, Port: port, User: ipmisim.User, PasswordFile: s.PasswordFile()})
				},
			}).play(m)
		})
	}
}
