package systemlog

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// logLine is one line of a log.
type logLine struct {
	Timestamp time.Time
	Message   string
}

// entry is the next line of a log. If log is nil, it says that all lines written before readUpTo
// have been handed over; if readUpTo is zero, too, only that reading has got on.
type entry struct {
	log      *logLine
	readUpTo time.Time
}

// readFunc reads a log from the lines stamped from on, and goes on with what is
// written to it until ctx ends or an error, which it returns. It says how far it
// has read at least once per interval, and soon after asked has received. out is
// unbuffered.
type readFunc func(ctx context.Context, from time.Time, out chan<- entry, asked <-chan struct{}) error

func newReader(config Config, options Options) readFunc {
	switch config.Plugin {
	case pluginKmsg:
		return newKmsg(options.Clock).read
	case pluginJournald:
		return (&journal{
			command:   options.Journalctl,
			directory: config.LogPath,
			source:    config.PluginConfig[keySource],
			interval:  options.Interval,
			clock:     options.Clock,
		}).read
	default:
		return file{
			path:       config.LogPath,
			skip:       config.SkipList,
			translator: newTranslator(config.PluginConfig, options.Clock),
			clock:      options.Clock,
		}.read
	}
}

func put(ctx context.Context, out chan<- entry, e entry) error {
	select {
	case out <- e:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func pause(ctx context.Context, c clock.Clock, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
