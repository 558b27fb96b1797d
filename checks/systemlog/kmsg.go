package systemlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// maxRecord is the kernel's own limit for a record, in bytes.
const maxRecord = 8 << 10

// kmsg reads the kernel's ring buffer. Each read(2) returns one record, or EAGAIN
// after the last one: then all that was written before has been read. See
// https://www.kernel.org/doc/Documentation/ABI/testing/dev-kmsg.
type kmsg struct {
	open  func() (*os.File, error)
	fetch func(fd int, p []byte) (int, error) // read(2)
	clock clock.Clock
	// zero is the time that records count from. It stays the same when the log is
	// opened again, so that a record keeps its time stamp.
	zero time.Time
}

func newKmsg(c clock.Clock) *kmsg {
	return &kmsg{
		open:  func() (*os.File, error) { return os.OpenFile("/dev/kmsg", os.O_RDONLY|unix.O_NONBLOCK, 0) },
		fetch: unix.Read,
		clock: c,
	}
}

func (k *kmsg) read(ctx context.Context, from time.Time, out chan<- entry, _ <-chan struct{}) error {
	if k.zero.IsZero() {
		// Unlike the other clocks this one neither is slewed nor counts suspension,
		// as the kernel's for records.
		var sinceBoot unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &sinceBoot); err != nil {
			return fmt.Errorf("asking for the time since boot: %w", err)
		}
		k.zero = k.clock.Now().Add(-time.Duration(sinceBoot.Nano()))
	}
	device, err := k.open()
	if err != nil {
		return fmt.Errorf("opening the kernel log: %w; the detector needs /dev/kmsg of the host and the capability CAP_SYSLOG", err)
	}
	defer context.AfterFunc(ctx, func() { _ = device.Close() })()
	defer func() { _ = device.Close() }() // it was only read
	return k.follow(ctx, device, from, out)
}

func (k *kmsg) follow(ctx context.Context, device *os.File, from time.Time, out chan<- entry) error {
	wanted := since{from: from, opened: k.clock.Now()}
	buffer := make([]byte, maxRecord)
	var next, lost uint64
	for {
		began := k.clock.Now()
		n, atEnd, err := k.next(device, buffer)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("reading the kernel log: %w", err)
		}
		if atEnd { // what was read after that is newer
			if lost > 0 {
				klog.FromContext(ctx).Error(nil, "Lines of the kernel log were overwritten before they could be read", "lines", lost)
				lost = 0
			}
			wanted.caughtUp = true
			if err := put(ctx, out, entry{readUpTo: began}); err != nil {
				return err
			}
		}
		if n == 0 {
			continue
		}
		r, err := parseRecord(buffer[:n])
		if err != nil {
			klog.FromContext(ctx).Error(err, "Record of the kernel log is passed over", "bytes", n)
			continue
		}
		if next > 0 && r.number > next {
			lost += r.number - next
		}
		next = r.number + 1
		stamp := k.zero.Add(r.sinceBoot)
		if !wanted.wants(stamp) || r.message == "" {
			continue
		}
		if err := put(ctx, out, entry{log: &logLine{Timestamp: stamp, Message: r.message}}); err != nil {
			return err
		}
	}
}

// next waits for the next record, at most for pollInterval; n is zero if none has
// come. atEnd says that since next was called there was none at some time.
func (k *kmsg) next(device *os.File, p []byte) (n int, atEnd bool, err error) {
	conn, err := device.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	if err := device.SetReadDeadline(time.Now().Add(pollInterval)); err != nil {
		return 0, false, err
	}
	waited := conn.Read(func(fd uintptr) (done bool) {
		n, err = k.fetch(int(fd), p)
		// EPIPE: the next record was overwritten; reading goes on with the oldest.
		for errors.Is(err, unix.EINTR) || errors.Is(err, unix.EPIPE) {
			n, err = k.fetch(int(fd), p)
		}
		if errors.Is(err, unix.EAGAIN) {
			n, err, atEnd = 0, nil, true
			return false
		}
		return true
	})
	switch {
	case err != nil:
		return 0, atEnd, os.NewSyscallError("read", err)
	case errors.Is(waited, os.ErrDeadlineExceeded):
		return 0, atEnd, nil
	case waited == nil && n == 0:
		return 0, atEnd, errors.New("it has ended: is /dev/kmsg the device?")
	default:
		return n, atEnd, waited
	}
}
