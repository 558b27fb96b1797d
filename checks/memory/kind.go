package memory

import (
	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// Kind is this kind of check.
func Kind() checks.Kind {
	return checks.Kind{
		Name:          "memory",
		ConditionType: ConditionType,
		Help:          "a memory module has errors; off where no driver (EDAC) ever counted them",
		Milder:        []string{ReasonOffline, ReasonCorrected},
		Settings:      func(c *config.Checks) *config.Run { return &c.Memory.Run },
		New: func(n *checks.Node) (checks.Check, error) {
			c := n.Config.Checks.Memory
			return New(Options{
				Exclude: c.Exclude, MaxCorrected: c.MaxCorrected, MaxOffline: c.MaxOffline, StateFile: c.StateFile, LookOnly: n.LookOnly,
				BootID: n.BootID, Timeout: c.Timeout.Duration, Clock: n.Clock,
			})
		},
	}
}
