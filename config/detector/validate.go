package detector

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
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
	maxTimeout          = 30 * time.Second // or the interval, if that is longer
	maxThreshold        = 100
	maxGrace            = time.Hour
	maxWindow           = 24 * time.Hour
)

const outdated = ": the controller would take reports for outdated"

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

func (p *problems) count(n, least int, path ...string) {
	if n < least || n > maxThreshold {
		p.add(fmt.Sprintf("%d is not between %d and %d", n, least, maxThreshold), path...)
	}
}

func (c Config) problems() (found problems) {
	found.within(c.Heartbeat.Interval, minHeartbeat, maxHeartbeat, outdated, "heartbeat", "interval")
	found.within(c.Heartbeat.ProblemInterval, minHeartbeat, maxProblemHeartbeat, outdated, "heartbeat", "problemInterval")
	found.path(c.StateFile, "stateFile")
	found.path(c.Socket, "socket")
	found.url(c.Kubelet.Endpoint, "https", "kubelet", "endpoint")
	found.url(c.Kubelet.HealthzEndpoint, "http", "kubelet", "healthzEndpoint")
	for _, file := range c.Kubelet.CertificateFiles {
		found.path(file, "kubelet", "certificateFiles")
	}
	c.Checks.problems(&found)
	found.within(c.CustomPlugins.ProblemInterval, minCheckInterval, maxProblemHeartbeat, outdated, "customPlugins", "problemInterval")
	for _, name := range slices.Sorted(maps.Keys(c.Conditions)) {
		condition := c.Conditions[name]
		if err := CheckConditionType(name); err != nil {
			found.add(err.Error(), "conditions", name)
		}
		found.count(condition.FailureThreshold, 0, "conditions", name, "failureThreshold")
		found.count(condition.SuccessThreshold, 0, "conditions", name, "successThreshold")
		found.within(condition.ClearAfter, 0, 30*maxWindow, "", "conditions", name, "clearAfter")
	}
	return found
}

func (p *problems) path(file string, path ...string) {
	if file != "" && !filepath.IsAbs(file) {
		p.add(fmt.Sprintf("%q is not an absolute path", file), path...)
	}
}

func (p *problems) folders(names []string, path ...string) {
	for _, name := range names {
		if !filepath.IsAbs(name) || filepath.Clean(name) != name {
			p.add(fmt.Sprintf("%q is not an absolute path without .. and without a / at its end", name), path...)
		}
	}
}

func (p *problems) url(text, scheme string, path ...string) {
	if u, err := url.Parse(text); err != nil || u.Scheme != scheme || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		p.add(fmt.Sprintf("%q is not an address such as %s://127.0.0.1:10250", text, scheme), path...)
	}
}
