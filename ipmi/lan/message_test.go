package lan

import (
	"bytes"
	"errors"
	"testing"
)

// response returns what a controller answers to a request of the console.
func response(netFn, from, number, cmd byte, data ...byte) []byte {
	return message(consoleAddress, (netFn|1)<<2, from, number, cmd, data)
}

func TestACommandGoesWhereItIsMeant(t *testing.T) {
	const sensor, getReading = 0x04, 0x2d
	for name, test := range map[string]struct {
		to   Target
		want []byte
	}{
		"the BMC":            {Target{Owner: 0x20}, []byte{0x20, 0x10, 0xd0, 0x81, 5 << 2, 0x2d, 7, 0x37}},
		"another LUN":        {Target{Owner: 0x20, LUN: 1}, []byte{0x20, 0x11, 0xcf, 0x81, 5 << 2, 0x2d, 7, 0x37}},
		"another controller": {Target{Owner: 0x2c}, []byte{0x20, 0x18, 0xc8, 0x81, 5 << 2, 0x34, 0x40, 0x2c, 0x10, 0xc4, 0x20, 5 << 2, 0x2d, 7, 0x98, 0xf7}},
		"on another channel": {Target{Owner: 0x2c, Channel: 6, LUN: 2}, []byte{0x20, 0x18, 0xc8, 0x81, 5 << 2, 0x34, 0x46, 0x2c, 0x12, 0xc2, 0x20, 5 << 2, 0x2d, 7, 0x98, 0xf1}},
	} {
		got := test.to.request(sensor, 5, getReading, []byte{7})
		if !bytes.Equal(got, test.want) {
			t.Errorf("%s: % x, want % x", name, got, test.want)
		}
		if checksum(got[:3]) != 0 || checksum(got[3:]) != 0 {
			t.Errorf("%s: % x has wrong checksums", name, got)
		}
	}
}

func TestTheAnswerOfAnotherControllerIsToldFromTheBMCs(t *testing.T) {
	const sensor, getReading, number = 0x04, 0x2d, 5
	there := Target{Owner: 0x2c}
	reading := response(sensor, 0x2c, number, getReading, 0, 45, 0xc0)
	for name, test := range map[string]struct {
		m    []byte
		want []byte // nil: none yet
	}{
		"it was handed on":           {response(app, bmcAddress, number, sendMessage, 0), nil},
		"its answer":                 {reading, []byte{0, 45, 0xc0}},
		"both in one":                {response(app, bmcAddress, number, sendMessage, append([]byte{0}, reading...)...), []byte{0, 45, 0xc0}},
		"nobody took it":             {response(app, bmcAddress, number, sendMessage, 0x83), []byte{0x83}},
		"it refuses":                 {response(sensor, 0x2c, number, getReading, 0xcb), []byte{0xcb}},
		"to the request before":      {response(sensor, 0x2c, number-1, getReading, 0, 45, 0xc0), nil},
		"handed on, the one before":  {response(app, bmcAddress, number-1, sendMessage, 0x83), nil},
		"both, of the one before":    {response(app, bmcAddress, number, sendMessage, append([]byte{0}, response(sensor, 0x2c, number-1, getReading, 0)...)...), nil},
		"both, with a wrong sum":     {response(app, bmcAddress, number, sendMessage, append([]byte{0}, append(reading[:len(reading):len(reading)], 1)...)...), nil},
		"an answer without anything": {[]byte{}, nil},
	} {
		got, err := there.answer(test.m, sensor, number, getReading)
		if !bytes.Equal(got, test.want) || errors.Is(err, errForeign) != (test.want == nil) {
			t.Errorf("%s: % x, %v, want % x", name, got, err, test.want)
		}
	}
	// The BMC's own answers are never those of another.
	if got, err := (Target{Owner: bmcAddress}).answer(response(app, bmcAddress, number, sendMessage, append([]byte{0}, reading...)...), sensor, number, getReading); !errors.Is(err, errForeign) {
		t.Errorf("% x, %v", got, err)
	}
}
