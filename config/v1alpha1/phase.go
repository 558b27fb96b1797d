package v1alpha1

// Phase is how far a remediation is with the attempt at which its status is.
type Phase string

const (
	// PhaseNext says that the attempt is next, or has ended as the history says.
	PhaseNext Phase = "Next"
	// PhaseMaintenanceAnnounced says that status.maintenance names a maintenance that may not have
	// been created yet. A create of it may be on its way.
	PhaseMaintenanceAnnounced Phase = "MaintenanceAnnounced"
	// PhaseTakingOut says that the maintenance is there, and the node is not yet as the step needs it.
	PhaseTakingOut Phase = "TakingOut"
	// PhaseOut says that the maintenance is there, and nothing else is under way.
	PhaseOut Phase = "Out"
	// PhaseActionAnnounced says that status.action names an action that may not have been created
	// yet. A create of it may be on its way.
	PhaseActionAnnounced Phase = "ActionAnnounced"
	// PhaseActing says that the action that status.action names was seen.
	PhaseActing Phase = "Acting"
	// PhaseExhausted says that no step is left, and a person may ask to start over.
	PhaseExhausted Phase = "Exhausted"
	// PhaseEnded says that the remediation is over.
	PhaseEnded Phase = "Ended"
)

// Phase returns how far the remediation is with the attempt at which its status is.
//
// It follows from the names in the status and the reason of the Progressing condition, and
// has no field of its own: a controller of a version that does not know such a field, which
// leads for a while during an upgrade, would change the reason and leave the field as it was.
func (s *RemediationStatus) Phase() Phase {
	reason := s.state()
	switch starting := reason == ReasonStarting; {
	case s.EndTime != nil:
		return PhaseEnded
	case s.Action != "" && starting:
		return PhaseActionAnnounced
	case s.Action != "":
		return PhaseActing
	case reason == ReasonExhausted:
		return PhaseExhausted
	case s.Maintenance != "" && starting:
		return PhaseMaintenanceAnnounced
	case s.Maintenance != "" && reason == ReasonTakingOut:
		return PhaseTakingOut
	case s.Maintenance != "":
		return PhaseOut
	default:
		return PhaseNext
	}
}
