package drives

// Reasons of the condition.
const (
	// ReasonHealthy, with False: nothing is wrong.
	ReasonHealthy = "DrivesAreHealthy"
	// ReasonFailed: the kernel has given a drive up.
	ReasonFailed = "DriveFailed"
	// ReasonArrayFailed: an array has lost more of its drives than it can do without.
	ReasonArrayFailed = "ArrayFailed"
	// ReasonReadOnly: a drive lets nobody write any more.
	ReasonReadOnly = "DriveReadOnly"
	// ReasonFailing: a drive says itself that it fails, or soon will.
	ReasonFailing = "DriveFailing"
	// ReasonHung: a drive has not told how it is for long.
	ReasonHung = "DriveHung"
	// ReasonMissing: a drive that was not well is gone.
	ReasonMissing = "DriveMissing"
	// ReasonMedia: a drive has lost blocks.
	ReasonMedia = "MediaErrors"
	// ReasonErrors: too many requests to a drive fail.
	ReasonErrors = "IOErrors"
	// ReasonDegraded: an array works without one of its drives.
	ReasonDegraded = "ArrayDegraded"
	// ReasonNotStarted: an array has disks and was not started.
	ReasonNotStarted = "ArrayNotStarted"
	// ReasonSpare: a drive has hardly any spare blocks left.
	ReasonSpare = "SpareLow"
	// ReasonWorn: a drive has done what its maker promises.
	ReasonWorn = "DriveWornOut"
	// ReasonCache: what a drive has not yet written does not outlive a loss of power.
	ReasonCache = "CacheUnprotected"
	// ReasonHot: a drive is too hot, or too cold.
	ReasonHot = "DriveTooHot"
	// ReasonSlow, with Unknown: a drive has not told yet how it is.
	ReasonSlow = "DriveSlow"
	// ReasonNotReady, with Unknown: the kernel resets a drive.
	ReasonNotReady = "DriveNotReady"
	// ReasonNotSeen, with Unknown: drives or their health can't be seen.
	ReasonNotSeen = "DrivesNotSeen"
)

// grave are the reasons that prove a problem, the gravest first.
func grave() []string {
	return []string{
		ReasonFailed, ReasonArrayFailed, ReasonReadOnly, ReasonFailing, ReasonHung, ReasonMissing, ReasonMedia, ReasonErrors,
		ReasonDegraded, ReasonNotStarted, ReasonSpare, ReasonWorn, ReasonCache, ReasonHot,
	}
}
