package device_test

import (
	"fmt"
	"testing"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/test/bmc"
)

const (
	manySensors = 60
	manyEvents  = 500
	// besides is how many commands a poll may take besides one for each sensor, and
	// for each new event.
	besides = 10
)

// bigServer is a BMC with many sensors and many events, and the limit of many BMCs.
func bigServer() *bmc.BMC {
	b := bmc.New(bmc.Config{Name: "BMC", MaxSDRRead: 16})
	b.SetClock(0x69122001)
	for number := range uint8(manySensors) {
		b.AddSensor(bmc.Sensor{
			Number: number, Name: fmt.Sprintf("Sensor %d", number), Type: 0x01, EventType: 0x01, Full: number%2 == 0,
			Factors: bmc.Factors{M: 1}, Reading: number,
		})
	}
	for range manyEvents {
		b.Log(bmc.Event{Type: 0x01, Number: 1, EventType: 0x01, Data: [3]uint8{9, 0, 0}})
	}
	return b
}

// poll reads all that a verdict needs.
func poll(t testing.TB, d *device.Device, after ipmi.Cursor) ipmi.EventLog {
	t.Helper()
	if _, err := d.DeviceID(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Chassis(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sensors, err := d.Sensors(t.Context()); err != nil || len(sensors) != manySensors {
		t.Fatalf("%d sensors, %v", len(sensors), err)
	}
	log, err := d.Events(t.Context(), after)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func TestAPollAfterTheFirstTakesFewCommands(t *testing.T) {
	b := bigServer()
	d := open(t, b)
	log := poll(t, d, ipmi.Cursor{})
	if len(log.Events) != manyEvents {
		t.Fatalf("%d events", len(log.Events))
	}
	b.TakeCounts()
	for _, newEvents := range []int{0, 1, 3} {
		logN(b, newEvents)
		log = poll(t, d, log.Next)
		counts := b.TakeCounts()
		if sum := bmc.Sum(counts); len(log.Events) != newEvents || sum > manySensors+newEvents+besides {
			t.Errorf("%d new events: %d read by %d commands: %v", newEvents, len(log.Events), sum, counts)
		}
	}
}

func BenchmarkPoll(b *testing.B) {
	server := bigServer()
	d := open(b, server)
	log := poll(b, d, ipmi.Cursor{})
	first := bmc.Sum(server.TakeCounts())
	for b.Loop() {
		log = poll(b, d, log.Next)
	}
	following := float64(bmc.Sum(server.TakeCounts())) / float64(b.N)
	b.ReportMetric(float64(first), "commands/first-poll")
	b.ReportMetric(following, "commands/poll")
	b.ReportMetric(following-manySensors, "commands-besides-sensors/poll")
}
