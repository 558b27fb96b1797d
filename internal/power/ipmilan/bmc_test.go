package ipmilan

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/ipmi"
)

func TestOnlyAClearAnswerIsOff(t *testing.T) {
	for name, test := range map[string]struct {
		data []byte
		err  error
		want power.State
		text string
	}{
		"off":                         {data: []byte{0x60, 0, 0}, want: power.Off},
		"off, with the front panel":   {data: []byte{0x00, 0x10, 0x40, 0}, want: power.Off},
		"off after a power fault":     {data: []byte{0x08, 0x08, 0}, want: power.Off},
		"on":                          {data: []byte{0x61, 0, 0}, want: power.On},
		"on after a control fault":    {data: []byte{0x11, 0, 0}, want: power.On},
		"off, but it could not do it": {data: []byte{0x10, 0, 0}, text: "power control fault"},
		"empty":                       {data: []byte{}, text: "has 0 bytes"},
		"cut off":                     {data: []byte{0, 0}, text: "has 2 bytes"},
		"refused":                     {err: ipmi.NodeBusy, text: "busy"},
	} {
		got, err := stateOf(test.data, test.err)
		if got != test.want || (err == nil) != (test.text == "") || err != nil && !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestABMCWithoutAGUIDIsNotKnown(t *testing.T) {
	for name, test := range map[string]struct {
		data []byte
		err  error
		none bool
	}{
		"not implemented": {err: ipmi.InvalidCommand, none: true},
		"not for us":      {err: ipmi.InsufficientPrivilege, none: true},
		"too short":       {data: make([]byte, 15), none: true},
		"too long":        {data: make([]byte, 17), none: true},
		"busy":            {err: ipmi.NodeBusy},
		"silent":          {err: ipmi.ErrNoAnswer},
	} {
		_, err := guidOf(test.data, test.err)
		if err == nil || errors.Is(err, power.ErrNoIdentity) != test.none || test.err != nil && !errors.Is(err, test.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	data := []byte("0123456789abcdef")
	if got, err := guidOf(data, nil); err != nil || got != power.GUID(data) {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestALightThatMayGoOutByItselfIsKnown(t *testing.T) {
	for name, test := range map[string]struct {
		data []byte
		want time.Duration
		off  bool
	}{
		"for ever":        {data: []byte{0x61, 0, 0x60}, want: 0},
		"for a time":      {data: []byte{0x61, 0, 0x50}, want: 255 * time.Second},
		"off":             {data: []byte{0x61, 0, 0x48}, off: true},
		"it does not say": {data: []byte{0x61, 0, 0x20}, want: 255 * time.Second},
		"cut off":         {data: []byte{0x61, 0}, want: 255 * time.Second},
		"no answer":       {want: 255 * time.Second},
	} {
		if got, err := lightOf(test.data); got != test.want || (err != nil) != test.off {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}
