package clock

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"

	"github.com/nodemend/nodemend/internal/systemd"
)

// timeServices are the units of time services, as distributions name them.
func timeServices() []string {
	return []string{
		"chronyd.service", "chrony.service", "systemd-timesyncd.service", "ntpd.service", "ntp.service", "ntpsec.service",
		"openntpd.service", "phc2sys.service",
	}
}

// stopped returns a time service of the node that is to run and does not, and its state, such as
// "chrony.service is failed (failed)"; "" if another one runs, or none is to.
func stopped(ctx context.Context, dialer systemd.Dialer) (string, error) {
	connection, err := dialer.Dial(ctx)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	units, err := connection.ListUnitsByNamesContext(ctx, timeServices())
	if err != nil {
		return "", fmt.Errorf("asking systemd for time services: %w", err)
	}
	isStopped := func(u dbus.UnitStatus) bool { return u.ActiveState == "inactive" || u.ActiveState == "failed" }
	installed := func(u dbus.UnitStatus) bool { return u.LoadState == "loaded" }
	if slices.ContainsFunc(units, func(u dbus.UnitStatus) bool { return installed(u) && !isStopped(u) }) {
		return "", nil
	}
	for _, u := range units {
		if !installed(u) {
			continue
		}
		enabled := u.ActiveState == "failed" // somebody has started it
		if !enabled {
			property, err := connection.GetUnitPropertyContext(ctx, u.Name, "UnitFileState")
			if err != nil {
				return "", fmt.Errorf("asking systemd whether %s is enabled: %w", u.Name, err)
			}
			state, _ := property.Value.Value().(string)
			enabled = strings.HasPrefix(state, "enabled") // or enabled-runtime
		}
		if enabled {
			return fmt.Sprintf("%s is %s (%s)", u.Name, u.ActiveState, u.SubState), nil
		}
	}
	return "", nil
}
