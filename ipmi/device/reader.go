package device

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nodemend/nodemend/ipmi"
)

const (
	// wholeRecord asks for as many bytes as the record has.
	wholeRecord = 0xff
	// firstRecord and lastRecord are the ID that asks for the first record, and
	// what follows the last one.
	firstRecord, lastRecord = 0x0000, 0xffff
	// chunkSize is how many bytes of a record are asked for at once. Many BMCs can
	// return no more; those that can't even do that are asked for less.
	chunkSize, smallestChunk = 16, 1
	// reservationRetries is how often a record is begun anew after another
	// reader, or a change, has cancelled the reservation.
	reservationRetries = 8
)

// reader reads the records of the SDR repository or of the SEL in the pieces that the
// BMC is able to return.
type reader struct {
	conn         *conn
	reserve, get command
	chunk        int
	reservation  [2]byte
	// pieces is whether the BMC returns pieces, where it was tried since it does not
	// return whole records.
	pieces bool
}

func newReader(c *conn, reserve, get command) *reader {
	return &reader{conn: c, reserve: reserve, get: get, chunk: chunkSize}
}

// sdr reads an SDR, and says which is next (IPMI 2.0, section 33.12). If only its header
// can be read, that is returned with the error.
func (r *reader) sdr(ctx context.Context, id uint16) (record []byte, next uint16, err error) {
	err = r.reserved(ctx, func() error {
		record = nil
		header, following, err := r.read(ctx, id, 0, headerLength)
		if err != nil {
			return err
		}
		record, next = header, following
		rest, _, err := r.read(ctx, id, headerLength, int(header[headerRest]))
		record = append(record, rest...)
		return err
	})
	if err != nil {
		err = fmt.Errorf("reading SDR 0x%04x: %w", id, err)
	}
	return record, next, err
}

// sel reads a record of the SEL, and says which is next (section 31.5).
func (r *reader) sel(ctx context.Context, id uint16) (record ipmi.SELRecord, next uint16, err error) {
	var data []byte
	err = r.reserved(ctx, func() error {
		if !r.pieces {
			data, next, err = r.piece(ctx, id, 0, wholeRecord)
			if !tooLong(err) {
				return err
			}
		}
		data, next, err = r.read(ctx, id, 0, len(record))
		return err
	})
	if err == nil && len(data) < len(record) {
		err = fmt.Errorf("%w: %d bytes of %d", ipmi.ErrMalformed, len(data), len(record))
	}
	if err != nil {
		return record, 0, fmt.Errorf("reading SEL record 0x%04x: %w", id, err)
	}
	copy(record[:], data)
	return record, next, nil
}

// reserved calls read, and again with a new reservation each time that it was lost. A
// record whose pieces were read under two reservations might be of two records.
func (r *reader) reserved(ctx context.Context, read func() error) error {
	for attempt := 0; ; attempt++ {
		err := read()
		if !errors.Is(err, ipmi.ReservationLost) || attempt == reservationRetries {
			return err
		}
		if attempt > 0 { // somebody else wants the reservation, too
			if err := r.conn.pause(ctx, busyPause); err != nil {
				return err
			}
		}
		answer, err := r.conn.send(ctx, r.reserve)
		if err != nil {
			return err
		}
		r.reservation = [2]byte(answer)
	}
}

// read reads so many bytes of a record in chunks, which it makes smaller until the BMC
// returns them.
func (r *reader) read(ctx context.Context, id uint16, offset, length int) (data []byte, next uint16, err error) {
	if r.reservation == [2]byte{} {
		return nil, 0, ipmi.ReservationLost // never had
	}
	chunk := r.chunk
	for len(data) < length {
		size := min(length-len(data), chunk)
		var piece []byte
		piece, next, err = r.piece(ctx, id, uint8(offset+len(data)), uint8(size))
		switch {
		case tooLong(err) && size > smallestChunk:
			chunk = size / 2
		case err != nil:
			return nil, 0, err
		case len(piece) == 0:
			return nil, 0, fmt.Errorf("%s: %w: no bytes at offset %d", r.get.name, ipmi.ErrMalformed, offset+len(data))
		default:
			data = append(data, piece[:min(len(piece), size)]...)
			r.chunk, r.pieces = chunk, true
		}
	}
	return data, next, nil
}

func (r *reader) piece(ctx context.Context, id uint16, offset, length uint8) (data []byte, next uint16, err error) {
	answer, err := r.conn.send(ctx, r.get, r.reservation[0], r.reservation[1], byte(id), byte(id>>8), offset, length)
	if err != nil {
		return nil, 0, err
	}
	return answer[2:], binary.LittleEndian.Uint16(answer), nil
}

// tooLong reports whether the BMC may return the same bytes in smaller pieces. Not
// all BMCs answer with the code that is meant for that.
func tooLong(err error) bool {
	code, _ := errors.AsType[ipmi.CompletionCode](err)
	switch code {
	case ipmi.CannotReturnBytes, ipmi.InvalidLength, ipmi.LengthLimitExceeded, ipmi.OutOfRange, ipmi.InvalidField,
		ipmi.UnspecifiedError,
		ipmi.ProcessingTimeout: // to 16 bytes of an SDR: FreeIPMI's issue 29
		return true
	default:
		return false
	}
}
