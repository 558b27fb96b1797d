package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RemedyPolicy maps node conditions, or the requests of another program, to a list of
// steps that repair the node, gentlest first.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=rpol,categories=nodemend
// +kubebuilder:printcolumn:name="First Match",type=string,JSONPath=`.spec.match[0].type`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Paused",type=boolean,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Open",type=integer,JSONPath=`.status.openRemediations`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Healthy For",type=string,JSONPath=`.spec.recovery.healthyFor`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type RemedyPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which conditions start a remediation, and what it does.
	// +required
	Spec RemedyPolicySpec `json:"spec"`

	// Whether it can act, and what it did, written by the controller. Nothing is
	// decided by it.
	// +optional
	Status RemedyPolicyStatus `json:"status,omitempty,omitzero"`
}

// RemedyPolicySpec says which condition, held for how long, on which nodes,
// gets which steps.
//
// +kubebuilder:validation:XValidation:rule="!self.steps.exists(s, has(s.reboot) && has(s.reboot.method) && s.reboot.method == 'PowerCycle') || !has(self.match) || self.match.exists(m, m.type == 'Ready' && m.status == 'Unknown')",message="a reboot with method PowerCycle is for nodes that do not answer: match must have {type: Ready, status: Unknown}",fieldPath=".match"
type RemedyPolicySpec struct {
	// Nodes that this policy applies to. If it is left out, all nodes,
	// control-plane nodes included.
	//
	// Example: {matchExpressions: [{key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}]}
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",message="must not be empty: give matchLabels or matchExpressions, or leave nodeSelector out to select all nodes"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0))",message="operator must be In or NotIn with values, or Exists or DoesNotExist without values"
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// Conditions that start a remediation. One of them, held for its time, is
	// enough to start it. All of them must be clear for the node to be recovered.
	//
	// If it is left out, the policy starts nothing by itself, but whenever a
	// NodemendRemediation asks for it: NodeHealthCheck or a MachineHealthCheck decides
	// then when the node is sick, and when it has recovered.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(m, !has(m.healthy) || self.all(n, n.type != m.type || (n.status != m.healthy && (!has(n.healthy) || n.healthy == m.healthy))))",message="healthy must differ from the status of each entry of its type, and be the same in all of them"
	// +kubebuilder:validation:XValidation:rule="self.all(m, !has(m.healthy) || m.type != 'Ready' || m.healthy == 'True')",message="healthy must be \"True\" for Ready"
	// +listType=atomic
	Match []ConditionMatch `json:"match,omitempty"`

	// Steps of the repair, gentlest first. The next attempt or step starts only
	// after the one before was executed and a check has confirmed the fault since.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.filter(s, has(s.maintenance)).size() == 0 || (self.filter(s, has(s.maintenance)).size() == 1 && has(self[self.size() - 1].maintenance))",message="maintenance must be the last step: it lasts until the node has recovered"
	// +kubebuilder:validation:XValidation:rule="self.filter(s, has(s.replace)).size() == 0 || (self.filter(s, has(s.replace)).size() == 1 && has(self[self.size() - 1].replace))",message="replace must be the last step: the node is gone after it"
	// +listType=atomic
	Steps []Step `json:"steps"`

	// When the node counts as recovered, and who uncordons it then.
	// +optional
	// +kubebuilder:default={}
	Recovery Recovery `json:"recovery,omitempty,omitzero"`

	// Minimum time between two remediations of this policy on one node, counted
	// from the end of the first. A remediation that executed nothing does not count.
	// +optional
	// +kubebuilder:default="10m"
	Cooldown *Duration `json:"cooldown,omitempty"`

	// Maximum number of remediations of this policy that may act on one node
	// within a time. A node that needs more needs a person.
	// +optional
	// +kubebuilder:default={count: 3, per: "24h"}
	MaxRemediations *Rate `json:"maxRemediations,omitempty"`

	// Time after a node has joined the cluster during which it is left alone.
	// +optional
	// +kubebuilder:default="10m"
	DelayAfterJoin *Duration `json:"delayAfterJoin,omitempty"`

	// Enforce: the policy acts. DryRun: it decides and shows what it would do, and
	// does nothing.
	// +optional
	// +kubebuilder:default=Enforce
	// +kubebuilder:validation:Enum=Enforce;DryRun
	Mode PolicyMode `json:"mode,omitempty"`

	// Stops the policy: it starts no new action. A running action ends normally, a
	// drain stops, and nodes that recover are uncordoned.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Who paused it, and why. For people.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	PauseReason string `json:"pauseReason,omitempty"`

	// How much of a command's output is kept. Everybody who may read NodeActions or
	// Remediations can read it, and it may hold secrets.
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
	// Maximum number of events.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Count int32 `json:"count"`

	// Length of the sliding window, from 1m to 720h.
	//
	// Example: 24h
	// +required
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.hmnsu]+$') || (duration(self) >= duration('1m') && duration(self) <= duration('720h'))",message="must be from 1m to 720h"
	Per Duration `json:"per"`
}

