package ipmitool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nodemend/nodemend/internal/cut"
)

// Reasons why ipmitool can't read a BMC, to be found with errors.Is.
var (
	ErrNoProgram = errors.New("there is no ipmitool")
	// ErrNoDevice is that there is no BMC, or no driver for it.
	ErrNoDevice = errors.New("ipmitool finds no IPMI device")
	// ErrNoSession is that a BMC of the network does not answer, or does not let the
	// user in.
	ErrNoSession = errors.New("ipmitool gets no session at the BMC")
	// ErrIncomplete is that the BMC has failed in the middle of its answer.
	ErrIncomplete = errors.New("ipmitool has not read everything")
)

// maxComplaint is how much of ipmitool's complaints an error holds.
const maxComplaint = 300

// failure returns the error of a run that has ended with err, by what it has
// written to stderr.
func failure(err error, stderr string) error {
	complaint := complaints(stderr)
	switch {
	case strings.Contains(stderr, "Could not open device"):
		return fmt.Errorf("%w (%s): load the kernel modules ipmi_devintf and ipmi_si, and give access to /dev/ipmi0", ErrNoDevice, complaint)
	case strings.Contains(stderr, "Unable to establish"):
		return fmt.Errorf("%w (%s): check its address, user, password, key and cipher suite", ErrNoSession, complaint)
	case complaint == "":
		return err
	default:
		return fmt.Errorf("%w: %s", err, complaint)
	}
}

// complaints returns what matters of stderr as one line.
func complaints(stderr string) string {
	var lines []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		// It lacks a file with the names of vendors; the other is what an empty SEL
		// looks like.
		if line == "" || strings.HasPrefix(line, "IANA PEN registry") || line == "SEL has no entries" {
			continue
		}
		lines = append(lines, line)
	}
	return cut.Head(strings.ToValidUTF8(strings.Join(lines, "; "), "?"), maxComplaint)
}

// truncated returns the complaint that a list of the SEL or of the SDR repository is not
// complete, which ipmitool does not tell by its exit code.
func truncated(stderr string) string {
	for line := range strings.Lines(stderr) {
		complaint := complaints(line)
		if (strings.Contains(complaint, "SEL") || strings.Contains(complaint, "SDR")) &&
			!strings.Contains(complaint, "Unknown SDR repository version") {
			return complaint
		}
	}
	return ""
}
