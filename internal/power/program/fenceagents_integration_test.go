//go:build integration

package program

import (
	"os/exec"
	"strconv"
	"testing"

	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/test/ipmisim"
)

// An agent of fence-agents does not say which machine it is. A script before it does: here it
// asks nobody, a real one asks the BMC or the hypervisor.
const wrapper = `#!/bin/sh
input=$(cat)
printf '%s\n' "$input" | fence_ipmilan
status=$?
case "$input" in *action=status*) cat "${0%/*}/uuid" ;; esac
exit $status
`

func TestFenceIPMILANSwitchesAMachineOfARealBMC(t *testing.T) {
	if _, err := exec.LookPath("fence_ipmilan"); err != nil {
		t.Skip("needs fence_ipmilan: apt-get install fence-agents")
	}
	sim := ipmisim.Start(t)
	f := newFixture(t, wrapper)
	f.write("uuid", "uuid="+ipmisim.GUID+"\n")
	host, port := sim.LAN()
	s, err := New(Options{
		Path:    f.path("agent"),
		Options: map[string]string{"ip": host, "ipport": strconv.Itoa(port), "lanplus": "1", "cipher": "3", "username": ipmisim.User},
		Secrets: map[string]power.Secret{"password": {File: sim.PasswordFile()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	machine := uuid(t, ipmisim.GUID)
	is := func(want power.State) {
		t.Helper()
		if r, err := s.Read(t.Context(), machine); err != nil || r.Power != want {
			t.Fatalf("got %+v, %v, want %s", r, err, want)
		}
	}
	is(power.On)
	if err := s.Off(t.Context(), machine, nil); err != nil {
		t.Fatal(err)
	}
	is(power.Off)
	if err := s.On(t.Context(), machine, nil); err != nil {
		t.Fatal(err)
	}
	is(power.On)
	if err := s.Off(t.Context(), uuid(t, theirs), nil); err == nil {
		t.Error("another machine was switched off")
	}
	is(power.On)
	sim.Freeze()
	if _, err := s.Read(t.Context(), machine); err == nil {
		t.Error("a BMC that hangs is read")
	}
}