// OutputPolicy says what is kept of what commands print.
type OutputPolicy struct {
	// Tail: the last 4 KiB are kept in the status of the NodeAction. None: nothing
	// is kept.
	// +optional
	// +kubebuilder:default=Tail
	// +kubebuilder:validation:Enum=Tail;None
	Keep OutputKeep `json:"keep,omitempty"`

	// Regular expressions (RE2). Text that matches one is replaced by *** before the
	// output is kept. Each is applied to one line at a time, without the newline. A
	// last line that was cut off is dropped.
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
//
// +kubebuilder:validation:XValidation:rule="!has(self.ignoreAfter) || !has(self.__for__) || !self.ignoreAfter.matches('^[0-9.hmnsu]+$') || !self.__for__.matches('^[0-9.hmnsu]+$') || duration(self.ignoreAfter) > duration(self.__for__)",message="ignoreAfter must be longer than for, or nothing ever starts"
// +kubebuilder:validation:XValidation:rule="!has(self.debounce) || !(self.type in ['Ready', 'MemoryPressure', 'DiskPressure', 'PIDPressure', 'NetworkUnavailable'])",message="debounce needs a condition that is reported again and again, which the kubelet's and NetworkUnavailable are not; leave it out"
type ConditionMatch struct {
	// Type of the node condition, as in `kubectl describe node`.
	//
	// Example: ContainerRuntimeUnhealthy
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Type string `json:"type"`

	// Status that is a problem, in quotes: "True", "False" or "Unknown". For
	// conditions of node-problem-detector it is "True"; for the kubelet's Ready it is
	// "False" or "Unknown".
	// +required
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status corev1.ConditionStatus `json:"status"`

	// Status that proves recovery, in quotes: "True" or "False". If it is left out,
	// the opposite of status; where status is Unknown, that of another entry of this
	// type, or "False", as in conditions of node-problem-detector ("True" for Ready).
	// Give it with status Unknown for a condition whose True is healthy.
	//
	// Example: "True"
	// +optional
	// +kubebuilder:validation:Enum="True";"False"
	Healthy corev1.ConditionStatus `json:"healthy,omitempty"`

	// Reasons that match; all of them if left out. A condition with several reasons,
	// separated by commas, matches if one of them is listed.
	//
	// Example: [Timeout]
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	// +listType=set
	Reasons []string `json:"reasons,omitempty"`

	// How long the condition must have this status before the remediation starts,
	// counted from its lastTransitionTime, whatever reasons it had meanwhile, or as
	// debounce says. 0s starts it at once. A condition that comes back during the
	// remediation must have it as long again before the next step.
	//
	// Example: 1m30s
	// +optional
	// +kubebuilder:default="0s"
	For Duration `json:"for,omitempty,omitzero"`

	// Lets the controller count itself for how long the condition has this status, on its
	// own clock, from when it has seen it: for conditions of other agents, which set
	// lastTransitionTime anew when only the reason changes, or change the status for
	// seconds. What the status is for shorter than debounce, in one piece, does not end
	// it. It starts nothing, and is no evidence for a step, while it is another one. It
	// counts as healthy only after it was so for debounce in one piece, and healthyFor
	// is counted from when the controller saw it become so. From 1m to 1h; longer than
	// the agent takes until it reports the same again.
	//
	// The controller counts anew after its own restart, and when it cannot know what
	// was between two reports: they are further apart than debounce and differ in
	// lastTransitionTime, or are more than 7m apart. So it starts later then, never
	// earlier. Not for Ready, MemoryPressure, DiskPressure, PIDPressure and
	// NetworkUnavailable.
	//
	// Example: 2m
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.hmnsu]+$') || (duration(self) >= duration('1m') && duration(self) <= duration('1h'))",message="must be from 1m to 1h"
	Debounce Duration `json:"debounce,omitempty,omitzero"`

	// How long the condition may have had this status, counted from its
	// lastTransitionTime, or as debounce says if that is earlier, until it counts no
	// more. After that it starts nothing, and
	// an open remediation takes no further step for it; nor does it prove recovery.
	// At least 1h, and longer than for. If it is left out, it counts at any age. Give
	// it for a condition that another agent sets once and may never take back.
	//
	// Example: 12h
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') || !self.matches('^[0-9.hmnsu]+$')",message="must be at least 1h"
	IgnoreAfter Duration `json:"ignoreAfter,omitempty,omitzero"`
}

