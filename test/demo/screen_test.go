package main

import (
	"strings"
	"testing"
)

func TestColoursAreForTerminals(t *testing.T) {
	for _, colours := range []bool{false, true} {
		var out strings.Builder
		s := screen{out: &out, colours: colours}
		s.item("+ 0.0s ", red, "fault", 8, "it hangs")
		want := "+ 0.0s fault   it hangs\n"
		if colours {
			want = "+ 0.0s \x1b[31mfault   \x1b[0mit hangs\n"
		}
		if got := out.String(); got != want {
			t.Errorf("colours %v: got %q, want %q", colours, got, want)
		}
	}
}

func TestACommandThatIsTooLongIsContinued(t *testing.T) {
	long := strings.Repeat("x", 60)
	for command, want := range map[string]string{
		"kubectl nodemend status":             "kubectl nodemend status",
		"nodemend fence check " + long + " a": "nodemend fence check \\\n    " + long + " a",
	} {
		if got := continued(command); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
