package systemd

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/godbus/dbus/v5"
)

func TestOnlyACertainNoIsARefusal(t *testing.T) {
	for name, want := range map[string]bool{
		"org.freedesktop.systemd1.UnitExists":         true,
		"org.freedesktop.systemd1.NoSuchUnit":         true,
		"org.freedesktop.DBus.Error.AccessDenied":     true,
		"org.freedesktop.DBus.Error.InvalidArgs":      true,
		"org.freedesktop.DBus.Error.PropertyReadOnly": true,
		"org.freedesktop.DBus.Error.ServiceUnknown":   true,
		"org.freedesktop.DBus.Error.NoReply":          false,
		"org.freedesktop.DBus.Error.Timeout":          false,
		"org.freedesktop.DBus.Error.TimedOut":         false,
		"org.freedesktop.DBus.Error.Disconnected":     false,
		"org.freedesktop.DBus.Error.NoMemory":         false,
		"org.freedesktop.DBus.Error.Failed":           false,
		"System.Error.EIO":                            false,
		"com.example.systemd1.InvalidArgs":            false,
	} {
		if got := Refused(fmt.Errorf("wrapped: %w", dbus.Error{Name: name})); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
	for _, err := range []error{nil, dbus.ErrClosed, context.DeadlineExceeded, errors.New("org.freedesktop.systemd1.UnitExists")} {
		if Refused(err) {
			t.Errorf("%v is taken for an answer", err)
		}
	}
}
