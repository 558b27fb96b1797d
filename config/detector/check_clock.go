package detector

import (
	"fmt"
	"time"
)

// Clock is the check that owns the condition ClockUnhealthy.
type Clock struct {
	Run `yaml:",inline"`
	// MaxOffset is how far the clock may be from the API server's.
	MaxOffset Duration `yaml:"maxOffset"`
	// MaxError is how far the clock may be off by what its time service has told the kernel.
	// Zero: that is not looked at.
	MaxError Duration `yaml:"maxError"`
}

// maxClockError is the largest error that a kernel tells.
const maxClockError = 16 * time.Second

func (c *Clock) setDefaults() {
	*c = Clock{
		Run: Run{
			Enabled: true, Interval: Duration{time.Minute}, Timeout: Duration{10 * time.Second},
			FailureThreshold: 3, SuccessThreshold: 2, StartupGrace: Duration{10 * time.Minute},
		},
		// Ten seconds are far beyond the error of any time service, and what breaks first, by
		// the age of tokens, breaks at a minute.
		MaxOffset: Duration{10 * time.Second},
		// A service that asks its servers every 34 minutes, as systemd-timesyncd does at the
		// longest, keeps the kernel's bound below 1.1 s. In 2.8 hours without it grows to 5 s.
		MaxError: Duration{5 * time.Second},
	}
}

func (c *Clock) problems(found *problems, at func(field ...string) []string) {
	c.problemsWithin(maxHeartbeat, found, at)
	found.within(c.MaxOffset, 2*time.Second, time.Hour, ": the API server tells its time in whole seconds", at("maxOffset")...)
	if e := c.MaxError.Duration; e != 0 && (e < minTimeout || e > maxClockError) {
		found.add(fmt.Sprintf("%s is neither 0s nor between %s and %s: the kernel tells no larger error", c.MaxError, minTimeout, maxClockError), at("maxError")...)
	}
}
