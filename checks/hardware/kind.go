package hardware

import (
	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/ipmi"
)

// Kind is this kind of check.
func Kind() checks.Kind {
	return checks.Kind{
		Name:          "hardware",
		ConditionType: ConditionType,
		Help:          "the BMC reports that the server has failed; off where no BMC is found",
		Settings:      func(c *config.Checks) *config.Run { return &c.Hardware.Run },
		New: func(n *checks.Node) (checks.Check, error) {
			c := n.Config.Checks.Hardware
			if !Present(c) {
				return nil, checks.Off{Why: "no BMC was found; name its source if there is one"}
			}
			metrics, err := NewMetrics(n.Registerer)
			if err != nil {
				return nil, err
			}
			return New(Options{
				Open:  func() (ipmi.Source, error) { return Open(c, n.NodeName) },
				Rules: c.Rules, Store: Store{Path: c.StateFile}, BootID: n.BootID,
				Timeout: c.Timeout.Duration, Clock: n.Clock, Metrics: metrics,
			}), nil
		},
	}
}
