package systemlog

import (
	"context"
	"fmt"
	"time"

	"k8s.io/node-problem-detector/pkg/systemlogmonitor/logwatchers"
	watchertypes "k8s.io/node-problem-detector/pkg/systemlogmonitor/logwatchers/types"
	"k8s.io/utils/clock"
)

// kmsg reads the kernel's ring buffer with NPD's watcher, which opens /dev/kmsg
// again by itself when reading fails.
type kmsg struct {
	config watchertypes.WatcherConfig
	clock  clock.Clock
}

func (k kmsg) read(ctx context.Context, from time.Time, out chan<- entry) error {
	config := k.config
	// from has the delay in it. Of a time to come, the lookback is negative.
	config.Plugin, config.Lookback, config.Delay = pluginKmsg, k.clock.Since(from).String(), ""
	watcher := logwatchers.GetLogWatcherOrDie(config)
	lines, err := watcher.Watch()
	if err != nil {
		return fmt.Errorf("opening the kernel log: %w; the detector needs /dev/kmsg of the host and the capability CAP_SYSLOG", err)
	}
	defer watcher.Stop()
	return stream(ctx, k.clock, lines, nil, out)
}