// Step is one remedy, and how long and how often it is tried.
//
// +kubebuilder:validation:XValidation:rule="!has(self.reboot) || !has(self.reboot.method) || self.reboot.method != 'PowerCycle' || (has(self.timeout) && (!self.timeout.matches('^[0-9.hmnsu]+$') || duration(self.timeout) >= duration('15m')))",message="must be at least 15m for a reboot with method PowerCycle: power may take 5m to be proved off and 3m to go on, and then the machine boots",fieldPath=".timeout"
// +kubebuilder:validation:XValidation:rule="!has(self.reboot) || !has(self.reboot.outOfService) || !self.reboot.outOfService || (has(self.timeout) && (!self.timeout.matches('^[0-9.hmnsu]+$') || duration(self.timeout) >= duration('20m')))",message="must be at least 20m for a reboot with outOfService: power may stay off for 5m more, until pods and volumes are freed",fieldPath=".timeout"
// +kubebuilder:validation:XValidation:rule="!has(self.external) || (has(self.timeout) && (!self.timeout.matches('^[0-9.hmnsu]+$') || (duration(self.timeout) >= duration('2m') && duration(self.timeout) <= duration('24h'))))",message="must be from 2m to 24h for an external step: it is for how long the remediator may work until the node is clear",fieldPath=".timeout"
// +kubebuilder:validation:XValidation:rule="!has(self.replace) || (has(self.timeout) && (!self.timeout.matches('^[0-9.hmnsu]+$') || (duration(self.timeout) >= duration('10m') && duration(self.timeout) <= duration('24h'))))",message="must be from 10m to 24h for a replace step: the machine's owner drains the node and deletes the machine, and a new one boots",fieldPath=".timeout"
// +kubebuilder:validation:XValidation:rule="[has(self.command), has(self.restartUnit), has(self.reboot), has(self.external), has(self.replace), has(self.maintenance)].exists_one(x, x)",message="exactly one remedy is required: command, restartUnit, reboot, external, replace or maintenance"
type Step struct {
	// Runs a command on the node, as root.
	// +optional
	Command *CommandRemedy `json:"command,omitempty"`

	// Restarts a systemd unit of the node, and checks that it is active afterwards.
	// +optional
	RestartUnit *RestartUnitRemedy `json:"restartUnit,omitempty"`

	// Cordons the node, reboots it, waits until it has booted, and uncordons it.
	// +optional
	Reboot *RebootRemedy `json:"reboot,omitempty"`

	// Cordons the node, and leaves it to the remediator of another program, such as
	// SelfNodeRemediation or FenceAgentsRemediation of medik8s, or Metal3Remediation.
	// +optional
	External *ExternalRemedy `json:"external,omitempty"`

	// Cordons the node, and has its machine deleted and replaced by the program that
	// owns it: Cluster API, Karpenter or Magnum. It must be the last step. The remote runner does
	// it, if its configuration says so.
	// +optional
	Replace *ReplaceRemedy `json:"replace,omitempty"`

	// Keeps the node cordoned until it has recovered, whatever the reason. It must be
	// the last step.
	// +optional
	Maintenance *MaintenanceRemedy `json:"maintenance,omitempty"`

	// Maximum duration of one attempt, at least 1s. When it is over, a command is
	// killed with all processes that it started, and so are the processes of a unit
	// that does not stop. For a reboot it includes the boot. An external remediator is
	// told to stop, and what it still does then is waited for. For replace it is how long
	// the whole may take, until a new node is Ready; a machine that is not gone by then is
	// waited for. A drain has its own
	// timeout, and a maintenance has none.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') || !self.matches('^[0-9.hmnsu]+$')",message="must be at least 1s"
	Timeout Duration `json:"timeout,omitempty,omitzero"`

	// Time that the conditions have to clear after an attempt, at least 1s. If a
	// check confirms the fault after that, the next attempt or step starts. Without
	// fresh evidence nothing more is done.
	// +optional
	// +kubebuilder:default="2m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') || !self.matches('^[0-9.hmnsu]+$')",message="must be at least 1s"
	VerifyTimeout Duration `json:"verifyTimeout,omitempty,omitzero"`

	// Waits for a person before the first attempt of this step. To approve it, set
	// the annotation nodemend.dev/approved-step of the Remediation to the step's number.
	// +optional
	RequireApproval bool `json:"requireApproval,omitempty"`

	// Number of attempts of this step before the next one.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Attempts int32 `json:"attempts,omitempty"`
}

