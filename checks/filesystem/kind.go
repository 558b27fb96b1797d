package filesystem

import (
	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// Kind is this kind of check.
func Kind() checks.Kind {
	return checks.Kind{
		Name:          "filesystem",
		ConditionType: ConditionType,
		Help:          "a file system of the node became read-only, fails, hangs, is damaged or full",
		Milder:        []string{ReasonErrors, ReasonFull, ReasonInodes},
		Settings:      func(c *config.Checks) *config.Run { return &c.Filesystem.Run },
		New: func(n *checks.Node) (checks.Check, error) {
			c := n.Config.Checks.Filesystem
			return New(Options{
				Ignore: c.Ignore, Write: c.Write, MaxWait: c.MaxWait.Duration, MinAvailable: c.MinAvailable,
				Timeout: c.Timeout.Duration, Clock: n.Clock,
			}), nil
		},
	}
}
