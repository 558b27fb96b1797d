package ipmitool

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

var (
	// " 20 01 02": bytes of an answer
	hexBytes = regexp.MustCompile(`^[0-9a-f]{2}( [0-9a-f]{2})*$`)
	// "Unable to send RAW command (channel=0x0 netfn=0xa lun=0x0 cmd=0x43 rsp=0xcb): …"; without
	// "rsp", if there is no answer
	noAnswer       = "Unable to send RAW command"
	completionCode = regexp.MustCompile(`^Unable to send RAW command \(.* rsp=0x([0-9a-f]{1,2})\)`)
)

// parse reads the lines that "raw" has written: the bytes of the answer, or the completion code
// of one that is an error. What else ipmitool has to say does not matter beside an answer.
func parse(lines []string) ([]byte, error) {
	const success = 0
	answer := []byte{success}
	complaint := complaints(lines)
	for _, line := range lines {
		if code := completionCode.FindStringSubmatch(line); code != nil {
			return hex.DecodeString(fmt.Sprintf("%02s", code[1]))
		}
		if hexBytes.MatchString(line) {
			bytes, err := hex.DecodeString(strings.ReplaceAll(line, " ", ""))
			if err != nil {
				return nil, err
			}
			answer = append(answer, bytes...)
		}
	}
	switch {
	case len(answer) > 1 || complaint == "":
		return answer, nil
	case strings.HasPrefix(complaint, noAnswer) || strings.Contains(complaint, "; "+noAnswer):
		return nil, fmt.Errorf("%s: %w", complaint, os.ErrDeadlineExceeded)
	default:
		return nil, errors.New(complaint)
	}
}
