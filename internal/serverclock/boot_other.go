//go:build !linux

package serverclock

import "time"

// started is when this program began.
var started = time.Now()

// sinceBoot stands in for the time since the boot where only the plugin runs, which reads no
// clock by it: the time since the program began.
func sinceBoot() time.Duration { return time.Since(started) }
