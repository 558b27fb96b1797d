package device

import (
	"math"
	"testing"
)

func TestFactorsAreDecoded(t *testing.T) {
	tests := []struct {
		data [6]byte
		want factors
	}{
		{[6]byte{1, 0, 0, 0, 0, 0}, factors{m: 1}},
		{[6]byte{0xff, 0xff, 0xfe, 0xff, 0xff, 0xf8}, factors{m: -1, b: -2, bExp: -8, rExp: -1}},
		{[6]byte{0xff, 0x40, 0x00, 0x80, 0, 0x71}, factors{m: 511, b: -512, bExp: 1, rExp: 7}},
		{[6]byte{0, 0x3f, 0, 0x3f, 0xff, 0}, factors{}}, // tolerance and accuracy only
	}
	for _, test := range tests {
		if got := decodeFactors(test.data); got != test.want {
			t.Errorf("%x: %+v, want %+v", test.data, got, test.want)
		}
	}
}

func TestReadingsAreConverted(t *testing.T) {
	identity := factors{m: 1}
	tests := []struct {
		name string
		conversion
		raw  uint8
		want float64
	}{
		{"unsigned", conversion{factors: identity}, 0xff, 255},
		{"2's complement", conversion{format: twosComplement, factors: identity}, 0xff, -1},
		{"1's complement", conversion{format: onesComplement, factors: identity}, 0xfe, -1},
		{"1's complement, minus zero", conversion{format: onesComplement, factors: identity}, 0xff, 0},
		{"all factors", conversion{factors: factors{m: 5, b: -3, bExp: 2, rExp: -1}}, 100, 20},
		{"ln", conversion{linearization: linearLn, factors: identity}, 1, 0},
		{"log10", conversion{linearization: linearLog10, factors: identity}, 100, 2},
		{"log2", conversion{linearization: linearLog2, factors: identity}, 8, 3},
		{"e", conversion{linearization: linearE, factors: identity}, 1, math.E},
		{"exp10", conversion{linearization: linearExp10, factors: identity}, 2, 100},
		{"exp2", conversion{linearization: linearExp2, factors: identity}, 3, 8},
		{"1/x", conversion{linearization: linearInverse, factors: identity}, 4, 0.25},
		{"square", conversion{linearization: linearSquare, factors: identity}, 4, 16},
		{"cube", conversion{linearization: linearCube, factors: identity}, 4, 64},
		{"square root", conversion{linearization: linearSquareRoot, factors: identity}, 16, 4},
		{"cube root", conversion{format: twosComplement, linearization: linearCubeRoot, factors: identity}, 0xf8, -2},
		{"reserved bit set", conversion{linearization: 0x80 | linearSquare, factors: identity}, 4, 16},
	}
	for _, test := range tests {
		if got, ok := test.value(test.raw); !ok || math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: %v, %t; want %v", test.name, got, ok, test.want)
		}
	}
}

func TestWhatIsNoNumberIsNoReading(t *testing.T) {
	for name, c := range map[string]conversion{
		"ln 0":               {linearization: linearLn, factors: factors{}},
		"1/0":                {linearization: linearInverse, factors: factors{}},
		"root of a negative": {linearization: linearSquareRoot, factors: factors{b: -1}},
		"overflow":           {linearization: linearExp10, factors: factors{b: 500}},
		"discrete":           {format: notAnalog, factors: factors{m: 1}},
	} {
		if got, ok := c.value(1); ok {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func FuzzConversion(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0}, uint8(0), uint8(0), uint8(98))
	f.Add([]byte{0xff, 0xff, 0xfe, 0xff, 0xff, 0x78}, uint8(2), uint8(linearExp10), uint8(0xff))
	f.Fuzz(func(t *testing.T, data []byte, format, linearization, raw uint8) {
		var six [6]byte
		copy(six[:], data)
		c := conversion{format: format & 3, linearization: linearization, factors: decodeFactors(six)}
		if value, ok := c.value(raw); ok && (math.IsNaN(value) || math.IsInf(value, 0)) {
			t.Errorf("%+v of %d: %v", c, raw, value)
		}
	})
}
