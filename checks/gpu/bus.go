package gpu

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// gpu is a GPU of NVIDIA, as the kernel tells of it.
type gpu struct {
	// address is that on the bus (PCI), such as 0000:3b:00.0.
	address string
	// driver is the name of the driver that has it; "" if none has.
	driver string
	// leftOut is whether the driver leaves it alone since it was told so (NVreg_ExcludedGpus).
	leftOut bool
	// lost is whether it does not answer on the bus.
	lost bool
	// model and uuid are what its driver calls it, if it tells.
	model, uuid string
}

// driver is that of NVIDIA, proprietary or open.
const driver = "nvidia"

// inventory is what one look has seen, by address.
type inventory struct {
	gpus []gpu
	// version is that of the driver; "" if it is not loaded.
	version string
	err     error
}

// files is where sysfs and procfs are mounted.
type files struct{ sys, proc string }

// bus is where sysfs has the devices of PCI.
func (f files) bus() string { return filepath.Join(f.sys, "bus", "pci", "devices") }

// look lists all GPUs of NVIDIA.
func (f files) look() (all inventory) {
	entries, err := os.ReadDir(f.bus())
	if err != nil {
		return inventory{err: err}
	}
	for _, e := range entries {
		device := filepath.Join(f.bus(), e.Name())
		if isGPU(device) {
			all.gpus = append(all.gpus, f.gpu(device))
		}
	}
	slices.SortFunc(all.gpus, func(a, b gpu) int { return cmp.Compare(a.address, b.address) })
	all.version = text(f.sys, "module", driver, "version")
	return all
}

// isGPU is whether a device is a display controller of NVIDIA (classes VGA and 3D), and no part of
// one that is lent to a virtual machine.
func isGPU(device string) bool {
	const nvidia, vga, controller3D = "0x10de", "0x0300", "0x0302"
	if text(device, "vendor") != nvidia {
		return false
	}
	class := text(device, "class")
	_, err := os.Lstat(filepath.Join(device, "physfn"))
	return err != nil && (strings.HasPrefix(class, vga) || strings.HasPrefix(class, controller3D))
}

func (f files) gpu(device string) gpu {
	g := gpu{address: filepath.Base(device)}
	if link, err := os.Readlink(filepath.Join(device, "driver")); err == nil {
		g.driver = filepath.Base(link)
	}
	if g.driver != driver && g.driver != "" {
		return g // it may be a virtual machine's
	}
	// One that the kernel has put to sleep is not woken.
	g.lost = text(device, "power", "runtime_status") != "suspended" && lost(device)
	if g.driver == driver {
		f.told(&g)
	}
	return g
}

// lost is whether a device does not answer: then the kernel reads nothing but ones from it.
func lost(device string) bool {
	file, err := os.Open(filepath.Join(device, "config"))
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()                          // was only read
	identity, ones := [4]byte{}, [4]byte{0xff, 0xff, 0xff, 0xff} // its vendor and device
	_, err = io.ReadFull(file, identity[:])
	return err == nil && identity == ones
}

// told reads what the driver tells of a GPU.
func (f files) told(g *gpu) {
	data, err := os.ReadFile(filepath.Join(f.proc, "driver", "nvidia", "gpus", g.address, "information"))
	if err != nil {
		return // another version may not tell
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "Model":
			g.model = value
		case "GPU UUID":
			if !strings.Contains(value, "?") { // until somebody has used it
				g.uuid = value
			}
		case "GPU Excluded":
			g.leftOut = value == "Yes"
		}
	}
}

// text returns what a file holds; "" if there is none, or it does not tell.
func text(name ...string) string {
	data, err := os.ReadFile(filepath.Join(name...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// none is whether there is certainly no GPU of NVIDIA.
func (all inventory) none() bool {
	return len(all.gpus) == 0 && (all.err == nil || errors.Is(all.err, fs.ErrNotExist)) // no bus
}

// onBus is an address on the bus, whose domain nvidia-smi writes with eight digits.
var onBus = regexp.MustCompile(`([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])`)

// addressOf returns the address that a text has, as the kernel writes it.
func addressOf(text string) (string, bool) {
	parts := onBus.FindStringSubmatch(text)
	if parts == nil {
		return "", false
	}
	domain, err := strconv.ParseUint(parts[1], 16, 32)
	if err != nil {
		return "", false
	}
	return strings.ToLower(fmt.Sprintf("%04x:%s:%s.%s", domain, parts[2], parts[3], parts[4])), true
}
