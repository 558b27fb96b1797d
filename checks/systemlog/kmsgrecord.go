package systemlog

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// record is one of the kernel log's.
type record struct {
	number    uint64
	sinceBoot time.Duration
	message   string
}

// parseRecord reads "priority,number,microseconds,flags;message", as
// https://www.kernel.org/doc/Documentation/ABI/testing/dev-kmsg has it. What may
// come before the semicolon besides, and the lines of keys and values after the
// message, are left out.
func parseRecord(data []byte) (record, error) {
	prefix, message, found := bytes.Cut(data, []byte(";"))
	fields := strings.Split(string(prefix), ",")
	if !found || len(fields) < 4 {
		return record{}, errors.New("record of the kernel log: it does not begin with four fields and a semicolon")
	}
	number, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return record{}, fmt.Errorf("record of the kernel log: its sequence number: %w", err)
	}
	const most = uint64(1<<63-1) / uint64(time.Microsecond)
	microseconds, err := strconv.ParseUint(fields[2], 10, 64)
	if err == nil && microseconds > most {
		err = strconv.ErrRange
	}
	if err != nil {
		return record{}, fmt.Errorf("record of the kernel log: its time stamp: %w", err)
	}
	text, _, _ := bytes.Cut(message, []byte("\n"))
	return record{
		number:    number,
		sinceBoot: time.Duration(microseconds) * time.Microsecond,
		message:   strings.TrimSpace(string(text)),
	}, nil
}
