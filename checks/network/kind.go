package network

import (
	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// Kind is this kind of check.
func Kind() checks.Kind {
	return checks.Kind{
		Name:          "network",
		ConditionType: ConditionType,
		Help:          "a network interface of the node lost its carrier, flaps, is slow or damages packets",
		Milder:        []string{ReasonDegraded, ReasonSlow, ReasonDropped, ReasonMTU},
		Settings:      func(c *config.Checks) *config.Run { return &c.Network.Run },
		New: func(n *checks.Node) (checks.Check, error) {
			c := n.Config.Checks.Network
			return New(Options{
				Include: c.Include, Exclude: c.Exclude,
				MinSpeed: c.MinSpeed, MaxFlaps: c.MaxFlaps, FlapWindow: c.FlapWindow.Duration,
				MaxErrors: c.MaxErrors, MaxDropped: c.MaxDropped, StateFile: c.StateFile, LookOnly: n.LookOnly,
				Timeout: c.Timeout.Duration, Clock: n.Clock,
			})
		},
	}
}
