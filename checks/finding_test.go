package checks

import "testing"

func TestTheGravestFindingIsTheReason(t *testing.T) {
	healthy := Healthy("Fine", "all is well")
	for name, tt := range map[string]struct {
		found []Finding
		want  Result
	}{
		"none":       {nil, healthy},
		"a problem":  {[]Finding{{"Late", "a"}, {"Odd", "b"}, {"Dead", "c"}, {"Late", "d"}}, Problem("Dead", "c; a; d; b")},
		"only doubt": {[]Finding{{"Odd", "a"}, {"Unseen", "b"}}, CannotTell("Odd", "a; b")},
		"many":       {[]Finding{{"Late", "1"}, {"Late", "2"}, {"Late", "3"}, {"Late", "4"}, {"Late", "5"}, {"Late", "6"}, {"Late", "7"}}, Problem("Late", "1; 2; 3; 4; 5; and 2 more")},
	} {
		if got := Judge(tt.found, []string{"Dead", "Late"}, healthy); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}
