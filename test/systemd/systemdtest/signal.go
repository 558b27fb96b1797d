package systemdtest

import (
	"strings"

	"github.com/godbus/dbus/v5"
)

// Signal is a D-Bus signal to one client, whoever sends it. Name has its interface before
// the last dot.
func Signal(to string, path dbus.ObjectPath, name string, body ...any) *dbus.Message {
	dot := strings.LastIndex(name, ".")
	return &dbus.Message{
		Type: dbus.TypeSignal,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldDestination: dbus.MakeVariant(to),
			dbus.FieldPath:        dbus.MakeVariant(path),
			dbus.FieldInterface:   dbus.MakeVariant(name[:dot]),
			dbus.FieldMember:      dbus.MakeVariant(name[dot+1:]),
			dbus.FieldSignature:   dbus.MakeVariant(dbus.SignatureOf(body...)),
		},
		Body: body,
	}
}
