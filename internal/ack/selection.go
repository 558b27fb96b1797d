// Package ack has the flags that say which hardware failures are acknowledged. They are those of
// "nodemend hardware ack", and "kubectl nodemend hardware ack" hands them on to it.
package ack

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Selection says which failures are meant: those that match all that is given.
type Selection struct {
	Seen, Components, Kinds, Whats []string
	Until                          string
	All                            bool

	flags *pflag.FlagSet
}

// names are those of the flags that narrow, in the order in which people are told of them.
var names = []string{"seen", "component", "kind", "what", "until"}

// AddTo adds the flags of the selection to those of a command.
func (s *Selection) AddTo(flags *pflag.FlagSet) {
	s.flags = flags
	flags.StringSliceVar(&s.Seen, "seen", nil, "`ID` of a failure, as describe shows it; several: with commas")
	flags.StringArrayVar(&s.Components, "component", nil, "failures of this `part`, such as DIMM_A1")
	flags.StringSliceVar(&s.Kinds, "kind", nil, "failures of this `kind` of parts, such as PowerSupply")
	flags.StringArrayVar(&s.Whats, "what", nil, "failures that are `this`, such as \"failure detected\"")
	flags.StringVar(&s.Until, "until", "", "`ID` of the last SEL record that is meant, such as 0x1a")
	flags.BoolVar(&s.All, "all", false, "all failures that the detector of the node knows of now")
}

// Check returns what is wrong with the selection, nil if it is clear. describe is the command that
// shows the IDs of failures. A flag without a value would select more than was meant.
func (s *Selection) Check(describe string) error {
	narrow := false
	for _, name := range names {
		if !s.Given(name) {
			continue
		}
		narrow = true
		if len(s.values(name)) == 0 {
			return fmt.Errorf("--%s has no value: give one, or leave it out", name)
		}
	}
	switch {
	case s.All && narrow:
		return errors.New("--all means all failures: leave out --seen, --component, --kind, --what and --until, or --all")
	case !s.All && !narrow:
		return fmt.Errorf("say which failures are meant: --seen with IDs that %q shows, --component, --kind, --what, --until, or --all", describe)
	default:
		return nil
	}
}

// Given reports whether one of these flags was given.
func (s *Selection) Given(names ...string) bool {
	for _, name := range names {
		if s.flags.Changed(name) {
			return true
		}
	}
	return false
}

// Flags returns them as they were given.
func (s *Selection) Flags() (flags []string) {
	for _, name := range names {
		for _, value := range s.values(name) {
			flags = append(flags, "--"+name+"="+value)
		}
	}
	if s.All {
		flags = append(flags, "--all")
	}
	return flags
}

// values are those of a flag that are not empty.
func (s *Selection) values(name string) (values []string) {
	for _, value := range map[string][]string{"seen": s.Seen, "component": s.Components, "kind": s.Kinds, "what": s.Whats, "until": {s.Until}}[name] {
		if strings.TrimSpace(value) != "" {
			values = append(values, value)
		}
	}
	return values
}
