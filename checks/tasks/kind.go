package tasks

import (
	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// Kind is this kind of check.
func Kind() checks.Kind {
	return checks.Kind{
		Name:          "tasks",
		ConditionType: ConditionType,
		Help:          "a process or thread waits in the kernel (state D) for minutes; off by default",
		Settings:      func(c *config.Checks) *config.Run { return &c.Tasks.Run },
		New: func(n *checks.Node) (checks.Check, error) {
			c := n.Config.Checks.Tasks
			return New(Options{
				MaxBlocked: c.MaxBlocked.Duration, StateFile: c.StateFile, LookOnly: n.LookOnly,
				BootID: n.BootID, Timeout: c.Timeout.Duration, Clock: n.Clock,
			}), nil
		},
	}
}
