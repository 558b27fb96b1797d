package detector

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Limits. The controller takes a report of a problem for outdated after two
// minutes and a healthy one after seven; jitter and the check's own interval
// come on top of a heartbeat.
const (
	minHeartbeat        = time.Second
	maxHeartbeat        = 5 * time.Minute
	maxProblemHeartbeat = time.Minute
	minCheckInterval    = time.Second
	maxCheckInterval    = 30 * time.Second
	minTimeout          = 100 * time.Millisecond
)

// Validate returns all that is wrong with the configuration, joined; nil if
// nothing is.
func (c Config) Validate() error {
	var errs []error
	for _, p := range c.problems() {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

// problem is a value that can't be accepted.
type problem struct {
	path []string
	text string
}

func (p problem) Error() string { return strings.Join(p.path, ".") + ": " + p.text }

type problems []problem

func (p *problems) add(text string, path ...string) {
	*p = append(*p, problem{path: path, text: text})
}

func (p *problems) within(d Duration, least, most time.Duration, why string, path ...string) {
	if d.Duration < least || d.Duration > most {
		p.add(fmt.Sprintf("%s is not between %s and %s%s", d, least, most, why), path...)
	}
}

func (c Config) problems() (found problems) {
	const outdated = ": the controller would take reports for outdated"
	found.within(c.Heartbeat.Interval, minHeartbeat, maxHeartbeat, outdated, "heartbeat", "interval")
	found.within(c.Heartbeat.ProblemInterval, minHeartbeat, maxProblemHeartbeat, outdated, "heartbeat", "problemInterval")

	if r := c.Checks.ContainerRuntime; r.Enabled {
		at := func(field string) []string { return []string{"checks", "containerRuntime", field} }
		if path, isUnix := strings.CutPrefix(r.Endpoint, "unix://"); !isUnix || !strings.HasPrefix(path, "/") {
			found.add(fmt.Sprintf("%q is not a unix socket with an absolute path, such as unix:///run/containerd/containerd.sock", r.Endpoint), at("endpoint")...)
		}
		found.within(r.Interval, minCheckInterval, maxCheckInterval, outdated, at("interval")...)
		found.within(r.Timeout, minTimeout, max(minTimeout, r.Interval.Duration), " (the interval)", at("timeout")...)
	} else {
		found.add("no check is enabled: enable one, or do not run the detector", "checks")
	}
	return found
}
