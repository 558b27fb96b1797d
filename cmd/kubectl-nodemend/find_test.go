package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAReasonThatIsTooLongStillSaysWhoGaveIt(t *testing.T) {
	long := strings.Repeat("ö", 300)
	for _, tt := range []struct{ reason, by, want string }{
		{"storm", "jane", "storm, says jane"},
		{long, "jane", long[:2*(256-len(", says jane"))] + ", says jane"},
		{"storm", long, ", says " + long[:2*(256-len(", says "))]},
	} {
		if got := signed(tt.reason, tt.by); got != tt.want || utf8.RuneCountInString(got) > 256 {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
