package v1alpha1

import (
	"fmt"
	"time"
)

// Location returns the window's time zone, UTC if it names none. It reads the time
// zone database of the system, or that of the program if there is none.
func (w *Window) Location() (*time.Location, error) {
	if w.TimeZone == "Local" {
		return nil, fmt.Errorf("unknown time zone %s: accepted is a name such as Europe/Berlin", w.TimeZone)
	}
	location, err := time.LoadLocation(w.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("%w: accepted is a name of the IANA time zone database, such as Europe/Berlin", err)
	}
	return location, nil
}
