package device

import (
	"encoding/binary"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Encodings of a name, by bits 7:6 of its type/length byte (IPMI 2.0, section 43.15).
const (
	encodingUnicode = iota
	encodingBCDPlus
	encodingSixBit
	encodingLatin1
)

// decodeName decodes the name that begins with its type/length byte; data may hold more
// than it, or less. What it returns is valid UTF-8 without control
// characters.
func decodeName(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	encoding, length, data := data[0]>>6, int(data[0]&0x1f), data[1:]
	var name string
	switch encoding {
	case encodingBCDPlus:
		name = bcdPlus(data, length)
	case encodingSixBit:
		name = sixBit(data, length)
	case encodingLatin1:
		name = eightBit(data[:min(length, len(data))])
	case encodingUnicode:
		name = unicodeName(data, length)
	}
	name, _, _ = strings.Cut(name, "\x00")
	return strings.TrimSpace(strings.Map(printable, name))
}

func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

// bcdPlus decodes two characters a byte, high one first.
func bcdPlus(data []byte, length int) string {
	const digits = "0123456789 -.:,_"
	var name strings.Builder
	for i := range min(length, 2*len(data)) {
		nibble := data[i/2] >> 4
		if i%2 == 1 {
			nibble = data[i/2] & 0xf
		}
		name.WriteByte(digits[nibble])
	}
	return name.String()
}

// sixBit decodes four characters in three bytes, lowest bits first.
func sixBit(data []byte, length int) string {
	var name strings.Builder
	for i := range min(length, len(data)*8/6) {
		bit := i * 6
		bits := uint16(data[bit/8])
		if bit/8+1 < len(data) {
			bits |= uint16(data[bit/8+1]) << 8
		}
		name.WriteByte(byte(bits>>(bit%8)&0x3f) + ' ')
	}
	return name.String()
}

// eightBit decodes Latin-1, but what is UTF-8 nevertheless is taken as that.
func eightBit(data []byte) string {
	if utf8.Valid(data) {
		return string(data)
	}
	name := make([]rune, len(data))
	for i, b := range data {
		name[i] = rune(b)
	}
	return string(name)
}

// unicodeName decodes what BMCs write under the name of Unicode, of which the
// specification does not say how it is encoded: UTF-8, or UTF-16 with the low
// byte first.
func unicodeName(data []byte, length int) string {
	if short := data[:min(length, len(data))]; utf8.Valid(short) && !slices.Contains(short, 0) {
		return string(short)
	}
	data = data[:min(2*length, len(data))]
	var units []uint16
	for ; len(data) > 1; data = data[2:] {
		units = append(units, binary.LittleEndian.Uint16(data))
	}
	return string(utf16.Decode(units))
}
