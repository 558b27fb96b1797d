package ipmi

import (
	"errors"
	"fmt"
)

// ErrNoAnswer is wrapped by errors of a BMC that has not answered in time.
var ErrNoAnswer = errors.New("the BMC does not answer")

// ErrMalformed is wrapped by errors of an answer that is shorter than IPMI 2.0 says.
var ErrMalformed = errors.New("malformed answer")

// ErrPartial is wrapped by errors of a Source that returns what it has read all the same,
// and reads on from there the next time.
var ErrPartial = errors.New("not all could be read")

// CompletionCode is the error that a BMC answers a command with (IPMI 2.0, table
// 5-2). Errors of a Source wrap it: errors.Is(err, ipmi.NodeBusy).
type CompletionCode uint8

// Completion codes.
const (
	NodeBusy              CompletionCode = 0xc0
	InvalidCommand        CompletionCode = 0xc1
	InvalidForLUN         CompletionCode = 0xc2
	ProcessingTimeout     CompletionCode = 0xc3
	OutOfSpace            CompletionCode = 0xc4
	ReservationLost       CompletionCode = 0xc5
	InvalidLength         CompletionCode = 0xc7
	LengthLimitExceeded   CompletionCode = 0xc8
	OutOfRange            CompletionCode = 0xc9
	CannotReturnBytes     CompletionCode = 0xca
	NotPresent            CompletionCode = 0xcb
	InvalidField          CompletionCode = 0xcc
	IllegalForRecord      CompletionCode = 0xcd
	NoResponse            CompletionCode = 0xce
	RepositoryUpdate      CompletionCode = 0xd0
	FirmwareUpdate        CompletionCode = 0xd1
	Initializing          CompletionCode = 0xd2
	Unreachable           CompletionCode = 0xd3
	InsufficientPrivilege CompletionCode = 0xd4
	WrongState            CompletionCode = 0xd5
	Disabled              CompletionCode = 0xd6
	UnspecifiedError      CompletionCode = 0xff
)

// Error says what the code means.
func (c CompletionCode) Error() string {
	return fmt.Sprintf("the BMC answers %s (completion code 0x%02x)", c.meaning(), uint8(c))
}

// Temporary reports whether the same command may succeed later: the BMC is busy,
// short of something, or not ready yet.
func (c CompletionCode) Temporary() bool {
	switch c {
	case NodeBusy, ProcessingTimeout, OutOfSpace, RepositoryUpdate, FirmwareUpdate, Initializing:
		return true
	default:
		return false
	}
}

func (c CompletionCode) meaning() string {
	switch c {
	case NodeBusy:
		return "node busy"
	case InvalidCommand:
		return "invalid command"
	case InvalidForLUN:
		return "command invalid for this LUN"
	case ProcessingTimeout:
		return "timeout while processing the command"
	case OutOfSpace:
		return "out of space"
	case ReservationLost:
		return "reservation cancelled"
	case InvalidLength:
		return "request data length invalid"
	case LengthLimitExceeded:
		return "request data field length limit exceeded"
	case OutOfRange:
		return "parameter out of range"
	case CannotReturnBytes:
		return "cannot return the number of bytes requested"
	case NotPresent:
		return "sensor, data or record not present"
	case InvalidField:
		return "invalid data field in request"
	case IllegalForRecord:
		return "command illegal for this sensor or record"
	case NoResponse:
		return "no response could be provided"
	case RepositoryUpdate:
		return "SDR repository in update mode"
	case FirmwareUpdate:
		return "device in firmware update mode"
	case Initializing:
		return "BMC initialization in progress"
	case Unreachable:
		return "destination unavailable"
	case InsufficientPrivilege:
		return "insufficient privilege"
	case WrongState:
		return "not supported in the present state"
	case Disabled:
		return "sub-function disabled"
	case UnspecifiedError:
		return "unspecified error"
	default:
		return "a code of its own"
	}
}
