package kubelet

import (
	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// Kind is this kind of check.
func Kind() checks.Kind {
	return checks.Kind{
		Name:          "kubelet",
		ConditionType: ConditionType,
		Help:          "the kubelet is down, stuck, or restarts again and again",
		Absences:      []string{ReasonConnectionRefused},
		Milder:        []string{ReasonRestarting},
		Timed:         []string{ReasonHealthzTimeout},
		Settings:      func(c *config.Checks) *config.Run { return &c.Kubelet.Run },
		New: func(n *checks.Node) (checks.Check, error) {
			c := n.Config.Checks.Kubelet
			return New(Options{
				Kubelet: n.Kubelet, Unit: c.Unit, Timeout: c.Timeout.Duration, Clock: n.Clock,
				MaxRestarts: c.MaxRestarts, RestartWindow: c.RestartWindow.Duration,
			})
		},
	}
}
