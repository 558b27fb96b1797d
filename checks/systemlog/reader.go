package systemlog

import (
	"context"
	"errors"
	"time"

	logtypes "k8s.io/node-problem-detector/pkg/systemlogmonitor/types"
	"k8s.io/utils/clock"
)

// entry is the next line of a log or, if log is nil, the news that all lines
// written before readUpTo have been handed over.
type entry struct {
	log      *logtypes.Log
	readUpTo time.Time
}

// readFunc reads a log from the lines stamped from on, and goes on with what is
// written to it until ctx ends or an error, which it returns. out is unbuffered.
type readFunc func(ctx context.Context, from time.Time, out chan<- entry) error

func newReader(config Config, options Options) readFunc {
	switch config.Plugin {
	case pluginKmsg:
		return kmsg{config.WatcherConfig, options.Clock}.read
	case pluginJournald:
		return journal{
			command:   options.Journalctl,
			directory: config.LogPath,
			source:    config.PluginConfig[keySource],
			clock:     options.Clock,
		}.read
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

const (
	// settle is how long a log that comes as a stream must have been open before
	// what it held then counts as read.
	settle = 5 * time.Second
	// quiet is how long a stream must have been silent for that, unless a line has
	// come that was written since. It is also how much later than the time that it
	// vouches for a stream's news is.
	quiet = time.Second
)

var errStreamEnded = errors.New("the stream of lines has ended")

// stream hands lines over until they, or the program that they come from, have
// ended. A stream does not say where the lines end that the log
// held when it was opened: see settle and quiet.
func stream(ctx context.Context, c clock.Clock, lines <-chan *logtypes.Log, ended <-chan struct{}, out chan<- entry) error {
	opened := c.Now()
	latest, ticked := opened, opened
	current, settled := false, false
	timer := c.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case log, ok := <-lines:
			if !ok {
				return errStreamEnded
			}
			latest = c.Now()
			current = current || !log.Timestamp.Before(opened)
			if err := put(ctx, out, entry{log: log}); err != nil {
				return err
			}
		case <-timer.C():
			now := c.Now()
			settled = settled || now.Sub(opened) >= settle && (current || now.Sub(latest) >= quiet)
			if settled && len(lines) == 0 {
				if err := put(ctx, out, entry{readUpTo: ticked}); err != nil {
					return err
				}
			}
			ticked = now
			timer.Reset(quiet)
		case <-ended:
			for len(lines) > 0 {
				if err := put(ctx, out, entry{log: <-lines}); err != nil {
					return err
				}
			}
			return errStreamEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
