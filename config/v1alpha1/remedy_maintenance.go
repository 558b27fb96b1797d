package v1alpha1

// RemedyMaintenance is the name of the remedy maintenance.
const RemedyMaintenance = "maintenance"

// MaintenanceRemedy takes the node out of service, as a person's NodeMaintenance
// does. It ends by itself when the node has recovered.
//
// +kubebuilder:validation:XValidation:rule="!has(self.power) || has(self.drain)",message="power: Off needs drain: no machine is switched off with pods on it that could go",fieldPath=".power"
// +kubebuilder:validation:XValidation:rule="!has(self.outOfService) || !self.outOfService || has(self.power)",message="outOfService is for power: Off only: nothing else proves that the node is off",fieldPath=".outOfService"
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

	// With power: Off: once the machine is proved to be off, the controller sets the taint
	// node.kubernetes.io/out-of-service on the node, by which Kubernetes ends the pods that
	// the drain could not end, and those that it leaves, and detaches the volumes, so that they
	// start elsewhere. The controller takes the taint away when the maintenance has ended, the
	// node is Ready with a new boot ID, and nothing of the boot before is left. It needs
	// remoteRunner.outOfService of the chart, too: without, nothing is freed.
	// +optional
	OutOfService bool `json:"outOfService,omitempty"`

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
		if s.Maintenance.OutOfService {
			return takeOut(s.Maintenance.Drain) + " the node, shut its machine down, and free what is left of its pods and volumes, until a person says that it is repaired"
		}
		if s.Maintenance.Power == PowerRequestOff {
			return takeOut(s.Maintenance.Drain) + " the node, and shut its machine down, until a person says that it is repaired"
		}
		return takeOut(s.Maintenance.Drain) + " the node until it has recovered"
	},
	why: func(s *Step) string { return s.Maintenance.Reason },
}
