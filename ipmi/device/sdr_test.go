package device

import (
	"errors"
	"testing"

	"github.com/nodemend/nodemend/ipmi"
)

func TestRecordsThatAreCutOffAreErrors(t *testing.T) {
	for recordType, shortest := range map[uint8]int{recordFull: 48, recordCompact: 32, recordEventOnly: 17} {
		record := make([]byte, shortest)
		record[headerType] = recordType
		if sensors, err := decodeSensors(record); err != nil || len(sensors) != 1 {
			t.Errorf("type %d with %d bytes: %v, %v", recordType, shortest, sensors, err)
		}
		for length := range shortest {
			if _, err := decodeSensors(record[:length]); length > headerType && !errors.Is(err, ipmi.ErrMalformed) {
				t.Errorf("type %d with %d bytes: %v", recordType, length, err)
			}
		}
	}
}

func FuzzSDR(f *testing.F) {
	for recordType, length := range map[uint8]int{recordFull: 64, recordCompact: 48, recordEventOnly: 33, recordBMC: 32, 0xc0: 5} {
		record := make([]byte, length)
		record[headerType], record[headerRest] = recordType, uint8(length-headerLength)
		f.Add(record)
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		repo := &repository{names: map[sensorKey]string{}}
		if err := repo.add(record); err != nil && !errors.Is(err, ipmi.ErrMalformed) {
			t.Error(err)
		}
		if len(repo.sensors) > 15 || len(repo.names) > 15 {
			t.Errorf("%d sensors in one record", len(repo.sensors))
		}
		for _, s := range repo.sensors {
			if s.conversion != nil && s.sensor.EventType != ipmi.Threshold {
				t.Errorf("%+v", s)
			}
		}
	})
}
