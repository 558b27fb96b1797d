package device

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestNamesAreDecoded(t *testing.T) {
	tests := []struct{ name, data, want string }{
		{"8-bit", "\xc4FAN1", "FAN1"},
		{"8-bit, padded", "\xd0FAN1            ", "FAN1"},
		{"8-bit, ended by a NUL", "\xc8FAN1\x00xyz", "FAN1"},
		{"8-bit, cut off", "\xd0FAN", "FAN"},
		{"8-bit, followed by something else", "\xc3FANxyz", "FAN"},
		{"Latin-1", "\xc7L\xfcfter1", "Lüfter1"},
		{"UTF-8 under the name of Latin-1", "\xc7L\xc3\xbcfter", "Lüfter"},
		{"control characters", "\xc5F\x1b[1m", "F [1m"},
		{"6-bit", "\x83\x29\xdc\xa6", "IPM"},
		{"6-bit, cut off", "\x88\x29\xdc\xa6", "IPMI"},
		{"BCD plus", "\x46\x12\xab\xcd", "12 -.:"},
		{"BCD plus, odd", "\x43\x12\xe0", "12,"},
		{"UTF-16", "\x03\xfc\x00F\x001\x00", "üF1"},
		{"UTF-16, length in bytes", "\x06F\x00A\x00N\x00", "FAN"},
		{"UTF-16 beyond Latin", "\x02\x85\x51\x58\x5b", "内存"},
		{"UTF-8", "\x04FAN1", "FAN1"},
		{"none", "\xc0", ""},
		{"nothing at all", "", ""},
	}
	for _, test := range tests {
		if got := decodeName([]byte(test.data)); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func FuzzName(f *testing.F) {
	for _, seed := range []string{"\xc4FAN1", "\x83\x29\xdc\xa6", "\x46\x12\xab\xcd", "\x03\xfc\x00F\x001\x00", "\x04\xd8\x00\x00\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		name := decodeName(data)
		if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || utf8.RuneCountInString(name) > 31 {
			t.Errorf("%x: %q", data, name)
		}
	})
}
