package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RemedyPolicy maps node conditions to a list of steps that repair the node,
// gentlest first.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=rpol,categories=nodemend
// +kubebuilder:printcolumn:name="First Match",type=string,JSONPath=`.spec.match[0].type`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Paused",type=boolean,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name="Healthy For",type=string,JSONPath=`.spec.recovery.healthyFor`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RemedyPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What to react to and what to do.
	// +required
	Spec RemedyPolicySpec `json:"spec"`
}

// RemedyPolicySpec says which condition, held for how long, on which nodes,
// gets which steps.
type RemedyPolicySpec struct {
	// Nodes that this policy applies to. All nodes when left out; then say so
	// on purpose, control-plane nodes are nodes as well.
	//
	// Example: {matchExpressions: [{key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}]}
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",message="must not be empty: give matchLabels or matchExpressions, or leave nodeSelector out to select all nodes"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0))",message="operator must be In or NotIn with values, or Exists or DoesNotExist without values"
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// Conditions that start a remediation: any one that has held for its time
	// starts it, all of them must be clear for the node to be recovered.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Match []ConditionMatch `json:"match"`

	// What to do, gentlest first. The next attempt or step is taken only after
	// the one before was executed and the fault was confirmed afterwards.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.filter(s, has(s.maintenance)).size() == 0 || (self.filter(s, has(s.maintenance)).size() == 1 && has(self[self.size() - 1].maintenance))",message="maintenance must be the last step: it lasts until the node has recovered"
	// +listType=atomic
	Steps []Step `json:"steps"`

	// When the node counts as recovered.
	// +optional
	// +kubebuilder:default={}
	Recovery Recovery `json:"recovery,omitempty,omitzero"`

	// How long after the end of one remediation of this policy, in which
	// something was executed, the next one may act on the same node.
	// +optional
	// +kubebuilder:default="10m"
	Cooldown *Duration `json:"cooldown,omitempty"`

	// How many remediations of this policy may act on one node in how long. More
	// is a pattern, which people have to look at.
	// +optional
	// +kubebuilder:default={count: 3, per: "24h"}
	MaxRemediations *Rate `json:"maxRemediations,omitempty"`

	// How long a node is left alone after it has joined the cluster.
	// +optional
	// +kubebuilder:default="10m"
	DelayAfterJoin *Duration `json:"delayAfterJoin,omitempty"`

	// Enforce: act. DryRun: decide everything, show what would be done, and do
	// nothing.
	// +optional
	// +kubebuilder:default=Enforce
	// +kubebuilder:validation:Enum=Enforce;DryRun
	Mode PolicyMode `json:"mode,omitempty"`

	// The off switch: while true the policy starts no new action. An action that runs is
	// finished, a drain stops, and nodes that heal are given back.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Why it is paused, and by whom: people read it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	PauseReason string `json:"pauseReason,omitempty"`

	// What is kept of what commands print. It may hold secrets: it is readable
	// by everybody who may read NodeActions and Remediations.
	// +optional
	Output *OutputPolicy `json:"output,omitempty"`
}

// PolicyMode says whether a policy acts.
type PolicyMode string

const (
	// ModeEnforce acts.
	ModeEnforce PolicyMode = "Enforce"
	// ModeDryRun only shows what would be done.
	ModeDryRun PolicyMode = "DryRun"
)

// Rate is a number of events in a time.
type Rate struct {
	// How many.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Count int32 `json:"count"`

	// In how long, from 1m to 720h. The time slides.
	//
	// Example: 24h
	// +required
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.hmnsu]+$') || (duration(self) >= duration('1m') && duration(self) <= duration('720h'))",message="must be from 1m to 720h"
	Per Duration `json:"per"`
}

// OutputPolicy says what is kept of what commands print.
type OutputPolicy struct {
	// Tail: the last 4 KiB are kept in the action's status. None: nothing is.
	// +optional
	// +kubebuilder:default=Tail
	// +kubebuilder:validation:Enum=Tail;None
	Keep OutputKeep `json:"keep,omitempty"`

	// What matches one of these regular expressions (RE2) is replaced by ***
	// before the output is kept. Each is applied to every line by itself, without
	// its end. A last line that was cut off is not kept.
	//
	// Example: ["(?i)password=\\S+"]
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:XValidation:rule="''.matches(self) in [true, false]",message="must be a regular expression (RE2), for example (?i)password=\\S+"
	// +listType=atomic
	Redact []string `json:"redact,omitempty"`
}

// OutputKeep is how much of a command's output is kept.
type OutputKeep string

const (
	// OutputTail keeps the last 4 KiB.
	OutputTail OutputKeep = "Tail"
	// OutputNone keeps nothing.
	OutputNone OutputKeep = "None"
)

// ConditionMatch names one status of one node condition.
type ConditionMatch struct {
	// Type of the node condition, as in `kubectl describe node`.
	//
	// Example: ContainerRuntimeUnhealthy
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Type string `json:"type"`

	// Status of the condition that is a problem, in quotes: "True", "False" or
	// "Unknown". Conditions of node-problem-detector are "True" when there is
	// a problem; the kubelet's Ready is "False" or "Unknown".
	// +required
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status corev1.ConditionStatus `json:"status"`

	// Only with one of these reasons. A condition may have several reasons,
	// separated by commas. All reasons when left out.
	//
	// Example: [Timeout]
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +listType=set
	Reasons []string `json:"reasons,omitempty"`

	// How long the condition must have had this status before the remediation
	// starts, counted from its lastTransitionTime. 0s (the default): at once.
	//
	// Example: 1m30s
	// +optional
	// +kubebuilder:default="0s"
	For Duration `json:"for,omitempty,omitzero"`
}

