package v1alpha1

import "fmt"

// RemedyReboot is the name of the remedy reboot.
const RemedyReboot = "reboot"

// RebootRemedy reboots the node.
//
// +kubebuilder:validation:XValidation:rule="!has(self.ifOff) || (has(self.method) && self.method == 'PowerCycle')",message="ifOff is for method PowerCycle only: nothing else reads the power",fieldPath=".ifOff"
// +kubebuilder:validation:XValidation:rule="!has(self.outOfService) || !self.outOfService || (has(self.method) && self.method == 'PowerCycle')",message="outOfService is for method PowerCycle only: nothing else proves that the node is off",fieldPath=".outOfService"
type RebootRemedy struct {
	// SysRq: the kernel syncs the disks, remounts them read-only and resets the
	// machine. No program can hang it, and running programs are not asked to stop.
	// Systemd: as by systemctl reboot, which stops everything first.
	// PowerCycle: for a node that does not answer. The remote runner switches its power
	// off from outside, reads it off until that is proved, and switches it on. A node
	// that answers again before keeps its power, and power that was off stays off, unless ifOff
	// says otherwise.
	// +optional
	// +kubebuilder:default=SysRq
	// +kubebuilder:validation:Enum=SysRq;Systemd;PowerCycle
	Method RebootMethod `json:"method,omitempty"`

	// With PowerCycle: once the machine is proved to be off, the controller sets the taint
	// node.kubernetes.io/out-of-service on the node, by which Kubernetes ends its pods
	// and detaches its volumes, so that they start elsewhere. The power stays off until that is
	// done, for 5 minutes at most. The controller takes the taint away when the node is
	// Ready with a new boot ID, and nothing of the boot before is left. The step's
	// timeout is at least 20m. It needs remoteRunner.outOfService of the chart: without,
	// nothing is freed.
	// +optional
	OutOfService bool `json:"outOfService,omitempty"`

	// With PowerCycle: what is done if the power is off when it is first read. Leave: nothing, since
	// somebody has switched it off, and may have their hands in the machine; it ends as PowerWasOff. SwitchOn:
	// once that is proved, which takes two minutes, it is as if it had been cut: with outOfService its pods
	// and volumes are freed, and it is switched on, unless people hold the node by then. It is for machines
	// that lose their power by themselves, where people say by a maintenance that they work on one.
	// +optional
	// +kubebuilder:validation:Enum=Leave;SwitchOn
	IfOff IfOff `json:"ifOff,omitempty"`

	// How the node is drained before the reboot. If it is left out, the node is only
	// cordoned, and its pods end with the reboot.
	// +optional
	Drain *Drain `json:"drain,omitempty"`
}

// RebootMethod is a way to reboot.
type RebootMethod string

const (
	// RebootSysRq goes through the kernel's magic SysRq.
	RebootSysRq RebootMethod = "SysRq"
	// RebootSystemd goes through systemd.
	RebootSystemd RebootMethod = "Systemd"
	// RebootPowerCycle switches the power off and on again, from outside.
	RebootPowerCycle RebootMethod = "PowerCycle"
)

// IfOff is what is done about power that was off when it was first read.
type IfOff string

const (
	// IfOffLeave leaves it off; so does "".
	IfOffLeave IfOff = "Leave"
	// IfOffSwitchOn frees what is to be freed, and switches it on.
	IfOffSwitchOn IfOff = "SwitchOn"
)

// rebootRemedy is the remedy reboot.
var rebootRemedy = Remedy{
	Name:       RemedyReboot,
	Executor:   ExecutorRunner,
	Disruptive: true,
	Reboots:    true,

	CountsAsReboot: true,
	asked:          func(s *Step) bool { return s.Reboot != nil },
	drain:          func(s *Step) *Drain { return s.Reboot.Drain },
	executor: func(s *Step) Executor {
		if s.Reboot.Method == RebootPowerCycle {
			return ExecutorRemote
		}
		return ExecutorRunner
	},
	describe: func(s *Step) string {
		if s.Reboot.Method == RebootPowerCycle {
			if s.Reboot.OutOfService {
				return takeOut(s.Reboot.Drain) + " the node, switch its power off, free its pods and volumes, and switch it on (PowerCycle)"
			}
			return takeOut(s.Reboot.Drain) + " the node, and switch its power off and on (PowerCycle)"
		}
		return fmt.Sprintf("%s and reboot the node (%s)", takeOut(s.Reboot.Drain), s.Reboot.Method)
	},
}
