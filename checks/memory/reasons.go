package memory

// Reasons of the condition.
const (
	// ReasonHealthy, with False: no module has too many errors.
	ReasonHealthy = "MemoryIsHealthy"
	// ReasonUncorrected: a module had an error that could not be corrected.
	ReasonUncorrected = "UncorrectedErrors"
	// ReasonNotOffline: a page with such an error could not be put out of use.
	ReasonNotOffline = "PagesInUse"
	// ReasonOffline: too many pages are out of use.
	ReasonOffline = "PagesOffline"
	// ReasonCorrected: a module has too many errors that were corrected.
	ReasonCorrected = "CorrectedErrors"
	// ReasonNotSeen, with Unknown: the counters can't be read.
	ReasonNotSeen = "MemoryNotSeen"
)

// grave are the reasons that prove a problem, the gravest first.
func grave() []string {
	return []string{ReasonUncorrected, ReasonNotOffline, ReasonOffline, ReasonCorrected}
}
