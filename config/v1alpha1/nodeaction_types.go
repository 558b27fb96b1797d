package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeAction is one attempt of one step, for the runner of one node, for the remote
// runner, or for the remediator of another program. It does not hold what to execute:
// it names a policy and the hash of one of its steps, and the runner reads the step
// from the policy.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nact,categories=nodemend
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:selectablefield:JSONPath=`.spec.remediation`
// +kubebuilder:selectablefield:JSONPath=`.spec.executor`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.policy.name`
// +kubebuilder:printcolumn:name="Step",type=integer,JSONPath=`.spec.step`
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.spec.attempt`
// +kubebuilder:printcolumn:name="Claimed",type=date,JSONPath=`.status.claim.time`
// +kubebuilder:printcolumn:name="Finished",type=string,JSONPath=`.status.conditions[?(@.type=="Finished")].reason`
// +kubebuilder:printcolumn:name="Exit Code",type=integer,JSONPath=`.status.result.exitCode`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Finished")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.claim) || (has(self.status) && has(self.status.claim) && self.status.claim == oldSelf.status.claim)",message="a claim never changes",reason=FieldValueForbidden,fieldPath=".status.claim"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'Finished' && c.status == 'True') || (has(self.status) && has(self.status.claim) == has(oldSelf.status.claim) && (!has(self.status.claim) || self.status.claim == oldSelf.status.claim) && has(self.status.power) == has(oldSelf.status.power) && (!has(self.status.power) || self.status.power == oldSelf.status.power) && has(self.status.external) == has(oldSelf.status.external) && (!has(self.status.external) || self.status.external == oldSelf.status.external) && has(self.status.replace) == has(oldSelf.status.replace) && (!has(self.status.replace) || self.status.replace == oldSelf.status.replace) && has(self.status.result) == has(oldSelf.status.result) && (!has(self.status.result) || self.status.result == oldSelf.status.result) && has(self.status.conditions) == has(oldSelf.status.conditions) && (!has(self.status.conditions) || self.status.conditions == oldSelf.status.conditions))",message="a finished action never changes",reason=FieldValueForbidden,fieldPath=".status"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.aftermath) || (has(self.status) && has(self.status.aftermath) && self.status.aftermath == oldSelf.status.aftermath)",message="an aftermath never changes",reason=FieldValueForbidden,fieldPath=".status.aftermath"
type NodeAction struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The step, its policy, and the node.
	// +required
	Spec NodeActionSpec `json:"spec"`

	// What the runner did.
	// +optional
	Status NodeActionStatus `json:"status,omitempty,omitzero"`
}

// NodeActionSpec is one attempt of one step on one node. It never changes.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a node action's spec never changes",reason=FieldValueForbidden
type NodeActionSpec struct {
	// Name of the node that it is for, whose runner executes it unless executor says
	// otherwise.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`

	// Who executes it: Remote, the remote runner, which acts on the machine from
	// outside; External, another program, to which the controller hands it. If it is
	// left out, the node's runner.
	// +optional
	// +kubebuilder:validation:Enum=Remote;External
	Executor Executor `json:"executor,omitempty"`

	// UID of that node.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	NodeUID types.UID `json:"nodeUID"`

	// Name of the remediation that it is part of.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Remediation string `json:"remediation"`

	// UID of that remediation. One that was deleted and created again is another
	// remediation.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	RemediationUID types.UID `json:"remediationUID"`

	// The policy that has the step.
	// +required
	Policy PolicyReference `json:"policy"`

	// SHA-256 of the step, as 64 hexadecimal digits. If the policy has no step with
	// this hash any more, the action is superseded.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	StepHash string `json:"stepHash"`

	// The step, counted from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Step int32 `json:"step"`

	// The attempt of the step, counted from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt"`

	// The step's timeout, for the controller, which waits for the action. The runner
	// reads it from the policy.
	// +optional
	Timeout Duration `json:"timeout,omitempty,omitzero"`

	// Time after which the runner does not claim it.
	// +required
	ExpiresAt metav1.Time `json:"expiresAt"`
}

