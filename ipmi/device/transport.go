package device

import (
	"errors"
	"fmt"

	"github.com/u-root/u-root/pkg/ipmi"
)

// Transport carries commands to the BMC. It is not used by two goroutines at once,
// except for Close.
type Transport interface {
	// SendRecv sends a request to LUN 0 and returns the answer, which begins with the
	// completion code. An error means that there was no answer; one that is
	// os.ErrDeadlineExceeded that there was none in time.
	SendRecv(netfn, cmd uint8, data []byte) ([]byte, error)
	// Close ends a SendRecv that is under way.
	Close() error
}

// driver is the kernel's IPMI driver.
type driver struct{ *ipmi.IPMI }

// SendRecv waits for an answer for 10 seconds.
func (d driver) SendRecv(netfn, cmd uint8, data []byte) ([]byte, error) {
	if len(data) == 0 {
		data = nil // the driver takes the address of the first byte
	}
	answer, err := d.IPMI.SendRecv(ipmi.NetFn(netfn), ipmi.Command(cmd), data)
	if code := ipmi.CompletionError(0); errors.As(err, &code) {
		return []byte{byte(code)}, nil
	}
	return answer, err
}

// openDriver opens a device file of the driver.
func openDriver(path string) (Transport, error) {
	opened, err := ipmi.OpenPath(path)
	if err != nil {
		return nil, fmt.Errorf("opening the IPMI driver's device: %w; load the kernel modules ipmi_devintf and ipmi_si, or use ipmitool as the source", err)
	}
	return driver{opened}, nil
}
