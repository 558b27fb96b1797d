package systemlog

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"k8s.io/utils/clock"
)

var (
	errUndated   = errors.New("no time stamp found")
	errNoMessage = errors.New("no message found")
)

// translator finds the time stamp and the message of a line of a text file. Each
// is the last group of its regular expression, or all that matches if it has none.
type translator struct {
	timestamp *regexp.Regexp
	message   *regexp.Regexp
	layout    string
	clock     clock.PassiveClock
}

// newTranslator needs a valid configuration.
func newTranslator(pluginConfig map[string]string, c clock.PassiveClock) translator {
	return translator{
		timestamp: regexp.MustCompile(pluginConfig[keyTimestamp]),
		message:   regexp.MustCompile(pluginConfig[keyMessage]),
		layout:    pluginConfig[keyTimestampFormat],
		clock:     c,
	}
}

// translate returns an error that wraps errUndated or errNoMessage if line has no
// time stamp or no message.
func (t translator) translate(line string) (*logLine, error) {
	stamps := t.timestamp.FindStringSubmatch(line)
	if stamps == nil {
		return nil, errUndated
	}
	stamp, err := time.ParseInLocation(t.layout, stamps[len(stamps)-1], time.Local)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUndated, err)
	}
	messages := t.message.FindStringSubmatch(line)
	if messages == nil {
		return nil, errNoMessage
	}
	return &logLine{Timestamp: withYear(stamp, t.clock.Now()), Message: messages[len(messages)-1]}, nil
}

// withYear gives a stamp without a year the one that brings it next to now, but
// not more than a day after it: what is stamped December in January is old.
func withYear(stamp, now time.Time) time.Time {
	if stamp.Year() != 0 {
		return stamp
	}
	dated := stamp.AddDate(now.Year(), 0, 0)
	if dated.After(now.AddDate(0, 0, 1)) {
		return stamp.AddDate(now.Year()-1, 0, 0)
	}
	return dated
}
