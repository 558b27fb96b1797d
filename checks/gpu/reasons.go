package gpu

// Reasons of the condition.
const (
	// ReasonHealthy, with False: nothing is wrong.
	ReasonHealthy = "GPUsAreHealthy"
	// ReasonFellOff: a GPU answers nothing on its bus any more.
	ReasonFellOff = "GPUFellOffTheBus"
	// ReasonMissing: a GPU that the node had is not there any more.
	ReasonMissing = "GPUMissing"
	// ReasonReboot: the driver says that the node has to be rebooted.
	ReasonReboot = "NodeRebootRequired"
	// ReasonReset: the driver says that a GPU has to be reset.
	ReasonReset = "GPUResetRequired"
	// ReasonNotAnswering: the driver does not answer for a GPU, and did before.
	ReasonNotAnswering = "GPUNotAnswering"
	// ReasonRemappingFailed: a GPU can't replace rows of its memory that are broken.
	ReasonRemappingFailed = "RowRemappingFailed"
	// ReasonRecovery: the driver asks for something else than a reset or a reboot.
	ReasonRecovery = "GPURecoveryRequired"
	// ReasonRemappingPending: a GPU replaces parts of its memory when it is reset next.
	ReasonRemappingPending = "RowRemappingPending"
	// ReasonSlowed: a GPU has slowed itself down for long.
	ReasonSlowed = "GPUSlowedDown"
	// ReasonNoDriver, with Unknown: no driver has a GPU that one had before.
	ReasonNoDriver = "GPUHasNoDriver"
	// ReasonNotSeen, with Unknown: GPUs or their health can't be seen.
	ReasonNotSeen = "GPUsNotSeen"
)

// grave are the reasons that prove a problem, the gravest first.
func grave() []string {
	return append([]string{ReasonFellOff, ReasonMissing, ReasonReboot, ReasonReset, ReasonNotAnswering}, milder()...)
}

// milder are those with which a GPU goes on working.
func milder() []string {
	return []string{ReasonRemappingFailed, ReasonRecovery, ReasonRemappingPending, ReasonSlowed}
}
