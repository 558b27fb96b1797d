package detector

import (
	"fmt"
	"path"
	"time"
)

// Network is the check that owns the condition NetworkUnhealthy.
type Network struct {
	Run `yaml:",inline"`
	// Include and Exclude are patterns of names of interfaces that are looked at, beside those
	// of the hardware and bonds, and that are not.
	Include []string `yaml:"include"`
	Exclude []string `yaml:"exclude"`
	// MinSpeed is how fast every interface has to be, in Mb/s. Zero: as fast as both ends of
	// its link can.
	MinSpeed int `yaml:"minSpeed"`
	// MaxFlaps is how often an interface may not lose its carrier within FlapWindow.
	MaxFlaps   int      `yaml:"maxFlaps"`
	FlapWindow Duration `yaml:"flapWindow"`
	// MaxErrors and MaxDropped are how many packets may be damaged and dropped, in percent.
	// Zero: that is not looked at.
	MaxErrors  int `yaml:"maxErrors"`
	MaxDropped int `yaml:"maxDropped"`
	// StateFile keeps what was faulty.
	StateFile string `yaml:"stateFile"`
}

func (n *Network) setDefaults() {
	*n = Network{
		Run: Run{
			Enabled: true, Interval: Duration{30 * time.Second}, Timeout: Duration{20 * time.Second},
			// Two minutes, which a switch that is rebooted takes; and ten, see FlapWindow.
			FailureThreshold: 4, SuccessThreshold: 20, StartupGrace: Duration{5 * time.Minute},
		},
		Include: []string{}, Exclude: []string{},
		MaxFlaps: 5, FlapWindow: Duration{9 * time.Minute},
		MaxErrors: 1, MaxDropped: 5,
		StateFile: "/var/lib/nodemend/network.json",
	}
}

func (n *Network) problems(found *problems, at func(field ...string) []string) {
	n.problemsWithin(maxHeartbeat, found, at)
	found.patterns(n.Include, "eth0 and ens*", at("include")...)
	found.patterns(n.Exclude, "eth0 and ens*", at("exclude")...)
	if n.MinSpeed < 0 {
		found.add(fmt.Sprintf("%d is not at least 0, in Mb/s", n.MinSpeed), at("minSpeed")...)
	}
	found.count(n.MaxFlaps, 2, at("maxFlaps")...)
	// A detector that starts knows nothing of the flaps before: it takes as long to see them
	// again. Intervals are up to a tenth shorter.
	healthy := time.Duration(n.SuccessThreshold) * n.Interval.Duration * 9 / 10
	found.within(n.FlapWindow, n.Interval.Duration, healthy, ", nine tenths of successThreshold times interval: a restart of the detector would hide that a link flaps", at("flapWindow")...)
	found.percent(n.MaxErrors, at("maxErrors")...)
	found.percent(n.MaxDropped, at("maxDropped")...)
	found.stateFile(n.StateFile, "after a reboot a dead link looks like a socket without a cable", at("stateFile")...)
}

func (p *problems) percent(n int, at ...string) {
	if n < 0 || n > 100 {
		p.add(fmt.Sprintf("%d is not between 0 and 100", n), at...)
	}
}

func (p *problems) patterns(patterns []string, such string, at ...string) {
	for _, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			p.add(fmt.Sprintf("%q is no pattern of names: accepted are such as %s", pattern, such), at...)
		}
	}
}
