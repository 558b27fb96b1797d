package filesystem

// Reasons of the condition, the gravest first: of several problems the first counts.
const (
	// ReasonReadOnly: the kernel lets nobody write any more, though it was mounted to be
	// written.
	ReasonReadOnly = "FilesystemReadOnly"
	// ReasonFailed: the file system was shut down, or answers with an error of its disk.
	ReasonFailed = "FilesystemFailed"
	// ReasonWriteFailed: a block could not be written.
	ReasonWriteFailed = "WriteFailed"
	// ReasonHung: an answer, or a written block, is waited for since longer than MaxWait.
	ReasonHung = "FilesystemHung"
	// ReasonErrors: ext4 has found itself to be damaged.
	ReasonErrors = "FilesystemErrors"
	// ReasonFull: hardly any space is left.
	ReasonFull = "FilesystemFull"
	// ReasonInodes: hardly any file can be created any more.
	ReasonInodes = "InodesExhausted"
	// ReasonSlow, with Unknown: an answer is waited for, but not yet for MaxWait.
	ReasonSlow = "FilesystemSlow"
	// ReasonNotSeen, with Unknown: something could not be looked at.
	ReasonNotSeen = "FilesystemNotSeen"
	// ReasonInterrupted, with Unknown: the run was ended from outside.
	ReasonInterrupted = "Interrupted"
	// ReasonHealthy: none of these.
	ReasonHealthy = "FilesystemsHealthy"
)

// grave are the reasons of problems, the gravest first.
func grave() []string {
	return []string{ReasonReadOnly, ReasonFailed, ReasonWriteFailed, ReasonHung, ReasonErrors, ReasonFull, ReasonInodes}
}
