package vm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/nodemend/nodemend/test/ipmisim"
	"github.com/nodemend/nodemend/test/process"
)

// HostAddress is where a machine finds this machine's loopback interface.
const HostAddress = "10.0.2.2"

// Options say what a machine is made of.
type Options struct {
	// Dir is for the disk and the logs; it exists.
	Dir string
	// Files are added to the disk, by their paths.
	Files map[string]File
	// Units are systemd's unit files by their names, all started at boot.
	Units map[string]string
	// BMC serves /dev/ipmi0 and switches the power. Without one there is no such device.
	BMC *ipmisim.Simulator
	// Forwards are TCP ports of the machine, on 10.0.2.15, to be reached at
	// Machine.Address.
	Forwards []int
	// Programs of this machine are added to the disk, with the libraries that they need.
	Programs []string
	// Modules of the kernel are loaded beside those that every machine needs.
	Modules []string
	// PowerButton: the operating system shuts down when its power button is pushed.
	PowerButton bool
	// Devices are options of QEMU's, such as -device and what one is, for what else the
	// machine has.
	Devices []string
}

// File is a file on the disk of a machine.
type File struct {
	// From is the path of the file on this machine to copy. A program needs no
	// libraries. If it is empty, Content is what the file has.
	From, Content string
	// Mode is 0644 if it is 0.
	Mode fs.FileMode
}

// Machine is a virtual machine. It may be used by several goroutines.
type Machine struct {
	options  Options
	qemu     *process.Process
	monitor  *qmp
	port     net.Conn       // of the agent
	forwards map[int]string // by port
	asking   sync.Mutex     // guards writing to port
	done     sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed at every change of what follows
	events  []Event
	boots   []string
	resets  int
	power   bool
	paused  bool   // by Pause
	loop    uint64 // of Hang: where a processor is in it
	up      bool   // the agent answers
	number  int    // of the last request
	waiting map[int]chan<- result
}

// Start starts a machine, and waits until systemd has started all units in it, or ctx
// ends. Where that can't work the error wraps ErrUnavailable. Stop it.
func Start(ctx context.Context, options Options) (*Machine, error) {
	if err := obstacle(); err != nil {
		return nil, err
	}
	m := &Machine{options: options, power: true, changed: make(chan struct{}), waiting: map[int]chan<- result{}}
	if err := m.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a virtual machine: %w", err), m.Stop())
	}
	return m, nil
}

func (m *Machine) start(ctx context.Context) error {
	k, err := newestKernel(ctx, append(wantedModules(), m.options.modules()...))
	if err != nil {
		return err
	}
	if err := buildDisk(ctx, m.options, m.path("disk")); err != nil {
		return err
	}
	if err := buildInitramfs(ctx, m.options, k, m.path("initramfs")); err != nil {
		return err
	}
	if err := m.startQEMU(ctx, k); err != nil {
		return err
	}
	return m.WaitUp(ctx, 1)
}

// Stop ends the machine, as pulling the plug does, and removes its disk. The logs are
// left. To call it again does nothing.
func (m *Machine) Stop() error {
	if m.qemu != nil {
		m.qemu.Kill()
	}
	for _, connection := range m.connections() {
		_ = connection.Close() // its other end has gone
	}
	m.done.Wait()
	return errors.Join(os.RemoveAll(m.path("disk")), os.RemoveAll(m.path("initramfs")))
}

// Console returns the path of the file with what the kernel and all units have written.
func (m *Machine) Console() string { return m.path("console.log") }

// Events returns what QEMU has told of the machine. One reset makes several events, as
// the firmware resets the machine again.
func (m *Machine) Events() []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.events)
}

// Resets returns how often the machine has reset itself once it was up, as QEMU tells.
func (m *Machine) Resets() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resets
}

// Boots returns the boot IDs since the machine was started, the present one last.
func (m *Machine) Boots() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.boots)
}

func (m *Machine) path(name string) string { return filepath.Join(m.options.Dir, name) }

// change changes what mu guards, and wakes those who wait for it.
func (m *Machine) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	close(m.changed)
	m.changed = make(chan struct{})
}

// wait waits until a condition on what mu guards is true.
func (m *Machine) wait(ctx context.Context, what string, condition func() bool) error {
	for {
		m.mu.Lock()
		met, changed := condition(), m.changed
		m.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-changed:
		case <-m.qemu.Exited:
			return fmt.Errorf("waiting for %s: %w", what, m.exited())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; its console: %s", what, ctx.Err(), m.Console())
		}
	}
}

// exited says why QEMU, which has exited, has done so.
func (m *Machine) exited() error {
	return errors.Join(errors.New("QEMU has ended"), m.qemu.Err, m.log())
}

// log returns what QEMU has written.
func (m *Machine) log() error {
	log, err := process.Tail(m.path("qemu.log"), 4<<10)
	return errors.Join(errors.New("QEMU's log: "+log), err)
}

// onEvent keeps account of what QEMU tells.
func (m *Machine) onEvent(event Event) {
	if event.Name == "SHUTDOWN" && event.Data.Reason == "guest-shutdown" && m.options.BMC != nil {
		m.options.BMC.SwitchedItselfOff()
	}
	m.change(func() {
		m.events = append(m.events, event)
		switch event.Name {
		case "RESET":
			if m.up && event.Data.Reason == "guest-reset" {
				m.resets++
			}
			m.down()
		case "STOP":
			if !m.paused {
				m.power = false
				m.down()
			}
		case "RESUME":
			m.power = true
		}
	})
}
