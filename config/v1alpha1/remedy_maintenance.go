package v1alpha1

// RemedyMaintenance is the name of the remedy maintenance.
const RemedyMaintenance = "maintenance"

// MaintenanceRemedy takes the node out of service, as a person's NodeMaintenance
// does. It ends by itself when the node has recovered.
//
// +kubebuilder:validation:XValidation:rule="!has(self.power) || has(self.drain)",message="power: Off needs drain: no machine is switched off with pods on it that could go",fieldPath=".power"
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

	// Off: once the node is drained, its operating system is asked to shut down, and what
	// still runs 10 minutes later is switched off, by the remote runner. A machine that is
	// off can't show that it has recovered. So the maintenance ends when a person
	// deletes the NodeMaintenance, after which the machine is switched on; or when somebody
	// has switched the machine on, and it has recovered. It needs drain, and
	// remoteRunner.maintenancePower of the chart: without, the node is only drained.
	// +optional
	// +kubebuilder:validation:Enum=Off
	Power PowerRequest `json:"power,omitempty"`

	// Lights the lamp by which people find the machine for as long as the maintenance
	// lasts. The remote runner does that, by the node's BMC.
	// +optional
	Identify bool `json:"identify,omitempty"`
}

// maintenanceRemedy is the remedy maintenance.
var maintenanceRemedy = Remedy{
	Name:       RemedyMaintenance,
	Executor:   ExecutorMaintenance,
	Disruptive: true,
	Final:      true,
	asked:      func(s *Step) bool { return s.Maintenance != nil },
	drain:      func(s *Step) *Drain { return s.Maintenance.Drain },
	describe: func(s *Step) string {
		if s.Maintenance.Power == PowerRequestOff {
			return takeOut(s.Maintenance.Drain) + " the node, and shut its machine down, until a person says that it is repaired"
		}
		return takeOut(s.Maintenance.Drain) + " the node until it has recovered"
	},
	why: func(s *Step) string { return s.Maintenance.Reason },
}
