package exhaustion

import (
	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// Kind is this kind of check.
func Kind() checks.Kind {
	return checks.Kind{
		Name:          "exhaustion",
		ConditionType: ConditionType,
		Help:          "the node runs out of file handles, processes, connections or inotify instances",
		Milder:        []string{ReasonConntrack, ReasonTasks, ReasonOpenFiles, ReasonInotify},
		Settings:      func(c *config.Checks) *config.Run { return &c.Exhaustion.Run },
		New: func(n *checks.Node) (checks.Check, error) {
			c := n.Config.Checks.Exhaustion
			return New(Options{MaxUsed: c.MaxUsed, Programs: c.Programs, Timeout: c.Timeout.Duration}), nil
		},
	}
}
