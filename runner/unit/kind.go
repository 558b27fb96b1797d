package unit

import (
	runnerconfig "github.com/nodemend/nodemend/config/runner"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// Kind is this kind of remedy.
func Kind() remedy.Kind {
	return remedy.Kind{
		Name:     v1alpha1.RemedyRestartUnit,
		New:      func(h remedy.Host) remedy.Remedy { return New(Options{Dialer: h.Systemd, Clock: h.Clock}) },
		Describe: func(s *v1alpha1.Step) string { return "restart " + s.RestartUnit.Name },
		Vetoed: func(v *runnerconfig.Veto, _ remedy.Host, o remedy.Order) string {
			if reason := v.Unit(o.Prepared.UnitNames...); reason != "" {
				return reason
			}
			return v.Dependents(o.Step.RestartUnit.Name, o.Prepared.Dependents)
		},
	}
}
