package ipmi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSELRecordsAreDecoded(t *testing.T) {
	tests := []struct {
		name   string
		record SELRecord
		want   Event
	}{
		{
			"an event of a discrete sensor",
			SELRecord{0x07, 0x01, 0x02, 0x01, 0x20, 0x12, 0x69, 0x20, 0, 4, 0x0c, 0x31, 0x6f, 0xa1, 0xff, 0xff},
			Event{
				ID: 0x107, RecordType: 2, Timestamp: 0x69122001, Time: time.Unix(0x69122001, 0).UTC(),
				SensorType: 0x0c, SensorNumber: 0x31, EventType: SensorSpecific, Offset: 1, Asserted: true,
				Owner: BMCAddress, Data: EventData{0xa1, 0xff, 0xff},
			},
		},
		{
			"a deassertion of a threshold, before the clock was set",
			SELRecord{1, 0, 0x02, 0, 0, 0, 0x20, 0x20, 0, 4, 0x04, 2, 0x81, 0x54, 0, 200},
			Event{
				ID: 1, RecordType: 2, Timestamp: 0x20000000, SensorType: 4, SensorNumber: 2, EventType: Threshold, Offset: 4,
				Owner: BMCAddress, Data: EventData{0x54, 0, 200},
			},
		},
		{
			"an event of another controller's LUN 2, over channel 7",
			SELRecord{1, 0, 0x02, 0, 0, 0, 0, 0x2c, 0x72, 4, 0x04, 2, 0x6f},
			Event{ID: 1, RecordType: 2, SensorType: 4, SensorNumber: 2, EventType: SensorSpecific, Asserted: true, Owner: 0x2c, LUN: 2},
		},
		{
			"an event of a BIOS, which has no LUN",
			SELRecord{1, 0, 0x02, 0, 0, 0, 0, 0x33, 0x01, 4, 0x0c, 2, 0x6f},
			Event{ID: 1, RecordType: 2, SensorType: 12, SensorNumber: 2, EventType: SensorSpecific, Asserted: true, Owner: 0x33},
		},
		{
			"an event without a time",
			SELRecord{1, 0, 0x02, 0xff, 0xff, 0xff, 0xff, 0x20, 0, 4, 0x04, 2, 0x01, 2},
			Event{ID: 1, RecordType: 2, Timestamp: 0xffffffff, SensorType: 4, SensorNumber: 2, EventType: Threshold, Offset: 2, Asserted: true, Owner: BMCAddress, Data: EventData{2}},
		},
		{
			"an event with a reserved type",
			SELRecord{1, 0, 0x00, 0, 0, 0, 0, 0x20, 0, 4, 0x0c, 2, 0x6f, 1},
			Event{ID: 1, SensorType: 12, SensorNumber: 2, EventType: SensorSpecific, Offset: 1, Asserted: true, Owner: BMCAddress, Data: EventData{1}},
		},
		{
			"a reserved type, and nothing of an event",
			SELRecord{1, 0, 0x00, 0, 0, 0, 0, 0x20, 0, 0, 0x0c, 2, 0x6f, 1},
			Event{ID: 1},
		},
		{
			"an OEM record with a time",
			SELRecord{9, 0, 0xdf, 0x01, 0x20, 0x12, 0x69, 1, 2, 3, 4, 5, 6, 7, 8, 9},
			Event{ID: 9, RecordType: 0xdf, Timestamp: 0x69122001, Time: time.Unix(0x69122001, 0).UTC()},
		},
		{
			"an OEM record without one",
			SELRecord{9, 0, 0xe0, 0x01, 0x20, 0x12, 0x69, 1, 2, 3, 4, 5, 6, 7, 8, 9},
			Event{ID: 9, RecordType: 0xe0},
		},
	}
	for _, test := range tests {
		test.want.Raw = test.record
		if diff := cmp.Diff(test.want, test.record.Event()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func FuzzSELRecord(f *testing.F) {
	f.Add([]byte{0x07, 0x01, 0x02, 0x01, 0x20, 0x12, 0x69, 0x20, 0, 4, 0x0c, 0x31, 0x6f, 0xa1, 0xff, 0xff})
	f.Add([]byte{9, 0, 0xdf, 0x01, 0x20, 0x12, 0x69, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		var record SELRecord
		copy(record[:], data)
		event := record.Event()
		if event.Offset > 15 || event.EventType > 0x7f || event.StateName() == "" {
			t.Errorf("%x: %+v %q", record, event, event.StateName())
		}
		if !event.Time.IsZero() && event.Time.Unix() != int64(event.Timestamp) {
			t.Errorf("%x: time %v of stamp %d", record, event.Time, event.Timestamp)
		}
	})
}
