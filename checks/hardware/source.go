package hardware

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/ipmi/ipmitool"
	"github.com/nodemend/nodemend/ipmi/redfish"
	"github.com/nodemend/nodemend/ipmi/remote"
)

// ErrNoBMC is that this machine has no BMC, or none that can be seen: no driver
// is loaded and nothing else is configured.
var ErrNoBMC = errors.New("no BMC found")

// devices are the names that the kernel's driver has for its first BMC.
func devices() []string { return []string{"/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0"} }

// Open opens the source of a BMC that c asks for, on the node of that name. With the source
// auto that is the driver's device, or else, if a host or URL is given, lan, ipmitool or redfish; the error is
// ErrNoBMC if there is none.
func Open(c config.Hardware, node string) (ipmi.Source, error) {
	switch c.Source {
	case config.SourceDevice:
		return device.Open(devicePath(c))
	case config.SourceLAN:
		return openLAN(c.LAN, node)
	case config.SourceIPMITool:
		return openIPMITool(c.IPMITool)
	case config.SourceRedfish:
		return openRedfish(c.Redfish, node)
	}
	switch path := devicePath(c); {
	case exists(path):
		return device.Open(path)
	case c.LAN.Host != "":
		return openLAN(c.LAN, node)
	case c.IPMITool.Host != "":
		return openIPMITool(c.IPMITool)
	case c.Redfish.URL != "":
		return openRedfish(c.Redfish, node)
	default:
		return nil, fmt.Errorf("%w: there is no %s; if this machine has one, load the kernel modules ipmi_devintf and ipmi_si", ErrNoBMC, path)
	}
}

// Present reports whether c names a BMC, or this machine has a device of one.
func Present(c config.Hardware) bool {
	return c.Source != config.SourceAuto || c.LAN.Host != "" || c.IPMITool.Host != "" || c.Redfish.URL != "" || exists(devicePath(c))
}

// InBand reports whether the BMC that c names is asked from inside its machine. With the source
// auto, and nothing else that could be asked, it is as soon as there is a device.
func InBand(c config.Hardware) bool {
	switch c.Source {
	case config.SourceDevice:
		return true
	case config.SourceIPMITool:
		return c.IPMITool.Host == ""
	default:
		return c.Source == config.SourceAuto && (exists(devicePath(c)) || !Present(c))
	}
}

// devicePath is the device to be used, whether or not it exists.
func devicePath(c config.Hardware) string {
	if c.Device != "" {
		return c.Device
	}
	return present(devices())
}

// machineUUID is where the kernel says what the firmware calls this machine. Only root can
// read it.
const machineUUID = "/sys/class/dmi/id/product_uuid"

func openLAN(c config.LAN, node string) (ipmi.Source, error) {
	level, err := c.Level()
	if err != nil {
		return nil, err
	}
	o := remote.Options{
		Host: c.HostOf(node), Port: c.Port, User: c.User, PasswordFile: c.PasswordFile, KeyFile: c.KeyFile,
		CipherSuite: c.CipherSuite, Privilege: level,
	}
	if !c.TrustAddress {
		if o.Machine, err = machine(o.Host); err != nil {
			return nil, err
		}
	}
	return remote.New(o)
}

// machine returns which machine this is, whose BMC is to be at that address.
func machine(address string) (uuid power.UUID, err error) {
	text, err := os.ReadFile(machineUUID)
	if err == nil {
		uuid, err = power.ParseUUID(strings.TrimSpace(string(text)))
	}
	if err != nil {
		return uuid, fmt.Errorf("which machine this is can't be told, so not that %s is its BMC: %w; set trustAddress if you are sure of it", address, err)
	}
	return uuid, nil
}

func openRedfish(c config.Redfish, node string) (ipmi.Source, error) {
	o, err := c.Of(node)
	if err != nil {
		return nil, err
	}
	options := redfish.Options{Service: o}
	if !c.TrustAddress {
		if options.Machine, err = machine(o.URL); err != nil {
			return nil, err
		}
	}
	return redfish.New(options)
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
