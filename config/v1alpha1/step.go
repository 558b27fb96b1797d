package v1alpha1

import (
	"fmt"
	"strings"
)

// Names of remedies: the words that a policy uses.
const (
	RemedyCommand     = "command"
	RemedyRestartUnit = "restartUnit"
	RemedyReboot      = "reboot"
	RemedyMaintenance = "maintenance"
)

// Remedy returns the name of the step's remedy, or "" if this version knows none
// of what the step asks for.
func (s *Step) Remedy() string {
	switch {
	case s.Command != nil:
		return RemedyCommand
	case s.RestartUnit != nil:
		return RemedyRestartUnit
	case s.Reboot != nil:
		return RemedyReboot
	case s.Maintenance != nil:
		return RemedyMaintenance
	default:
		return ""
	}
}

// Step returns the remediation's step of this number, counted from 1; nil if there is
// none.
func (r *Remediation) Step(number int32) *Step {
	if number < 1 || int(number) > len(r.Spec.Steps) {
		return nil
	}
	return &r.Spec.Steps[number-1]
}

// Disruptive reports whether the step's remedy takes the node out of service.
func (s *Step) Disruptive() bool { return s.Reboot != nil || s.Maintenance != nil }

// NeedsRunner reports whether the step's remedy is executed on the node.
func (s *Step) NeedsRunner() bool { return s.Maintenance == nil }

// Drain returns how the node is drained for the step, nil if it is not.
func (s *Step) Drain() *Drain {
	switch {
	case s.Reboot != nil:
		return s.Reboot.Drain
	case s.Maintenance != nil:
		return s.Maintenance.Drain
	default:
		return nil
	}
}

// Describe says what the step does, after "would": "restart containerd.service".
func (s *Step) Describe() string {
	switch {
	case s.Command != nil && s.Command.Script != "":
		return "run its script"
	case s.Command != nil:
		return "run " + clip(strings.Join(s.Command.Argv, " "))
	case s.RestartUnit != nil:
		return "restart " + s.RestartUnit.Name
	case s.Reboot != nil:
		return fmt.Sprintf("%s and reboot the node (%s)", s.takeOut(), s.Reboot.Method)
	case s.Maintenance != nil:
		return s.takeOut() + " the node until it has recovered"
	default:
		return "act"
	}
}

// takeOut says how the step takes the node out of service.
func (s *Step) takeOut() string {
	if s.Drain() == nil {
		return "cordon"
	}
	return "cordon and drain"
}

// clip bounds what a policy puts into a message.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
