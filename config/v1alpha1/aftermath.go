package v1alpha1

// Aftermath is what a boot that was ended by a reboot or a power cycle has left: why the node died,
// as far as it tells. The node's runner collects it once, in the boot that comes after. It is told
// by the node, and nothing is decided by it.
type Aftermath struct {
	// Boot ID of the boot in which it was collected. The boot that has ended is in the claim.
	// +required
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID"`

	// What each source has.
	// +optional
	// +kubebuilder:validation:MaxItems=3
	// +listType=map
	// +listMapKey=source
	Left []Leftover `json:"left,omitempty"`
}

// Leftover is what one source has of a boot that has ended.
type Leftover struct {
	// Journal: the last lines of the systemd journal of that boot. Pstore: what the kernel
	// kept when it crashed, in /sys/fs/pstore, or in /var/lib/systemd/pstore if systemd-pstore
	// has moved it there since. EventLog: what the BMC has logged since an hour before the
	// claim, by its own clock.
	// +required
	// +kubebuilder:validation:Enum=Journal;Pstore;EventLog
	Source LeftoverSource `json:"source"`

	// The last 4 KiB of it, as spec.output of the policy has it redacted. Bytes that are not
	// UTF-8 are replaced. Empty: there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Text string `json:"text,omitempty"`

	// Whether what came before was cut off.
	// +optional
	Truncated bool `json:"truncated,omitempty"`

	// Why there is nothing, or not all of it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Problem string `json:"problem,omitempty"`
}

// LeftoverSource is where a boot that has ended has left something.
type LeftoverSource string

const (
	// LeftoverJournal is the systemd journal.
	LeftoverJournal LeftoverSource = "Journal"
	// LeftoverPstore is the kernel's persistent store.
	LeftoverPstore LeftoverSource = "Pstore"
	// LeftoverEventLog is the System Event Log of the BMC.
	LeftoverEventLog LeftoverSource = "EventLog"
)

// AwaitsAftermath reports whether the node's runner in the boot of this ID is to collect what is left
// of the boot that the action has ended.
func (a *NodeAction) AwaitsAftermath(bootID string) bool {
	claim, finished := a.Status.Claim, a.Finished()
	if finished == nil || a.Status.Aftermath != nil || claim == nil || claim.Remedy != RemedyReboot || claim.BootID == bootID {
		return false
	}
	switch finished.Reason {
	case ReasonSucceeded, ReasonNotBack, ReasonPowerStillOn, ReasonPowerWasOff, ReasonRebootNotObserved, ReasonInterrupted:
		return true
	default: // it has ended nothing
		return false
	}
}
