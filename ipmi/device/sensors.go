package device

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodemend/nodemend/ipmi"
)

// Flags of Get Sensor Reading (IPMI 2.0, section 35.14).
const (
	scanningEnabled    = 1 << 6
	readingUnavailable = 1 << 5
)

// silences is how many sensors in a row may be without an answer before the BMC is taken
// not to answer at all.
const silences = 3

// Sensors returns all sensors with their present state. A sensor that the BMC refuses
// to read, as that of an absent component, is not available; one whose record or answer
// is wrong, or does not come, has a Problem, too. If all are so, that is an error. Another
// controller than the BMC that can't be asked costs its own sensors only. When there is no
// time for all, the rest comes first the next time.
func (d *Device) Sensors(ctx context.Context) ([]ipmi.Sensor, error) {
	repo, err := d.repository(ctx)
	if err != nil {
		return nil, err
	}
	sensors := make([]ipmi.Sensor, len(repo.sensors))
	for i, record := range repo.sensors {
		sensors[i] = record.sensor
	}
	first := 0
	if d.nextSensor < len(sensors) {
		first = d.nextSensor
	}
	d.nextSensor = 0
	read, silent := 0, 0
	lost := map[Target]error{} // controllers, and why they can't be asked
	var none error
	for n := range sensors {
		i := (first + n) % len(sensors)
		record := &repo.sensors[i]
		if record.unreadable || !d.conn.reaches(record.target) {
			continue
		}
		if err := lost[record.target]; err != nil {
			sensors[i].Problem = err.Error()
			continue
		}
		sensor := record.sensor
		err := d.readSensor(ctx, record, &sensor)
		if err == nil {
			sensors[i], silent = sensor, 0
			read++
			continue
		}
		err = fmt.Errorf("sensor %q (0x%02x): %w", sensor.Name, sensor.Number, err)
		switch {
		case ofOne(err):
			silent = 0
		case record.target != itself && ctx.Err() == nil:
			lost[record.target] = err
		case errors.Is(err, ipmi.ErrNoAnswer) && ctx.Err() == nil && silent+1 < silences:
			silent++
		case read == 0:
			return nil, err
		default:
			d.nextSensor = i
			return sensors, fmt.Errorf("%w: %d of %d sensors: %w", ipmi.ErrPartial, len(sensors)-n, len(sensors), err)
		}
		none = err
		if !absent(err) {
			sensors[i].Problem = err.Error()
		}
	}
	if read == 0 && none != nil {
		return nil, fmt.Errorf("no sensor can be read: %w", none)
	}
	return sensors, nil
}

// absent reports whether the BMC has answered that there is no such sensor now.
func absent(err error) bool {
	return errors.Is(err, ipmi.NotPresent) || errors.Is(err, ipmi.IllegalForRecord) || errors.Is(err, ipmi.WrongState)
}

// readSensor adds the present state to a sensor.
func (d *Device) readSensor(ctx context.Context, record *sensorRecord, sensor *ipmi.Sensor) error {
	answer, err := d.conn.sendTo(ctx, record.target, getSensorReading, sensor.Number)
	if err != nil {
		return err
	}
	raw, flags, states := answer[0], answer[1], answer[2:]
	if flags&scanningEnabled == 0 || flags&readingUnavailable != 0 {
		return nil
	}
	sensor.Available = true

	convert := record.conversion
	if convert != nil && convert.variable() {
		if convert, err = d.readFactors(ctx, record, raw, convert); err != nil {
			return err
		}
	}
	if convert != nil {
		if value, ok := convert.value(raw); ok {
			sensor.Reading = &value
		}
	}

	if len(states) == 0 && record.thresholds && sensor.Reading != nil {
		limits, err := d.limits(ctx, record, convert)
		if err != nil {
			return err
		}
		sensor.States = compare(*sensor.Reading, limits)
		sensor.Believe(limits)
		return nil
	}
	sensor.States = decodeStates(sensor.EventType, states)
	if sensor.States == 0 || !record.thresholds || convert == nil {
		return nil
	}
	// Only for the few that are beyond one.
	limits, err := d.limits(ctx, record, convert)
	if err != nil {
		return err
	}
	sensor.Believe(limits)
	return nil
}

// decodeStates decodes the states that follow a reading. Each of the two bytes may be
// missing.
func decodeStates(e ipmi.EventType, data []byte) uint16 {
	var states uint16
	if len(data) > 0 {
		states = uint16(data[0])
	}
	if e == ipmi.Threshold {
		return states & 0x3f
	}
	if len(data) > 1 {
		states |= uint16(data[1]&0x7f) << 8
	}
	return states
}

// readFactors returns how to convert this reading of a non-linear sensor.
func (d *Device) readFactors(ctx context.Context, record *sensorRecord, raw uint8, convert *conversion) (*conversion, error) {
	answer, err := d.conn.sendTo(ctx, record.target, getReadingFactors, record.sensor.Number, raw)
	if err != nil {
		return nil, err
	}
	atReading := *convert
	atReading.factors = decodeFactors([6]byte(answer[1:7]))
	return &atReading, nil
}

// limits returns the thresholds of a sensor; none if the BMC refuses to tell (section
// 35.9).
func (d *Device) limits(ctx context.Context, record *sensorRecord, convert *conversion) (limits ipmi.Limits, err error) {
	answer, err := d.conn.sendTo(ctx, record.target, getSensorThresholds, record.sensor.Number)
	if refused(err) {
		return limits, nil
	}
	if err != nil {
		return limits, err
	}
	for i, raw := range answer[1:7] { // in the same order as in the states
		if value, ok := convert.value(raw); ok && answer[0]&(1<<i) != 0 {
			limits[i] = &value
		}
	}
	return limits, nil
}

// compare does what a BMC has left out that returns a reading alone.
func compare(reading float64, limits ipmi.Limits) (states uint16) {
	for i, limit := range limits {
		bit := uint16(1) << i
		upper := bit >= ipmi.UpperNonCritical
		if limit != nil && (upper && reading >= *limit || !upper && reading <= *limit) {
			states |= bit
		}
	}
	return states
}
