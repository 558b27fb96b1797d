package ack

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestASelectionIsClearOrRefused(t *testing.T) {
	for _, tt := range []struct {
		given []string
		want  string // of the error
	}{
		{nil, `say which failures are meant: --seen with IDs that "hardware describe" shows`},
		{[]string{"--all"}, ""},
		{[]string{"--all=false"}, "say which"},
		{[]string{"--seen=1a,2b"}, ""},
		{[]string{"--kind=Fan", "--what=failure detected", "--until=0x1a"}, ""},
		{[]string{"--all", "--component=DIMM_A1"}, "--all means all failures"},
		{[]string{"--all", "--until="}, "--until has no value"},
		{[]string{"--kind=Fan", "--until="}, "--until has no value"},
		{[]string{"--kind=Fan", "--seen="}, "--seen has no value"},
		{[]string{"--kind=Fan", "--what= "}, "--what has no value"},
	} {
		s := parse(t, tt.given)
		if err := s.Check("hardware describe"); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.given, err, tt.want)
		}
	}
}

func TestASelectionIsHandedOnAsItWasGiven(t *testing.T) {
	given := []string{"--seen=1a", "--seen=2b", "--component=DIMM A1", "--kind=Fan", "--what=off, or away", "--until=0x1a"}
	for _, given := range [][]string{given, {"--all"}} {
		s := parse(t, given)
		if got := s.Flags(); !slices.Equal(got, given) {
			t.Errorf("got %q, want %q", got, given)
		}
		if again := parse(t, s.Flags()); !slices.Equal(again.Flags(), given) {
			t.Errorf("the next one has got %q", again.Flags())
		}
	}
}

func parse(t *testing.T, args []string) *Selection {
	t.Helper()
	var s Selection
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.AddTo(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &s
}