// Recovery says when a node counts as recovered.
type Recovery struct {
	// How long every entry of match must be clear, on fresh evidence. At least 1s.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') || !self.matches('^[0-9.hmnsu]+$')",message="must be at least 1s"
	HealthyFor Duration `json:"healthyFor,omitempty,omitzero"`

	// Who uncordons a node that has recovered. Auto: the controller, at once. Manual:
	// a person, by deleting its NodeMaintenance.
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

// RemedyPolicyReady is the type of the condition of a RemedyPolicy that is True if the
// cluster lets the policy do what its spec says. A policy that is paused or in mode DryRun
// does so.
const RemedyPolicyReady = "Ready"

// Reasons of the Ready condition, False unless it says otherwise. One more is
// ReasonDryRun: True, the policy shows what it would do, as its mode says.
const (
	// ReasonEnforced: True, the policy acts.
	ReasonEnforced = "Enforced"
	// ReasonPaused: True, the policy starts no action, as its paused says.
	ReasonPaused = "Paused"
	// ReasonSelectorInvalid: the nodeSelector cannot be read.
	ReasonSelectorInvalid = "SelectorInvalid"
	// ReasonNoNode: the nodeSelector selects no node.
	ReasonNoNode = "NoNode"
	// ReasonNotReported: no selected node has one of the conditions of match.
	ReasonNotReported = "NotReported"
	// ReasonNoRemediationAllowed: the policy's own maxRemediations allows none.
	ReasonNoRemediationAllowed = "NoRemediationAllowed"
	// ReasonNoBudget: no RemediationBudget selects any of the selected nodes.
	ReasonNoBudget = "NoBudget"
	// ReasonNoNodeAllowed: each of the selected nodes is without a budget, in one that
	// allows no action, or excluded.
	ReasonNoNodeAllowed = "NoNodeAllowed"
)

// RemedyPolicyStatus is what there is for the policy to do, and what it did.
type RemedyPolicyStatus struct {
	// Generation of the spec that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Number of nodes that spec.nodeSelector selects.
	// +optional
	Nodes *int32 `json:"nodes,omitempty"`

	// Number of these that no RemediationBudget selects. They are left alone.
	// +optional
	NodesWithoutBudget *int32 `json:"nodesWithoutBudget,omitempty"`

	// How many of the selected nodes report the conditions of spec.match.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	Reports []ConditionReports `json:"reports,omitempty"`

	// Number of remediations of this policy that have not ended.
	// +optional
	OpenRemediations *int32 `json:"openRemediations,omitempty"`

	// The remediation of this policy that started last.
	// +optional
	LastRemediation *LastRemediation `json:"lastRemediation,omitempty"`

	// Observations: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionReports is how many nodes report a condition.
type ConditionReports struct {
	// Type of the condition.
	// +required
	Type string `json:"type"`

	// Number of selected nodes that have it, whatever its status, and however long ago
	// it was reported.
	// +required
	Nodes int32 `json:"nodes"`
}

// LastRemediation is the remediation that started last.
type LastRemediation struct {
	// Name of the Remediation. It may be gone.
	// +required
	Name string `json:"name"`

	// Name of the node.
	// +required
	NodeName string `json:"nodeName"`

	// When it started.
	// +required
	StartedAt metav1.Time `json:"startedAt"`

	// When it ended. Absent while it is open.
	// +optional
	EndedAt *metav1.Time `json:"endedAt,omitempty"`

	// How it ended: the reason of its Progressing condition. Absent while it is open.
	// +optional
	Outcome string `json:"outcome,omitempty"`
}

// RemedyPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type RemedyPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RemedyPolicy `json:"items"`
}
