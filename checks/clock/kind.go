package clock

import (
	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// Kind is this kind of check.
func Kind() checks.Kind {
	return checks.Kind{
		Name:          "clock",
		ConditionType: ConditionType,
		Help:          "the node's clock is off, or no time service corrects it",
		Milder:        []string{ReasonNotSynchronised},
		Settings:      func(c *config.Checks) *config.Run { return &c.Clock.Run },
		New: func(n *checks.Node) (checks.Check, error) {
			c := n.Config.Checks.Clock
			return New(Options{
				MaxOffset: c.MaxOffset.Duration, MaxError: c.MaxError.Duration, Timeout: c.Timeout.Duration,
				Server: n.ServerClock, Ask: n.AskServer,
			})
		},
	}
}
