package serverclock

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is how long ago the machine has booted, suspensions included, which differs from
// process to process only by a constant.
func sinceBoot() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // every Linux has it
	return time.Duration(t.Nano())
}
