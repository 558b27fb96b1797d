package hardware

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/ipmi/ipmitool"
)

// ErrNoBMC is that this machine has no BMC, or none that can be seen: no driver
// is loaded and nothing else is configured.
var ErrNoBMC = errors.New("no BMC found")

// devices are the names that the kernel's driver has for its first BMC.
func devices() []string { return []string{"/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0"} }

// Open opens the source of a BMC that c asks for. With the source auto that is the
// driver's device, or else, if a host is given, ipmitool; the error is ErrNoBMC
// if there is neither.
func Open(c config.Hardware) (ipmi.Source, error) {
	switch c.Source {
	case config.SourceDevice:
		return device.Open(devicePath(c))
	case config.SourceIPMITool:
		return openIPMITool(c.IPMITool)
	}
	switch path := devicePath(c); {
	case exists(path):
		return device.Open(path)
	case c.IPMITool.Host != "":
		return openIPMITool(c.IPMITool)
	default:
		return nil, fmt.Errorf("%w: there is no %s; if this machine has one, load the kernel modules ipmi_devintf and ipmi_si", ErrNoBMC, path)
	}
}

// Present reports whether c names a BMC, or this machine has a device of one.
func Present(c config.Hardware) bool {
	return c.Source != config.SourceAuto || c.IPMITool.Host != "" || exists(devicePath(c))
}

// devicePath is the device to be used, whether or not it exists.
func devicePath(c config.Hardware) string {
	if c.Device != "" {
		return c.Device
	}
	return present(devices())
}

func openIPMITool(c config.IPMITool) (ipmi.Source, error) {
	o := ipmitool.Options{Path: c.Path, Host: c.Host, User: c.User, PasswordFile: c.PasswordFile, KeyFile: c.KeyFile}
	if c.Host != "" { // these have defaults
		o.Port, o.CipherSuite = c.Port, c.CipherSuite
	}
	return ipmitool.New(o)
}

// present returns the first path that exists, or else the first.
func present(paths []string) string {
	for _, path := range paths {
		if exists(path) {
			return path
		}
	}
	return paths[0]
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