// ActionFinished is the type of a NodeAction's condition that is True once
// nothing more will happen. Its reason says how it ended.
const ActionFinished = "Finished"

// Reasons of the Finished condition. After the first five the remedy was
// executed; after the others it was not, or not known to be.
const (
	// ReasonSucceeded: the command ended with exit status 0; the unit is active
	// again; the node has booted; another program's remediator says so, or the node was
	// clear while it was at work.
	ReasonSucceeded = "Succeeded"
	// ReasonFailed: the command ended with another status or a signal; the unit
	// was restarted and is not active; another program's remediator says so, or somebody
	// has deleted its object.
	ReasonFailed = "Failed"
	// ReasonTimedOut: the step's timeout passed, and what was left of the remedy
	// was killed.
	ReasonTimedOut = "TimedOut"
	// ReasonReplaced: the machine and the Node are gone, and its group has as many
	// Ready nodes as before, as if this one had been Ready.
	ReasonReplaced = "Replaced"
	// ReasonNotReplaced: the machine and the Node are gone, and its group has not had
	// as many Ready nodes as before within the step's timeout.
	ReasonNotReplaced = "NotReplaced"

	// ReasonStartFailed: the remedy could not be started, for example since there
	// is no such file or systemd does not answer. Nothing was executed.
	ReasonStartFailed = "StartFailed"
	// ReasonUnitNotFound: systemd knows no unit of this name.
	ReasonUnitNotFound = "UnitNotFound"
	// ReasonUnitMasked: the unit is masked, so systemd does not start it.
	ReasonUnitMasked = "UnitMasked"
	// ReasonSuperseded: the policy, or this step of it, is no longer there.
	ReasonSuperseded = "Superseded"
	// ReasonNotNeeded: no matched condition of the node was still there.
	ReasonNotNeeded = "NotNeeded"
	// ReasonRefused: the action is not for this node, or the node's own
	// configuration denies it, or an action of this name was executed before.
	ReasonRefused = "Refused"
	// ReasonExpired: the action was found only after its expiresAt.
	ReasonExpired = "Expired"
	// ReasonUnsupported: this version of the runner does not know the remedy.
	ReasonUnsupported = "Unsupported"
	// ReasonDryRun: the runner runs with --dry-run and says what it would do.
	ReasonDryRun = "DryRun"
	// ReasonInterrupted: the runner that had claimed the action stopped before
	// it reported a result; the remedy may or may not have been executed.
	ReasonInterrupted = "Interrupted"
	// ReasonRebootNotObserved: the reboot was asked for and did not happen.
	ReasonRebootNotObserved = "RebootNotObserved"
	// ReasonPowerStillOn: the power was switched off, and nothing proves that it is off.
	ReasonPowerStillOn = "PowerStillOn"
	// ReasonPowerWasOff: the power was off already, so somebody or something has switched
	// it off. Nothing was switched.
	ReasonPowerWasOff = "PowerWasOff"
	// ReasonNotBack: the node was told to reboot and has not come back in time. The
	// remote runner reports it; else it is only in a remediation's history.
	ReasonNotBack = "NotBack"
	// ReasonNotStarted: the runner that had claimed the action stopped before
	// it started the remedy; nothing was executed.
	ReasonNotStarted = "NotStarted"
	// ReasonCancelled: the controller withdrew it before a runner claimed it.
	ReasonCancelled = "Cancelled"
	// ReasonLost: somebody deleted the NodeAction while it was under way; the
	// remedy may or may not have been executed. Only in a remediation's history.
	ReasonLost = "Lost"
)

