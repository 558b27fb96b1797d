package v1alpha1

import (
	"strings"
	"testing"
)

func TestAWindowNamesATimeZone(t *testing.T) {
	for zone, want := range map[string]string{"": "UTC", "UTC": "UTC", "Europe/Berlin": "Europe/Berlin"} {
		if location, err := (&Window{TimeZone: zone}).Location(); err != nil || location.String() != want {
			t.Errorf("%q is %v, %v; want %s", zone, location, err, want)
		}
	}
	for _, zone := range []string{"Local", "Mars/Phobos", "+02:00", "../UTC"} {
		if location, err := (&Window{TimeZone: zone}).Location(); err == nil || !strings.Contains(err.Error(), "accepted is a name") {
			t.Errorf("%q is %v, %v; want what is accepted", zone, location, err)
		}
	}
}
