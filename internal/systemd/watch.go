package systemd

import (
	"context"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

const (
	unitInterface     = "org.freedesktop.systemd1.Unit"
	propertiesChanged = "org.freedesktop.DBus.Properties.PropertiesChanged"
)

// Watch asks systemd to tell about changes of units. The channel gets its signals until
// the connection is closed, which closes the channel: those of this unit over the
// message bus, those of all units otherwise. Have SubState look at each. Ask once for a
// connection.
func (c *Conn) Watch(ctx context.Context, unit string) (<-chan *godbus.Signal, error) {
	signals := make(chan *godbus.Signal, 64)
	c.calls.Signal(signals)
	if len(c.calls.Names()) > 0 { // only the message bus gives names
		if err := c.calls.AddMatchSignalContext(ctx,
			godbus.WithMatchObjectPath(unitPath(unit)),
			godbus.WithMatchInterface("org.freedesktop.DBus.Properties"),
			godbus.WithMatchMember("PropertiesChanged"),
		); err != nil {
			return nil, err
		}
	}
	manager := c.calls.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
	return signals, manager.CallWithContext(ctx, "org.freedesktop.systemd1.Manager.Subscribe", 0).Err
}

// SubState returns the state that a signal says a unit has now; "" if it says nothing of
// that kind.
func SubState(signal *godbus.Signal, unit string) string {
	if signal.Name != propertiesChanged || signal.Path != unitPath(unit) || len(signal.Body) < 2 || signal.Body[0] != unitInterface {
		return ""
	}
	changed, _ := signal.Body[1].(map[string]godbus.Variant)
	sub, _ := changed["SubState"].Value().(string)
	return sub
}

func unitPath(unit string) godbus.ObjectPath {
	return godbus.ObjectPath("/org/freedesktop/systemd1/unit/" + dbus.PathBusEscape(unit))
}
