package exhaustion

import (
	"fmt"

	"github.com/nodemend/nodemend/checks"
)

// Reasons of the condition, the gravest first: of several the first counts.
const (
	// ReasonProcesses: hardly any process or thread can be started any more.
	ReasonProcesses = "ProcessesExhausted"
	// ReasonFileHandles: hardly any file can be opened any more, by nobody.
	ReasonFileHandles = "FileHandlesExhausted"
	// ReasonTasks: a program's unit can hardly start a process or thread any more.
	ReasonTasks = "TasksExhausted"
	// ReasonOpenFiles: a program can hardly open a file or connection any more.
	ReasonOpenFiles = "OpenFilesExhausted"
	// ReasonInotify: root can watch no more files.
	ReasonInotify = "InotifyExhausted"
	// ReasonConntrack: the table of connections is full, and the kernel drops packets of new
	// ones.
	ReasonConntrack = "ConntrackExhausted"
	// ReasonNotSeen, with Unknown: something could not be looked at.
	ReasonNotSeen = "LimitsNotSeen"
	// ReasonHealthy: nothing is used up.
	ReasonHealthy = "ResourcesAvailable"
)

// grave are the reasons of problems, the gravest first.
func grave() []string {
	return []string{ReasonProcesses, ReasonFileHandles, ReasonTasks, ReasonOpenFiles, ReasonInotify, ReasonConntrack}
}

// use is how much of something is used.
type use struct {
	// reason is that of the problem if it is too much.
	reason string
	// who and what of: "containerd (process 812)" and "open files".
	who, what string
	used      uint64
	// limit is the most there can be, and who sets it; zero: none.
	limit uint64
	by    string
}

func (u use) String() string {
	text := fmt.Sprintf("%d of %d %s (%s)", u.used, u.limit, u.what, u.by)
	if u.who != "" {
		text = u.who + ": " + text
	}
	return text
}

// tooMuch is whether at least so many percent of the limit are used.
func (u use) tooMuch(percent int) bool {
	return u.limit > 0 && float64(u.used) >= float64(u.limit)*float64(percent)/100 // the product of integers may be too large
}

// finding is something that is not well.
type finding = checks.Finding

// findings are what is used too much.
func findings(uses []use, percent int) (all []finding) {
	for _, u := range uses {
		if u.tooMuch(percent) {
			all = append(all, finding{Reason: u.reason, Text: u.String()})
		}
	}
	return all
}

// verdict is what all findings mean, and what could not be looked at.
func verdict(found []finding, errs []error, looked int) checks.Result {
	for _, err := range errs {
		found = append(found, finding{Reason: ReasonNotSeen, Text: err.Error()})
	}
	return checks.Judge(found, grave(), checks.Healthy(ReasonHealthy, fmt.Sprintf("none of %d limits is near", looked)))
}
