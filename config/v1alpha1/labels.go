package v1alpha1

// ExcludeLabel on a node with the value "true" keeps every new action away
// from it. What is under way is finished or given back.
const ExcludeLabel = "nodemend.dev/exclude"

// ExcludeReasonAnnotation on a node says why it is excluded. For people.
const ExcludeReasonAnnotation = "nodemend.dev/exclude-reason"

// ClusterPauseBudget is the name of the RemediationBudget that pauses the whole cluster:
// it selects all nodes and is paused. The controller asks the API server itself for it
// before every action, and the runner before it claims one, so that a pause holds from the
// moment at which it is written.
const ClusterPauseBudget = "nodemend-pause"

// RemediationFinalizer keeps a remediation that a person deletes until the
// controller has ended what it started.
const RemediationFinalizer = "nodemend.dev/remediation"

// MaintenanceFinalizer keeps a maintenance that is deleted until the controller has
// given the node back.
const MaintenanceFinalizer = "nodemend.dev/maintenance"

// RequestFinalizer keeps a NodemendRemediation that is deleted until its Remediation has
// ended and the node is back in service.
const RequestFinalizer = "nodemend.dev/request"

// PowerFinalizer keeps an action of the remote runner that is deleted until a machine that it
// has switched off is on again, or so late that it is for people; or until a machine is replaced.
// And so it keeps a maintenance, also until the lamp of its machine is out.
const PowerFinalizer = "nodemend.dev/power"

// ExternalFinalizer keeps an action for another program that is deleted until that program's object
// is gone.
const ExternalFinalizer = "nodemend.dev/external"

// CordonedAnnotation on a node says that Nodemend has cordoned it and will uncordon
// it; its value is the name of the NodeMaintenance that was the first reason. A node
// that is cordoned without it was cordoned by somebody else, and stays so.
const CordonedAnnotation = "nodemend.dev/cordoned-for"

// RepairHeldAnnotation on a node says that Nodemend has told Karpenter not to repair it, by the annotation
// karpenter.sh/do-not-repair, and takes that away with its cordon, or before if it has given up. Its value is the
// name of the NodeMaintenance that it was for. One without this mark is somebody else's, and stays.
const RepairHeldAnnotation = "nodemend.dev/repair-held-for"

// Annotations by which people speak to a remediation.
const (
	// ApprovedStepAnnotation holds the number of the step, counted from 1, up to
	// which steps that require approval are approved.
	ApprovedStepAnnotation = "nodemend.dev/approved-step"
	// RetryAnnotation makes a remediation that is exhausted, or that waits for a
	// person since nobody knows whether an action was executed, start over with
	// its first step. Each new value does so once.
	RetryAnnotation = "nodemend.dev/retry"
	// ApprovedByAnnotation names who has approved: see Signed.
	ApprovedByAnnotation = "nodemend.dev/approved-by"
	// RetriedByAnnotation names who has asked to start over: see Signed.
	RetriedByAnnotation = "nodemend.dev/retried-by"
	// StartedByAnnotation names the person who has started a remediation by hand,
	// before its condition had held for its time. Admission lets only that person
	// write it.
	StartedByAnnotation = "nodemend.dev/started-by"
	// TombstoneAnnotation marks the remediation that the controller leaves in the
	// place of one that was deleted, with the name of that one: it does nothing but
	// keep its incident from starting another.
	TombstoneAnnotation = "nodemend.dev/tombstone-of"
	// TombstoneUIDAnnotation is the UID of the remediation in whose place a tombstone
	// is. The name of the next one follows from it, whether the tombstone is seen or not.
	TombstoneUIDAnnotation = "nodemend.dev/tombstone-of-uid"
	// TombstoneStartedAnnotation is when the remediation in whose place a tombstone is was
	// created, in RFC 3339.
	TombstoneStartedAnnotation = "nodemend.dev/tombstone-of-started"
)

// PausedByAnnotation names who has paused a policy or a budget: see Signed.
const PausedByAnnotation = "nodemend.dev/paused-by"
