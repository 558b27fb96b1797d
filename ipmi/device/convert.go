package device

import "math"

// Bits 7:6 of the first byte of a sensor's units: how its readings are signed.
const (
	unsigned = iota
	onesComplement
	twosComplement
	notAnalog
)

// Linearization functions (IPMI 2.0, table 43-1, byte 24). Those between are linear.
const (
	linearLn = iota + 1
	linearLog10
	linearLog2
	linearE
	linearExp10
	linearExp2
	linearInverse
	linearSquare
	linearCube
	linearSquareRoot
	linearCubeRoot
	nonLinear = 0x70
)

// conversion makes values of the raw readings of a sensor (section 36.3).
type conversion struct {
	format        uint8
	linearization uint8
	factors       factors
}

// factors are those of y = (Mx + B·10^bExp)·10^rExp.
type factors struct {
	m, b       int
	bExp, rExp int
}

// decodeFactors decodes six bytes as they are in a full sensor record from M on, and
// in the answer of Get Sensor Reading Factors.
func decodeFactors(data [6]byte) factors {
	return factors{
		m:    signed(int(data[0])|int(data[1]&0xc0)<<2, 10),
		b:    signed(int(data[2])|int(data[3]&0xc0)<<2, 10),
		bExp: signed(int(data[5]&0xf), 4),
		rExp: signed(int(data[5]>>4), 4),
	}
}

// signed is value as a number in 2's complement of so many bits.
func signed(value, bits int) int {
	if value >= 1<<(bits-1) {
		return value - 1<<bits
	}
	return value
}

// variable reports whether the factors depend on the reading.
func (c conversion) variable() bool { return c.linearization&0x7f >= nonLinear }

// value converts a raw reading. It returns false if there is no such value, as for
// the logarithm of a negative one.
func (c conversion) value(raw uint8) (float64, bool) {
	x := float64(raw)
	switch c.format {
	case onesComplement:
		if raw >= 0x80 {
			x -= 255
		}
	case twosComplement:
		x = float64(int8(raw))
	case notAnalog:
		return 0, false
	}
	f := c.factors
	y := (float64(f.m)*x + float64(f.b)*math.Pow10(f.bExp)) * math.Pow10(f.rExp)
	y = linearize(c.linearization&0x7f, y)
	return y, !math.IsNaN(y) && !math.IsInf(y, 0)
}

func linearize(function uint8, y float64) float64 {
	switch function {
	case linearLn:
		return math.Log(y)
	case linearLog10:
		return math.Log10(y)
	case linearLog2:
		return math.Log2(y)
	case linearE:
		return math.Exp(y)
	case linearExp10:
		return math.Pow(10, y)
	case linearExp2:
		return math.Exp2(y)
	case linearInverse:
		return 1 / y
	case linearSquare:
		return y * y
	case linearCube:
		return y * y * y
	case linearSquareRoot:
		return math.Sqrt(y)
	case linearCubeRoot:
		return math.Cbrt(y)
	default:
		return y
	}
}