// NodeActionStatus is written by who executes the action, and by the controller to
// cancel one that nobody has claimed, and of one for another program's remediator.
//
// +kubebuilder:validation:XValidation:rule="!has(self.power) || has(self.claim)",message="only what is claimed has progress",fieldPath=".power"
// +kubebuilder:validation:XValidation:rule="!has(self.external) || has(self.claim)",message="only what is claimed has progress",fieldPath=".external"
// +kubebuilder:validation:XValidation:rule="!has(self.replace) || has(self.claim)",message="only what is claimed has progress",fieldPath=".replace"
// +kubebuilder:validation:XValidation:rule="!has(self.aftermath) || (has(self.claim) && self.claim.remedy == 'reboot' && self.claim.bootID != self.aftermath.bootID && has(self.conditions) && self.conditions.exists(c, c.type == 'Finished' && c.status == 'True'))",message="an aftermath is that of a finished reboot, from a later boot",fieldPath=".aftermath"
type NodeActionStatus struct {
	// The runner's claim, written before the first side effect.
	// +optional
	Claim *Claim `json:"claim,omitempty"`

	// How far the remote runner is with switching the power. What is switched is kept
	// here before.
	// +optional
	Power *PowerCycleStatus `json:"power,omitempty"`

	// The other program's object, and what it tells. It is kept here before it is
	// created.
	// +optional
	External *ExternalStatus `json:"external,omitempty"`

	// The machine that is replaced, and how far that is. It is kept here before the
	// machine is deleted.
	// +optional
	Replace *ReplaceStatus `json:"replace,omitempty"`

	// Result of the execution.
	// +optional
	Result *ActionResult `json:"result,omitempty"`

	// Observations: Finished.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// What the boot that was ended has left, once the node is back. It is written once, after
	// the action has finished; all else never changes from then on.
	// +optional
	Aftermath *Aftermath `json:"aftermath,omitempty"`
}

// Claim is the statement of a runner that it executes an action.
type Claim struct {
	// ID of the runner process. A restarted runner has another ID.
	// +required
	// +kubebuilder:validation:MaxLength=253
	RunnerID string `json:"runnerID"`

	// Boot ID of the node (/proc/sys/kernel/random/boot_id). Of an action for the remote
	// runner, it is the boot that is to end.
	// +required
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID"`

	// When it was claimed.
	// +required
	Time metav1.Time `json:"time"`

	// The remedy: command, restartUnit, reboot, external or replace. A claimed reboot has succeeded
	// when the node runs with another boot ID.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Remedy string `json:"remedy"`

	// For restartUnit: the unit's invocation ID before the restart. Every start of
	// the unit changes it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	InvocationID string `json:"invocationID,omitempty"`
}

// ExternalStatus is how far the remediator of another program is.
type ExternalStatus struct {
	// The object. There is at most one for an action, and none of another UID is
	// touched.
	// +required
	Object ExternalObject `json:"object"`

	// What its status told last, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Said string `json:"said,omitempty"`

	// Its status told last that it has succeeded, which is no proof. Until it does, it
	// may be at work, and is not stopped because the node is clear for a moment.
	// +optional
	Succeeded bool `json:"succeeded,omitempty"`

	// Why the object is to go. The action ends when it is gone.
	// +optional
	Stop *ExternalStop `json:"stop,omitempty"`
}

// ExternalObject names an object of another program.
type ExternalObject struct {
	// Group and version.
	// +required
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`

	// Kind.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// Namespace, if its kind has namespaces.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// Name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// UID, once the object was seen.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid,omitempty"`
}

// ExternalStop is why the object of another program is to go.
type ExternalStop struct {
	// How the action ends when the object is gone: Succeeded, Failed or TimedOut.
	// +required
	// +kubebuilder:validation:Enum=Succeeded;Failed;TimedOut
	Reason string `json:"reason"`

	// Why, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// When that was found, by the clock of the controller.
	// +required
	Time metav1.Time `json:"time"`

	// The node is clear: the remediator is not told that its time is over.
	// +optional
	Clear bool `json:"clear,omitempty"`
}

