package drives

import (
	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// Kind is this kind of check.
func Kind() checks.Kind {
	return checks.Kind{
		Name:          "drives",
		ConditionType: ConditionType,
		Help:          "a drive of the node fails, or an array has lost one; off where there never was either",
		Milder:        []string{ReasonDegraded, ReasonNotStarted, ReasonSpare, ReasonWorn, ReasonCache, ReasonHot},
		Settings:      func(c *config.Checks) *config.Run { return &c.Drives.Run },
		New: func(n *checks.Node) (checks.Check, error) {
			c := n.Config.Checks.Drives
			return New(Options{
				Exclude: c.Exclude, Health: c.Health, HealthInterval: c.HealthInterval.Duration, MaxWait: c.MaxWait.Duration,
				MaxMediaErrors: c.MaxMediaErrors, MaxErrors: c.MaxErrors, MaxUsed: c.MaxUsed,
				StateFile: c.StateFile, LookOnly: n.LookOnly, Timeout: c.Timeout.Duration, Clock: n.Clock,
			})
		},
	}
}
