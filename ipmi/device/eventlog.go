package device

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nodemend/nodemend/ipmi"
)

// selReads is how often the SEL is read anew after it was changed in the middle.
const selReads = 3

// Errors of one reading of the SEL.
var (
	// errGone is that of a record that was there a moment ago.
	errGone = errors.New("the SEL was changed while it was read")
	// errShort is that of an end that came too early.
	errShort = errors.New("the SEL ends too early")
)

// selInfo is the state of the SEL (IPMI 2.0, section 31.2).
type selInfo struct {
	entries, free uint16
	added, erased uint32
	overflow      bool
}

// wrapping reports whether new records may take the place of old ones, so that
// their number tells nothing.
func (i selInfo) wrapping() bool { return i.overflow || i.free == 0 }

// selState is up to where the SEL was read, and its state then.
type selState struct {
	info selInfo
	next ipmi.Cursor
}

func (d *Device) selInfo(ctx context.Context) (selInfo, error) {
	answer, err := d.conn.send(ctx, getSELInfo)
	if err != nil {
		return selInfo{}, err
	}
	const never = 0xffffffff
	info := selInfo{
		entries:  binary.LittleEndian.Uint16(answer[1:]),
		free:     binary.LittleEndian.Uint16(answer[3:]),
		added:    binary.LittleEndian.Uint32(answer[5:]),
		erased:   binary.LittleEndian.Uint32(answer[9:]),
		overflow: answer[13]&0x80 != 0,
	}
	if info.erased == never {
		info.erased = 0
	}
	return info, nil
}

// Timestamp returns the time by the clock of the SEL, as its records have it: seconds since 1970, or
// at most 0x20000000 for seconds since the BMC's start.
func (d *Device) Timestamp(ctx context.Context) (uint32, error) {
	answer, err := d.conn.send(ctx, getSELTime)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(answer), nil
}

// Events returns the records after the cursor. It reads no record at all if the BMC
// says that none has come or gone since the last call.
//
// A SEL from which anything was erased counts as restarted.
func (d *Device) Events(ctx context.Context, after ipmi.Cursor) (ipmi.EventLog, error) {
	info, err := d.selInfo(ctx)
	if err != nil {
		return ipmi.EventLog{}, err
	}
	if d.sel != nil && d.sel.next == after && d.sel.info == info && !info.wrapping() {
		return ipmi.EventLog{Next: after, Total: int(info.entries), Full: info.overflow}, nil
	}
	short := -1 // so many records were read, which are too few
	for attempt := range selReads {
		var log ipmi.EventLog
		log, err = d.readSEL(ctx, info, after, attempt > 0)
		switch {
		case errors.Is(err, ipmi.ErrPartial):
			d.sel = nil
			return d.named(ctx, log), err
		case err != nil && !errors.Is(err, errGone):
			return ipmi.EventLog{}, err
		}
		now, infoErr := d.selInfo(ctx)
		switch {
		case infoErr != nil && err == nil && ctx.Err() != nil && len(log.Events) > 0:
			d.sel = nil
			return d.named(ctx, log), fmt.Errorf("%w: %w", ipmi.ErrPartial, infoErr)
		case infoErr != nil:
			return ipmi.EventLog{}, infoErr
		}
		switch {
		case err != nil || now.erased != info.erased:
			err = errGone
		case log.Next.Records < int(info.entries) && !info.wrapping() && len(log.Events) != short:
			err = fmt.Errorf("%w: %d of %d records could be read", errShort, log.Next.Records, info.entries)
			short = len(log.Events)
		default:
			// Twice the same: the BMC counts in a way of its own.
			log.Next.Records = max(log.Next.Records, int(info.entries))
			d.sel = nil
			if now == info {
				d.sel = &selState{info: info, next: log.Next}
			}
			return d.named(ctx, log), nil
		}
		info = now
	}
	return ipmi.EventLog{}, fmt.Errorf("%w, %d times", err, selReads)
}