// ReplaceStatus is how far the replacement of a machine is.
//
// +kubebuilder:validation:XValidation:rule="self.machine == oldSelf.machine && self.method == oldSelf.method && self.wanted == oldSelf.wanted",message="which machine is replaced, and how, never changes"
type ReplaceStatus struct {
	// ID of the remote runner that has the machine deleted, or marked. Until that was seen,
	// another one goes on from here when it has written its own.
	// +required
	// +kubebuilder:validation:MaxLength=253
	RunnerID string `json:"runnerID"`

	// The machine, with its UID. None of another UID is touched. A server of OpenStack is a
	// Server of openstack.org/v1, with its ID in Nova as the UID.
	// +required
	Machine ExternalObject `json:"machine"`

	// Who makes a new one: the controller of the Machine, the NodePool, or the node group of
	// Magnum, a NodeGroup of openstack.org/v1 with its cluster as the namespace.
	// +required
	Owner ExternalObject `json:"owner"`

	// Delete: the machine is deleted. Remediate: it is marked with the annotation
	// cluster.x-k8s.io/remediate-machine, and its owner deletes it. A server of OpenStack is
	// marked with the metadata nodemend-replace, then Magnum is asked to remove it.
	// +required
	// +kubebuilder:validation:Enum=Delete;Remediate
	Method ReplaceMethod `json:"method"`

	// How many nodes of the group have to be Ready, but this one: as many as when it was
	// claimed, and one more. It is lower once the owner wants fewer.
	// +required
	// +kubebuilder:validation:Minimum=1
	Wanted int32 `json:"wanted"`

	// What was seen last, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Said string `json:"said,omitempty"`

	// When it was first seen that the machine is deleted or marked.
	// +optional
	SentAt *metav1.Time `json:"sentAt,omitempty"`

	// For which reason the mark is taken back, since nobody has begun with the
	// remediation: how the action ends then.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Withdrawn string `json:"withdrawn,omitempty"`
}

// ReplaceMethod is how a machine is replaced.
type ReplaceMethod string

const (
	// ReplaceDelete deletes the machine.
	ReplaceDelete ReplaceMethod = "Delete"
	// ReplaceRemediate has the owner of a Machine, or of a server, remediate it.
	ReplaceRemediate ReplaceMethod = "Remediate"
)

// PowerCycleStatus is how far the power of a machine is switched off and on again.
type PowerCycleStatus struct {
	// ID of the remote runner that carries it out now. Another one goes on from here
	// when it has written its own.
	// +required
	// +kubebuilder:validation:MaxLength=253
	RunnerID string `json:"runnerID"`

	// Looking: nothing was switched. Cutting: an off may have been sent. ProvedOff: it
	// is off, as the proof says. Restoring: an on may have been sent. Watching: nothing has
	// proved that it is off, and what goes off late is switched on again. Ended: see outcome.
	// +required
	// +kubebuilder:validation:Enum=Looking;Cutting;ProvedOff;Restoring;Watching;Ended
	Phase string `json:"phase"`

	// The node's systemUUID when it was claimed: the machine that is switched.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	Machine string `json:"machine,omitempty"`

	// Labels of the node by which its switch was found, so that it is found when the node is
	// gone.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations of the node by which its switch was found.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Annotations map[string]string `json:"annotations,omitempty"`

	// The BareMetalHost of Metal3 that keeps the machine off, if its switch is one. It does so
	// until it is told otherwise, whatever another switch does. So the machine is switched by it
	// to the end, also if the configuration names another switch by then.
	// +optional
	Host *BareMetalHostReference `json:"host,omitempty"`

	// How it has ended: PowerCycled, PowerWasOff, CameOn, NodeAnswers, NewBoot, PowerStillOn,
	// WentOffLate, PowerStillOff, NotTheMachine, NotConfirmed or NoAnswer. While Watching, how
	// it ends if nothing happens.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Outcome string `json:"outcome,omitempty"`

	// Why, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// What proves that the boot named by the claim is over.
	// +optional
	Proof *PowerProof `json:"proof,omitempty"`

	// How often the power was read off again since the proof, while pods and volumes are to
	// be freed and nothing forbids that. Each of these readings began after the number
	// before it stood here: who sees it grow by two knows that the machine was off meanwhile.
	// +optional
	Held int32 `json:"held,omitempty"`
}

