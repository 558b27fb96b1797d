package detector

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Checks holds the settings of each check, by its name.
type Checks struct {
	// Only are the names of the checks that may run; empty: all. One that comes with a
	// later release does not run by itself on a node where they are named.
	Only       []string     `yaml:"only"`
	Runtime    Runtime      `yaml:"runtime"`
	PLEG       PLEG         `yaml:"pleg"`
	Kubelet    KubeletCheck `yaml:"kubelet"`
	Hardware   Hardware     `yaml:"hardware"`
	Filesystem Filesystem   `yaml:"filesystem"`
	Exhaustion Exhaustion   `yaml:"exhaustion"`
	Tasks      Tasks        `yaml:"tasks"`
	Clock      Clock        `yaml:"clock"`
	Network    Network      `yaml:"network"`
	Drives     Drives       `yaml:"drives"`
	Memory     Memory       `yaml:"memory"`
	GPU        GPU          `yaml:"gpu"`
	Services   Services     `yaml:"services"`
}

// settings are those of one check.
type settings interface {
	// setDefaults sets all of them to what an empty file stands for.
	setDefaults()
	// problems adds what is wrong with them; at returns the path of a field.
	problems(found *problems, at func(field ...string) []string)
	enabled() bool
}

type namedSettings struct {
	name string
	settings
}

// all are the settings of all checks.
func (c *Checks) all() []namedSettings {
	return []namedSettings{
		{"runtime", &c.Runtime}, {"pleg", &c.PLEG}, {"kubelet", &c.Kubelet}, {"hardware", &c.Hardware},
		{"filesystem", &c.Filesystem}, {"exhaustion", &c.Exhaustion}, {"tasks", &c.Tasks},
		{"clock", &c.Clock}, {"network", &c.Network}, {"drives", &c.Drives}, {"memory", &c.Memory},
		{"gpu", &c.GPU}, {"services", &c.Services},
	}
}

// Runs returns whether the check of this name is enabled and may run.
func (c *Checks) Runs(name string) bool {
	return (len(c.Only) == 0 || slices.Contains(c.Only, name)) &&
		slices.ContainsFunc(c.all(), func(s namedSettings) bool { return s.name == name && s.enabled() })
}

// names are those of all checks.
func (c *Checks) names() (names []string) {
	for _, check := range c.all() {
		names = append(names, check.name)
	}
	return names
}

// Run holds what every check has: when it runs, and how often in a row it must
// find the same before that is reported.
type Run struct {
	Enabled bool `yaml:"enabled"`
	// Interval between the starts of two runs; jittered. A run that takes longer is
	// followed by the next one at once.
	Interval Duration `yaml:"interval"`
	// Timeout of one run. Of the check of the runtime it is that of each call.
	Timeout Duration `yaml:"timeout"`
	// FailureThreshold is how many runs in a row must find a problem, or fail
	// to tell, before a condition becomes True, or Unknown.
	FailureThreshold int `yaml:"failureThreshold"`
	// SuccessThreshold is how many runs in a row must find no problem before a
	// condition becomes False again.
	SuccessThreshold int `yaml:"successThreshold"`
	// StartupGrace is how long after the node has booted problems are not
	// reported.
	StartupGrace Duration `yaml:"startupGrace"`
}

// defaultRun is what checks have that ask programs of this node.
func defaultRun() Run {
	return Run{
		Enabled: true, Interval: Duration{10 * time.Second}, Timeout: Duration{8 * time.Second},
		FailureThreshold: 2, SuccessThreshold: 2, StartupGrace: Duration{2 * time.Minute},
	}
}

func (r *Run) enabled() bool { return r.Enabled }

// problemsWithin adds what is wrong if the longest interval is this.
func (r *Run) problemsWithin(longest time.Duration, found *problems, at func(field ...string) []string) {
	found.within(r.Interval, minCheckInterval, longest, outdated, at("interval")...)
	found.within(r.Timeout, minTimeout, max(maxTimeout, min(r.Interval.Duration, longest)), "", at("timeout")...)
	found.count(r.FailureThreshold, 1, at("failureThreshold")...)
	found.count(r.SuccessThreshold, 1, at("successThreshold")...)
	found.within(r.StartupGrace, 0, maxGrace, "", at("startupGrace")...)
}

func (c *Checks) problems(found *problems) {
	for _, name := range c.Only {
		if known := c.names(); !slices.Contains(known, name) {
			found.add(fmt.Sprintf("%q is no check: accepted are %s", name, strings.Join(known, ", ")), "checks", "only")
		}
	}
	for _, check := range c.all() {
		if c.Runs(check.name) {
			check.problems(found, func(field ...string) []string { return append([]string{"checks", check.name}, field...) })
		}
	}
}
