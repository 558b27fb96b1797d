package ipmitool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nodemend/nodemend/internal/cut"
)

// Reasons why ipmitool can't reach a BMC, to be found with errors.Is.
var (
	ErrNoProgram = errors.New("there is no ipmitool")
	// ErrNoDevice is that there is no BMC, or no driver for it.
	ErrNoDevice = errors.New("ipmitool finds no IPMI device")
	// ErrNoSession is that a BMC of the network does not answer, or does not let the
	// user in.
	ErrNoSession = errors.New("ipmitool gets no session at the BMC")

	errEnded   = errors.New("it has ended")
	errTooMuch = fmt.Errorf("its output is longer than %d KiB, or one line of it", maxOutput>>10)
)

// maxComplaint is how much of ipmitool's complaints an error holds.
const maxComplaint = 300

// failure returns the error of an ipmitool that has ended with err, by what it has written.
func failure(err error, lines []string) error {
	complaint := complaints(lines)
	if err == nil {
		err = errEnded
	}
	switch {
	case strings.Contains(complaint, "Could not open device"):
		return fmt.Errorf("%w (%s): load the kernel modules ipmi_devintf and ipmi_si, and give access to /dev/ipmi0", ErrNoDevice, complaint)
	case strings.Contains(complaint, "Unable to establish"):
		return fmt.Errorf("%w (%s): check its address, user, password, key and cipher suite", ErrNoSession, complaint)
	case complaint == "":
		return err
	default:
		return fmt.Errorf("%w: %s", err, complaint)
	}
}

// complaints returns what matters of the lines as one.
func complaints(lines []string) string {
	var all []string
	for _, line := range lines {
		if !strings.HasPrefix(line, "IANA PEN registry") { // it lacks a file with the names of vendors
			all = append(all, line)
		}
	}
	return cut.Head(strings.ToValidUTF8(strings.Join(all, "; "), "?"), maxComplaint)
}