// BareMetalHostReference names a BareMetalHost of Metal3.
type BareMetalHostReference struct {
	// File in the remote runner's pod that leads to the cluster that has it; left out: this
	// cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// PowerProof shows that a boot of a node is over: the power was read off twice, without
// another reading in between, from a switch whose GUID is the node's systemUUID.
type PowerProof struct {
	// PowerOff.
	// +required
	// +kubebuilder:validation:Enum=PowerOff
	Kind string `json:"kind"`

	// Boot ID that the node had.
	// +required
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID"`

	// The node's systemUUID.
	// +required
	// +kubebuilder:validation:MaxLength=36
	Machine string `json:"machine"`

	// ID of the runner that has read it.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Reader string `json:"reader"`

	// What it was read from, with the address.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Switch string `json:"switch"`

	// The first reading.
	// +required
	First PowerReading `json:"first"`

	// The second reading.
	// +required
	Second PowerReading `json:"second"`

	// Time between the answer to the first and the question for the second.
	// +required
	Apart Duration `json:"apart"`
}

// PowerReading is one reading of a proof.
type PowerReading struct {
	// When it was answered, by the clock of the remote runner.
	// +required
	Time MicroTime `json:"time"`

	// What the switch calls its machine, with the bytes as they came.
	// +required
	// +kubebuilder:validation:MaxLength=36
	GUID string `json:"guid"`

	// Order of these bytes in which they are the systemUUID.
	// +required
	// +kubebuilder:validation:Enum=RFC4122;SMBIOS;IPMI
	Order string `json:"order"`
}

// ActionResult is the result of the execution of a remedy.
type ActionResult struct {
	// How it was executed: TransientUnit (a command, as a unit of the node's
	// systemd), Direct (a command, by the runner itself), Systemd, SysRq, PowerCycle or
	// Replace.
	// After a reboot it is the method of the policy's step, and absent if the policy does not
	// have the step any more.
	// +optional
	Execution Execution `json:"execution,omitempty"`

	// The unit after the restart.
	// +optional
	Unit *UnitResult `json:"unit,omitempty"`

	// Boot ID of the node after a reboot. The one before is in the claim.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BootIDAfter string `json:"bootIDAfter,omitempty"`

	// Exit status of the command. Absent if a signal ended it or it did not start.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// Signal that ended the command, for example "killed".
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Signal string `json:"signal,omitempty"`

	// When the execution began, by the node's clock.
	// +required
	StartedAt MicroTime `json:"startedAt"`

	// When the execution ended, by the node's clock.
	// +required
	FinishedAt MicroTime `json:"finishedAt"`

	// Last 4 KiB of the command's standard output and standard error. Bytes that are
	// not UTF-8 are replaced.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Output string `json:"output,omitempty"`

	// Whether earlier output was cut off.
	// +optional
	OutputTruncated bool `json:"outputTruncated,omitempty"`
}

// Execution is a way to execute a remedy.
type Execution string

const (
	// ExecutionTransientUnit runs a command as a transient unit of systemd.
	ExecutionTransientUnit Execution = "TransientUnit"
	// ExecutionDirect runs a command as a child of the runner, in the namespaces
	// and in a control group of the host.
	ExecutionDirect Execution = "Direct"
	// ExecutionSystemd asks systemd for it.
	ExecutionSystemd Execution = "Systemd"
	// ExecutionSysRq asks the kernel for it.
	ExecutionSysRq Execution = "SysRq"
	// ExecutionPowerCycle switches the power off and on.
	ExecutionPowerCycle Execution = "PowerCycle"
	// ExecutionReplace has the machine replaced by its owner.
	ExecutionReplace Execution = "Replace"
)

// UnitResult compares a systemd unit before and after its restart.
type UnitResult struct {
	// Name of the unit.
	// +required
	// +kubebuilder:validation:MaxLength=316
	Name string `json:"name"`

	// State after the restart, as `systemctl status` shows it: active (running).
	// +optional
	// +kubebuilder:validation:MaxLength=256
	State string `json:"state,omitempty"`

	// Main process before the restart. Absent if there was none.
	// +optional
	MainPIDBefore int64 `json:"mainPIDBefore,omitempty"`

	// Main process after the restart. Absent if there is none.
	// +optional
	MainPIDAfter int64 `json:"mainPIDAfter,omitempty"`

	// Invocation ID after the restart. The one before is in the claim.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	InvocationIDAfter string `json:"invocationIDAfter,omitempty"`
}

// NodeActionList is a list of node actions.
//
// +kubebuilder:object:root=true
type NodeActionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeAction `json:"items"`
}
