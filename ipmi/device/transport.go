package device

import (
	"context"
	"errors"
	"fmt"

	uroot "github.com/u-root/u-root/pkg/ipmi"

	"github.com/nodemend/nodemend/ipmi"
)

// Transport carries commands to the BMC. It is not used by two goroutines at once,
// except for Close.
type Transport interface {
	// SendRecv sends a request to LUN 0 and returns the answer, which begins with the
	// completion code. An error means that there was no answer; one that is
	// os.ErrDeadlineExceeded that there was none in time. It should return when ctx ends,
	// but need not before Close.
	SendRecv(ctx context.Context, netfn, cmd uint8, data []byte) ([]byte, error)
	// Close ends a SendRecv that is under way although its context has ended.
	Close() error
}

// Target is the one that a command is for.
type Target struct {
	// Owner is the slave address of a management controller. Software has odd ones, and
	// can't be reached.
	Owner uint8
	// Channel is the one that it is on; 0 is the primary IPMB.
	Channel uint8
	LUN     uint8
}

// itself is where the BMC executes most commands.
var itself = Target{Owner: ipmi.BMCAddress}

// Router is a Transport that reaches others than the BMC's LUN 0, too.
type Router interface {
	Transport
	// Reaches reports whether it is made for such a target.
	Reaches(to Target) bool
	// SendRecvTo is SendRecv for that target.
	SendRecvTo(ctx context.Context, to Target, netfn, cmd uint8, data []byte) ([]byte, error)
}

// Rester is a Transport that holds something between commands, as a session.
type Rester interface {
	// Rest gives that up until the next command. It does not wait for a BMC.
	Rest()
}

// driver is the kernel's IPMI driver.
type driver struct{ *uroot.IPMI }

// SendRecv waits for an answer for 10 seconds, or until it is closed.
func (d driver) SendRecv(_ context.Context, netfn, cmd uint8, data []byte) ([]byte, error) {
	if len(data) == 0 {
		data = nil // the driver takes the address of the first byte
	}
	answer, err := d.IPMI.SendRecv(uroot.NetFn(netfn), uroot.Command(cmd), data)
	if code := uroot.CompletionError(0); errors.As(err, &code) {
		return []byte{byte(code)}, nil
	}
	return answer, err
}

// openDriver opens a device file of the driver.
func openDriver(path string) (Transport, error) {
	opened, err := uroot.OpenPath(path)
	if err != nil {
		return nil, fmt.Errorf("opening the IPMI driver's device: %w; load the kernel modules ipmi_devintf and ipmi_si, or use ipmitool as the source", err)
	}
	return driver{opened}, nil
}
