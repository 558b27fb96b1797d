package device

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodemend/nodemend/ipmi"
)

// repository is the content of the SDR repository that matters here.
type repository struct {
	// version is what the BMC said of the repository when it was read. It
	// changes with the repository.
	version string
	bmc     string // name
	sensors []sensorRecord
	names   map[sensorKey]string

	// next is the ID of the record to be read next, read are those that were.
	next uint16
	read map[uint16]bool
}

func newRepository(version string) *repository {
	return &repository{version: version, names: map[sensorKey]string{}, next: firstRecord, read: map[uint16]bool{}}
}

// sensorKey is how events name a sensor.
type sensorKey struct {
	owner, lun, number uint8
	sensorType         ipmi.SensorType
}

// repositoryCommands are those for the place where a BMC has its SDRs.
type repositoryCommands struct {
	info, reserve, get command
	// version takes the bytes from the info that change with the SDRs only.
	version func(info []byte) string
}

// sdrRepository returns the commands for the SDR repository of a whole system, whose
// free space and flags are left out of its version (section 33.9).
func sdrRepository() repositoryCommands {
	return repositoryCommands{getSDRInfo, reserveSDR, getSDR, func(info []byte) string {
		return string(info[:3]) + string(info[5:13])
	}}
}

// deviceRepository returns the commands for the SDRs that a BMC without such a
// repository has for its own sensors (section 35.2).
func deviceRepository() repositoryCommands {
	return repositoryCommands{getDeviceSDRInfo, reserveDeviceSDR, getDeviceSDR, func(info []byte) string {
		return string(info)
	}}
}

// repository returns what is in the SDR repository, which is read only if it has
// changed since.
func (d *Device) repository(ctx context.Context) (*repository, error) {
	commands := sdrRepository()
	info, err := d.conn.send(ctx, commands.info)
	if errors.Is(err, ipmi.InvalidCommand) {
		commands = deviceRepository()
		info, err = d.conn.send(ctx, commands.info)
	}
	if err != nil {
		return nil, err
	}
	version := commands.version(info)
	if d.sdrs != nil && d.sdrs.version == version {
		return d.sdrs, nil
	}
	// Under the version that it had before it was read: what changes meanwhile is seen
	// the next time.
	if d.unfinished == nil || d.unfinished.version != version {
		d.unfinished = newRepository(version)
	}
	err = d.unfinished.readOn(ctx, newReader(d.conn, commands.reserve, commands.get))
	if err != nil {
		if ctx.Err() == nil {
			d.unfinished = nil // begin anew, the fault may have been in what was read
		}
		return nil, err
	}
	d.sdrs, d.unfinished = d.unfinished, nil
	return d.sdrs, nil
}

// readOn reads the records from r.next on. It ends with the last one, or with one that
// it has read before. A record that can't be read costs that one only.
func (r *repository) readOn(ctx context.Context, from *reader) error {
	for r.next != lastRecord && !r.read[r.next] {
		id := r.next
		record, next, err := from.sdr(ctx, id)
		if errors.Is(err, ipmi.NotPresent) && id == firstRecord && len(record) == 0 {
			return nil // empty
		}
		if err == nil {
			if err = r.add(record); err != nil {
				err = fmt.Errorf("SDR 0x%04x: %w", id, err)
			}
		}
		switch {
		case err == nil:
		case len(record) < headerLength || !ofOne(err):
			return err
		default:
			r.sensors = append(r.sensors, unreadable(id, record, err))
		}
		r.read[id] = true
		r.next = next
	}
	return nil
}

// ofOne reports whether an error is of one record or sensor, and tells nothing of others:
// the BMC has answered. A reservation is lost to somebody else, whichever record is read.
func ofOne(err error) bool {
	code, ok := errors.AsType[ipmi.CompletionCode](err)
	return ok && code != ipmi.ReservationLost || errors.Is(err, ipmi.ErrMalformed)
}

func (r *repository) add(record []byte) error {
	if name, ok := decodeBMC(record); ok && r.bmc == "" {
		r.bmc = name
	}
	sensors, err := decodeSensors(record)
	if err != nil {
		return err
	}
	for _, s := range sensors {
		key := sensorKey{s.sensor.Owner, s.sensor.LUN, s.sensor.Number, s.sensor.Type}
		if _, taken := r.names[key]; !taken {
			r.names[key] = s.sensor.Name
		}
		if !s.eventOnly {
			r.sensors = append(r.sensors, s)
		}
	}
	return nil
}
