package ipmitool

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fields are the lines "name : value" of an output, by the name.
type fields map[string]string

// parseFields reads all lines that have a colon. Of two with one name, the first
// counts.
func parseFields(text string) fields {
	f := fields{}
	for line := range strings.Lines(text) {
		if name, value, ok := field(line); ok {
			if _, known := f[name]; !known {
				f[name] = value
			}
		}
	}
	return f
}

func field(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, ":")
	return strings.TrimSpace(name), strings.TrimSpace(value), ok
}

// flag returns whether a field has the one of two values, or fails if it has neither.
func (f fields) flag(name, yes, no string) (bool, error) {
	switch value, ok := f[name]; {
	case !ok:
		return false, fmt.Errorf("its output lacks %q", name)
	case value == yes:
		return true, nil
	case value == no:
		return false, nil
	default:
		return false, fmt.Errorf("its output has %q for %q: neither %q nor %q", value, name, yes, no)
	}
}

// cleanName returns a name that a BMC has made up as valid UTF-8 without control
// characters. Bytes that are not UTF-8 are taken for Latin-1.
func cleanName(name string) string {
	if !utf8.ValidString(name) {
		latin1 := make([]rune, len(name))
		for i := range len(name) {
			latin1[i] = rune(name[i])
		}
		name = string(latin1)
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, name))
}
