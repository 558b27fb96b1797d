package systemd

import (
	"errors"
	"strings"

	"github.com/godbus/dbus/v5"
)

// Refused reports whether an error is systemd's own no to what it was asked for, or
// that of a message bus that did not hand the question on: then nothing of it was done
// and nothing was queued. After any other error systemd may have done it, or may do it
// yet.
func Refused(err error) bool {
	answer, ok := errors.AsType[dbus.Error](err)
	if !ok {
		return false
	}
	if strings.HasPrefix(answer.Name, "org.freedesktop.systemd1.") {
		return true
	}
	switch strings.TrimPrefix(answer.Name, "org.freedesktop.DBus.Error.") {
	case "AccessDenied", "AuthFailed", "InteractiveAuthorizationRequired",
		"InvalidArgs", "InvalidSignature", "InconsistentMessage", "NotSupported",
		"UnknownMethod", "UnknownObject", "UnknownInterface", "UnknownProperty", "PropertyReadOnly",
		"ServiceUnknown", "NameHasNoOwner":
		return true
	default: // NoReply and the like, or something that went wrong at any point
		return false
	}
}
