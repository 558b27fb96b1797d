package pleg

import (
	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
)

// Kind is this kind of check.
func Kind() checks.Kind {
	return checks.Kind{
		Name:          "pleg",
		ConditionType: ConditionType,
		Help:          "the kubelet does not learn any more what happens to its pods",
		Milder:        []string{ReasonRuntimeStalled},
		Timed:         []string{ReasonRuntimeStalled},
		Settings:      func(c *config.Checks) *config.Run { return &c.PLEG.Run },
		New: func(n *checks.Node) (checks.Check, error) {
			c := n.Config.Checks.PLEG
			return New(Options{
				Kubelet: n.Kubelet, Probe: n.Runtime.Probe, ReadyCondition: n.Ready, Clock: n.Clock,
				Timeout: c.Timeout.Duration, MaxLastSeen: c.MaxLastSeen.Duration, KubeletGrace: c.KubeletGrace.Duration,
			})
		},
	}
}