// Step is one entry of a policy's ordered list: exactly one remedy, and how
// long and how often to try it.
//
// +kubebuilder:validation:XValidation:rule="[has(self.command), has(self.restartUnit), has(self.reboot), has(self.maintenance)].exists_one(x, x)",message="exactly one remedy is required: command, restartUnit, reboot or maintenance"
type Step struct {
	// Run a command on the node, as root.
	// +optional
	Command *CommandRemedy `json:"command,omitempty"`

	// Restart a systemd unit of the node, and see that it is active afterwards.
	// +optional
	RestartUnit *RestartUnitRemedy `json:"restartUnit,omitempty"`

	// Take the node out of service, reboot it, see that it has booted again, and
	// give it back.
	// +optional
	Reboot *RebootRemedy `json:"reboot,omitempty"`

	// Take the node out of service until it has recovered, for whatever reason:
	// the last step of a policy.
	// +optional
	Maintenance *MaintenanceRemedy `json:"maintenance,omitempty"`

	// How long one attempt may take. Then a command is ended with all processes
	// that it started, and the processes of a unit that does not stop are killed;
	// for a reboot it includes the boot. A drain has a time of its own, and a
	// maintenance needs none. At least 1s.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') || !self.matches('^[0-9.hmnsu]+$')",message="must be at least 1s"
	Timeout Duration `json:"timeout,omitempty,omitzero"`

	// How long after an attempt the condition may take to clear. If it is then
	// confirmed to be still there, the next attempt or step is taken; without
	// fresh evidence nothing more is done. At least 1s.
	// +optional
	// +kubebuilder:default="2m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') || !self.matches('^[0-9.hmnsu]+$')",message="must be at least 1s"
	VerifyTimeout Duration `json:"verifyTimeout,omitempty,omitzero"`

	// Wait for a person before this step is taken the first time: the annotation
	// nodemend.dev/approved-step on the remediation, with the number of the step.
	// +optional
	RequireApproval bool `json:"requireApproval,omitempty"`

	// How often this step is tried before the next one.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Attempts int32 `json:"attempts,omitempty"`
}

// CommandRemedy runs one command on the node: a program, or a script.
//
// +kubebuilder:validation:XValidation:rule="[has(self.argv), has(self.script)].exists_one(x, x)",message="exactly one is required: argv or script"
type CommandRemedy struct {
	// The program, as an absolute path, and its arguments. No shell reads it:
	// there is no quoting, no expansion and no PATH.
	//
	// Example: ["/usr/local/bin/clean-shims", "--all"]
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self[0].matches('^/[^/]')",message="the first entry must be the absolute path of a program, for example /usr/bin/systemctl"
	// +listType=atomic
	Argv []string `json:"argv,omitempty"`

	// A script for /bin/sh of the node. What it needs to know of the incident is
	// in its environment, such as $NODEMEND_CONDITION_REASON.
	//
	// Example: "set -eu; rm -rf /var/lib/cache/*"
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Script string `json:"script,omitempty"`
}

// RestartUnitRemedy restarts one systemd unit of the node.
type RestartUnitRemedy struct {
	// The unit, with its suffix.
	//
	// Example: containerd.service
	// +required
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9:_.\\@-]+\.(service|socket|mount|timer|path)$`
	Name string `json:"name"`
}

// RebootRemedy reboots the node.
type RebootRemedy struct {
	// SysRq: the kernel syncs the disks, makes them read-only and resets the
	// machine, without any program that could hang; what runs is not asked to
	// stop. Systemd: as by systemctl reboot, everything is stopped first.
	// +optional
	// +kubebuilder:default=SysRq
	// +kubebuilder:validation:Enum=SysRq;Systemd
	Method RebootMethod `json:"method,omitempty"`

	// How the node is drained before. When left out it is only cordoned: what runs
	// there is not asked to stop by SysRq, and stopped with the node by Systemd.
	// +optional
	Drain *Drain `json:"drain,omitempty"`
}

// MaintenanceRemedy takes the node out of service: as a NodeMaintenance by a
// person does, but it ends by itself when the node has recovered.
type MaintenanceRemedy struct {
	// Why: people read it, with what the condition said.
	//
	// Example: BMC reports a hardware failure
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`

	// How the node is drained. When left out it is only cordoned.
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
)

// Recovery says when a node counts as recovered.
type Recovery struct {
	// How long every entry of match must have been clear, on fresh evidence.
	// At least 1s.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') || !self.matches('^[0-9.hmnsu]+$')",message="must be at least 1s"
	HealthyFor Duration `json:"healthyFor,omitempty,omitzero"`

	// Who gives a node back that was taken out of service. Auto: it is given back
	// as soon as it has recovered. Manual: a person does, by deleting its
	// NodeMaintenance.
	// +optional
	// +kubebuilder:default=Auto
	// +kubebuilder:validation:Enum=Auto;Manual
	Release ReleaseMode `json:"release,omitempty"`
}

// ReleaseMode is who gives a node back.
type ReleaseMode string

const (
	// ReleaseAuto gives the node back when it has recovered.
	ReleaseAuto ReleaseMode = "Auto"
	// ReleaseManual leaves that to a person.
	ReleaseManual ReleaseMode = "Manual"
)

// RemedyPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type RemedyPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RemedyPolicy `json:"items"`
}
