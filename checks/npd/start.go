package npd

import (
	"time"

	"k8s.io/node-problem-detector/pkg/util"
)

// Uptime returns for how long the node has been up, in whole seconds.
func Uptime() (time.Duration, error) { return util.GetUptimeDuration() }

// StartTime returns from when on a log is read, by the settings of its file: from
// lookback before now, but not from before the boot and delay. Both are durations,
// empty for none. It may be after now.
func StartTime(now time.Time, uptime time.Duration, lookback, delay string) (time.Time, error) {
	return util.GetStartTime(now, uptime, lookback, delay)
}
