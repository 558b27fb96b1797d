package containerruntime

import (
	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// Kind is this kind of check.
func Kind() checks.Kind {
	return checks.Kind{
		Name:          "runtime",
		ConditionType: ConditionType,
		Help:          "the container runtime is not ready, or does not answer in time",
		Absences:      []string{ReasonSocketMissing, ReasonConnectionRefused},
		Timed:         []string{ReasonTimeout},
		Settings:      func(c *config.Checks) *config.Run { return &c.Runtime.Run },
		New:           func(n *checks.Node) (checks.Check, error) { return n.Runtime, nil },
	}
}
