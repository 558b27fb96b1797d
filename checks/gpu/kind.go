package gpu

import (
	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// Kind is this kind of check.
func Kind() checks.Kind {
	return checks.Kind{
		Name:          "gpu",
		ConditionType: ConditionType,
		Help:          "a GPU of NVIDIA is gone, or needs a reset or a reboot; off where there never was one",
		Milder:        milder(),
		Settings:      func(c *config.Checks) *config.Run { return &c.GPU.Run },
		New: func(n *checks.Node) (checks.Check, error) {
			c := n.Config.Checks.GPU
			return New(Options{
				Exclude: c.Exclude, Health: c.Health, HealthInterval: c.HealthInterval.Duration, MaxWait: c.MaxWait.Duration,
				MaxSlowdown: c.MaxSlowdown.Duration, Program: c.NvidiaSMI.Path, Root: c.NvidiaSMI.Root,
				StateFile: c.StateFile, Timeout: c.Timeout.Duration, Clock: n.Clock,
			})
		},
	}
}
