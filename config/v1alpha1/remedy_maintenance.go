package v1alpha1

// RemedyMaintenance is the name of the remedy maintenance.
const RemedyMaintenance = "maintenance"

// MaintenanceRemedy takes the node out of service, as a person's NodeMaintenance
// does. It ends by itself when the node has recovered.
type MaintenanceRemedy struct {
	// Why the node is out of service. People see it together with the condition's
	// message.
	//
	// Example: BMC reports a hardware failure
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`

	// How the node is drained. If it is left out, the node is only cordoned.
	// +optional
	Drain *Drain `json:"drain,omitempty"`
}

// maintenanceRemedy is the remedy maintenance.
var maintenanceRemedy = Remedy{
	Name:       RemedyMaintenance,
	Executor:   ExecutorMaintenance,
	Disruptive: true,
	Final:      true,
	asked:      func(s *Step) bool { return s.Maintenance != nil },
	drain:      func(s *Step) *Drain { return s.Maintenance.Drain },
	describe:   func(s *Step) string { return takeOut(s.Maintenance.Drain) + " the node until it has recovered" },
	why:        func(s *Step) string { return s.Maintenance.Reason },
}
