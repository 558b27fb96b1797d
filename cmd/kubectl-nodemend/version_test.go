package main

import "testing"

func TestVersionsAreShownForEachRole(t *testing.T) {
	for _, tt := range []struct {
		name  string
		roles []agentStatus
		want  string
	}{
		{"all there", []agentStatus{
			{Role: "controller", Version: "v0.1.0", Ready: 2, Wanted: 2},
			{Role: "detector", Version: "v0.1.0", Ready: 19, Wanted: 20, Old: 3},
			{Role: "runner", Ready: 20, Wanted: 20},
		}, `ROLE         VERSION   READY   OLD
plugin       v0.2.0    -       -
controller   v0.1.0    2/2     0
detector     v0.1.0    19/20   3
runner       -         20/20   0
`},
		{"no cluster", []agentStatus{{Role: "roles", Problem: "connection refused"}}, `ROLE     VERSION   READY   OLD
plugin   v0.2.0    -       -
roles: connection refused
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := versionText(versions{Client: "v0.2.0", Roles: tt.roles}); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
