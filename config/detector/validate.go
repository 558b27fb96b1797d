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
		found.count(condition.FailureThreshold, 0, "conditions", name, "failureThreshold")
		found.count(condition.SuccessThreshold, 0, "conditions", name, "successThreshold")
		found.within(condition.ClearAfter, 0, 30*maxWindow, "", "conditions", name, "clearAfter")
	}
	return found
}

func (c Checks) problems(found *problems) {
	if r := c.Runtime; r.Enabled {
		found.run(r.Run, r.Timeout, "checks", "runtime")
		if path, isUnix := strings.CutPrefix(r.Endpoint, "unix://"); r.Endpoint != "" && (!isUnix || !strings.HasPrefix(path, "/")) {
			found.add(fmt.Sprintf("%q is not a unix socket with an absolute path, such as unix:///run/containerd/containerd.sock", r.Endpoint),
				"checks", "runtime", "endpoint")
		}
	}
	if p := c.PLEG; p.Enabled {
		found.run(p.Run, p.Timeout, "checks", "pleg")
		found.within(p.MaxLastSeen, 10*time.Second, 3*time.Minute, ", when the kubelet itself reports it", "checks", "pleg", "maxLastSeen")
		found.within(p.KubeletGrace, 0, maxGrace, "", "checks", "pleg", "kubeletGrace")
	}
	if k := c.Kubelet; k.Enabled {
		found.run(k.Run, k.Timeout, "checks", "kubelet")
		found.count(k.MaxRestarts, 0, "checks", "kubelet", "maxRestarts")
		found.within(k.RestartWindow, time.Minute, maxWindow, "", "checks", "kubelet", "restartWindow")
	}
	if c.Hardware.Enabled {
		c.Hardware.problems(found)
	}
}

func (h Hardware) problems(found *problems) {
	at := func(field ...string) []string { return append([]string{"checks", "hardware"}, field...) }
	found.runWithin(maxHeartbeat, h.Run, h.Timeout, at()...)
	if !slices.Contains([]string{SourceAuto, SourceDevice, SourceIPMITool}, h.Source) {
		found.add(fmt.Sprintf("%q is none of %s, %s and %s", h.Source, SourceAuto, SourceDevice, SourceIPMITool), at("source")...)
	}
	found.path(h.Device, at("device")...)
	if h.StateFile == "" {
		found.add("is empty: acknowledgements and the place in the System Event Log have to be kept", at("stateFile")...)
	}
	found.path(h.StateFile, at("stateFile")...)
	t := h.IPMITool
	found.path(t.PasswordFile, at("ipmitool", "passwordFile")...)
	found.path(t.KeyFile, at("ipmitool", "keyFile")...)
	if t.Port < 1 || t.Port > 65535 {
		found.add(fmt.Sprintf("%d is no UDP port", t.Port), at("ipmitool", "port")...)
	}
	if t.CipherSuite < 1 || t.CipherSuite > 255 {
		found.add(fmt.Sprintf("%d is not between 1 and 255", t.CipherSuite), at("ipmitool", "cipherSuite")...)
	}
	if t.Host != "" && t.PasswordFile == "" {
		found.add("is missing: a host is given", at("ipmitool", "passwordFile")...)
	}
	for _, mistake := range h.Rules.Validate() {
		found.add(mistake.Text, at(append([]string{"rules"}, mistake.Path...)...)...)
	}
}

// run judges what all checks have, of the check at path.
func (p *problems) run(r Run, timeout Duration, path ...string) {
	p.runWithin(maxCheckInterval, r, timeout, path...)
}

func (p *problems) runWithin(longest time.Duration, r Run, timeout Duration, path ...string) {
	at := func(field string) []string { return append(slices.Clone(path), field) }
	p.within(r.Interval, minCheckInterval, longest, outdated, at("interval")...)
	p.within(timeout, minTimeout, max(minTimeout, r.Interval.Duration), " (the interval)", at("timeout")...)
	p.count(r.FailureThreshold, 1, at("failureThreshold")...)
	p.count(r.SuccessThreshold, 1, at("successThreshold")...)
	p.within(r.StartupGrace, 0, maxGrace, "", at("startupGrace")...)
}

func (p *problems) path(file string, path ...string) {
	if file != "" && !filepath.IsAbs(file) {
		p.add(fmt.Sprintf("%q is not an absolute path", file), path...)
	}
}

func (p *problems) url(text, scheme string, path ...string) {
	if u, err := url.Parse(text); err != nil || u.Scheme != scheme || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		p.add(fmt.Sprintf("%q is not an address such as %s://127.0.0.1:10250", text, scheme), path...)
	}
}
