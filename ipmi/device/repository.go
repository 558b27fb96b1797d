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
}

// sensorKey is how events name a sensor.
type sensorKey struct {
	owner, number uint8
	sensorType    ipmi.SensorType
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
	if d.sdrs == nil || d.sdrs.version != version {
		// Under the version that it had before it was read: what changes
		// meanwhile is seen the next time.
		read, err := readRepository(ctx, newReader(d.conn, commands.reserve, commands.get))
		if err != nil {
			return nil, err
		}
		read.version = version
		d.sdrs = read
	}
	return d.sdrs, nil
}

// readRepository reads all records. It ends with the last one, or with one that it
// has read before.
func readRepository(ctx context.Context, r *reader) (*repository, error) {
	repo := &repository{names: map[sensorKey]string{}}
	read := map[uint16]bool{}
	for id := uint16(firstRecord); id != lastRecord && !read[id]; {
		read[id] = true
		record, next, err := r.sdr(ctx, id)
		if errors.Is(err, ipmi.NotPresent) && id == firstRecord {
			break // empty
		}
		if err != nil {
			return nil, err
		}
		if err := repo.add(record); err != nil {
			return nil, fmt.Errorf("SDR 0x%04x: %w", id, err)
		}
		id = next
	}
	return repo, nil
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
		key := sensorKey{s.owner, s.sensor.Number, s.sensor.Type}
		if _, taken := r.names[key]; !taken {
			r.names[key] = s.sensor.Name
		}
		if !s.eventOnly {
			r.sensors = append(r.sensors, s)
		}
	}
	return nil
}