// readSEL reads the records after the cursor, or all of them if it has no place in the
// SEL any more. again is whether that was done just now, in vain.
func (d *Device) readSEL(ctx context.Context, info selInfo, after ipmi.Cursor, again bool) (ipmi.EventLog, error) {
	log := ipmi.EventLog{Next: after, Total: int(info.entries), Full: info.overflow}
	first, ok, err := d.findCursor(ctx, info, after)
	if err != nil {
		return ipmi.EventLog{}, err
	}
	before := after.Records
	if ok {
		if log.Events, err = d.readFrom(ctx, first, after.ID); err != nil && !errors.Is(err, ipmi.ErrPartial) {
			return ipmi.EventLog{}, err
		}
		isShort := before != 0 && before+len(log.Events) < int(info.entries)
		if err == nil && len(log.Events) == 0 && (again || !isShort) && d.unexpectedlyNone(info, after) {
			ok = false
		}
		if before == 0 && err == nil { // nobody has counted them
			before = max(0, int(info.entries)-len(log.Events))
		}
	}
	if !ok {
		before = 0
		log.Restarted = after.Read
		log.Next = ipmi.Cursor{}
		if log.Events, err = d.readAll(ctx, info); err != nil && !errors.Is(err, ipmi.ErrPartial) {
			return ipmi.EventLog{}, err
		}
	}
	if last := len(log.Events) - 1; last >= 0 {
		log.Next = ipmi.Cursor{ID: log.Events[last].ID, Timestamp: log.Events[last].Timestamp, Read: true}
	}
	log.Next.Erased = info.erased
	if ok && before == 0 && err != nil {
		log.Next.Records = 0 // not known
	} else {
		log.Next.Records = before + len(log.Events)
	}
	return log, err
}

// unexpectedlyNone reports whether the SEL has grown since it was read up to the cursor,
// although no record follows that one: so it is not in the order of time.
func (d *Device) unexpectedlyNone(info selInfo, after ipmi.Cursor) bool {
	return d.sel != nil && d.sel.next == after && (info.entries > d.sel.info.entries || info.added != d.sel.info.added)
}

// findCursor returns the ID of the record that follows the cursor, or false if the
// record of the cursor is not there, or is another one with the same ID.
func (d *Device) findCursor(ctx context.Context, info selInfo, after ipmi.Cursor) (next uint16, ok bool, err error) {
	if !after.Read || after.Erased != info.erased || info.entries == 0 {
		return 0, false, nil
	}
	record, next, err := d.selReader.sel(ctx, after.ID)
	switch {
	case errors.Is(err, ipmi.NotPresent):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	default:
		return next, record.Timestamp() == after.Timestamp, nil
	}
}

// readAll reads the whole SEL.
func (d *Device) readAll(ctx context.Context, info selInfo) ([]ipmi.Event, error) {
	if info.entries == 0 {
		return nil, nil
	}
	return d.readFrom(ctx, firstRecord, lastRecord)
}

// readFrom reads the records from that ID on, up to the last one, or to one that was
// read before. When there is no more time, it returns those that it has, with ErrPartial.
func (d *Device) readFrom(ctx context.Context, id, before uint16) (events []ipmi.Event, err error) {
	read := map[uint16]bool{before: true}
	for id != lastRecord && !read[id] {
		record, next, err := d.selReader.sel(ctx, id)
		switch {
		case errors.Is(err, ipmi.NotPresent):
			return nil, errGone
		case err != nil && ctx.Err() != nil && len(events) > 0:
			return events, fmt.Errorf("%w: %d records: %w", ipmi.ErrPartial, len(events), err)
		case err != nil:
			return nil, err
		}
		event := record.Event()
		if id != firstRecord {
			event.ID = id // some BMCs put another one into the record
		}
		read[event.ID] = true
		events = append(events, event)
		id = next
	}
	return events, nil
}

// named adds the names of their sensors to the events, as far as they can be read: the
// records count without them.
func (d *Device) named(ctx context.Context, log ipmi.EventLog) ipmi.EventLog {
	for i := range log.Events {
		event := &log.Events[i]
		if !event.OfSensor() {
			continue
		}
		if d.sdrs == nil {
			if _, err := d.repository(ctx); err != nil {
				break
			}
		}
		event.SensorName = d.sdrs.names[sensorKey{event.Owner, event.LUN, event.SensorNumber, event.SensorType}]
	}
	return log
}
