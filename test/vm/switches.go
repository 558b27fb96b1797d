package vm

import (
	"context"
	"fmt"
	"net"
	"slices"
)

// SetLink pulls or puts back the cable of the machine's network card.
func (m *Machine) SetLink(ctx context.Context, up bool) error {
	return m.SetLinkOf(ctx, networkCard, up)
}

// SetLinkOf pulls or puts back the cable of a network card of Options.Devices, by its id.
func (m *Machine) SetLinkOf(ctx context.Context, device string, up bool) error {
	_, err := m.monitor.run(ctx, "set_link", map[string]any{"name": device, "up": up})
	return err
}

// Set sets a property of one of Options.Devices, by its id.
func (m *Machine) Set(ctx context.Context, device, property string, value any) error {
	_, err := m.monitor.run(ctx, "qom-set", map[string]any{"path": "/machine/peripheral/" + device, "property": property, "value": value})
	return err
}

// PowerOff takes the power from the machine: what it has not written to its disk is lost.
// The BMC calls it.
func (m *Machine) PowerOff(ctx context.Context) error {
	m.change(func() {
		if m.paused { // it stands still already
			m.paused, m.power = false, false
			m.down()
		}
	})
	if _, err := m.monitor.run(ctx, "stop", nil); err != nil {
		return err
	}
	return m.wait(ctx, "the machine to have no power", func() bool { return !m.power })
}

// HasPower says whether the machine has power.
func (m *Machine) HasPower() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.power
}

// PowerOn boots the machine if it has no power. The BMC calls it.
func (m *Machine) PowerOn(ctx context.Context) error {
	if m.HasPower() {
		return nil
	}
	if err := m.Reset(ctx); err != nil {
		return err
	}
	_, err := m.monitor.run(ctx, "cont", nil)
	return err
}

// PushPowerButton asks the operating system to shut down, as a short push of the button on the case
// does. The BMC calls it.
func (m *Machine) PushPowerButton(ctx context.Context) error {
	_, err := m.monitor.run(ctx, "system_powerdown", nil)
	return err
}

// Pause has the machine stand still, with its power on, as a hypervisor does: nothing of it runs
// until Resume, and then it goes on where it was.
func (m *Machine) Pause(ctx context.Context) error {
	m.change(func() { m.paused = m.power })
	_, err := m.monitor.run(ctx, "stop", nil)
	return err
}

// Resume ends Pause. A machine that has lost its power meanwhile stays as it is.
func (m *Machine) Resume(ctx context.Context) error {
	var paused bool
	m.change(func() { paused, m.paused = m.paused, false })
	if !paused {
		return nil
	}
	_, err := m.monitor.run(ctx, "cont", nil)
	return err
}

// Reset resets the machine, as the button on its case does.
func (m *Machine) Reset(ctx context.Context) error {
	seen := len(m.Events())
	if _, err := m.monitor.run(ctx, "system_reset", nil); err != nil {
		return err
	}
	return m.wait(ctx, "the machine to be reset", func() bool {
		return slices.ContainsFunc(m.events[seen:], func(e Event) bool { return e.Name == "RESET" })
	})
}

// SetSystemdHangs stops systemd and its message bus: connections are accepted, nothing is
// answered. The processes of other units go on.
func (m *Machine) SetSystemdHangs(ctx context.Context, hangs bool) error {
	state := 0
	if hangs {
		state = 1
	}
	_, err := m.Run(ctx, fmt.Sprintf(`
cd /sys/fs/cgroup
for group in init.scope system.slice/dbus.service; do
	echo %[1]d >$group/cgroup.freeze
	until grep -qx "frozen %[1]d" $group/cgroup.events; do sleep 0.1; done
done`, state))
	return err
}

// Address returns where a port of Options.Forwards is reached from this machine.
func (m *Machine) Address(port int) string { return m.forwards[port] }

// connections returns those to QEMU.
func (m *Machine) connections() []net.Conn {
	var all []net.Conn
	if m.port != nil {
		all = append(all, m.port)
	}
	if m.monitor != nil {
		all = append(all, m.monitor.connection)
	}
	return all
}
