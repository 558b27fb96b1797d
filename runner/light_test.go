package runner

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
)

func TestTheLightShinesForAsLongAsTheMaintenance(t *testing.T) {
	for name, lasts := range map[string]time.Duration{"until it is switched off": 0, "for four minutes": 255 * time.Second} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, identified)
			r.lasts = lasts
			r.run(time.Hour)
			r.light("repair", v1alpha1.LightOn, "")
			if m := r.of("repair"); r.dark || !r.lit || m.Status.Machine.UUID != machineUUID || !m.Status.Identify.Since.Time.Before(testNow.Add(time.Minute)) {
				t.Errorf("it went out: %t, it shines: %t, %+v\n%s", r.dark, r.lit, m.Status, r.story())
			}
			r.end("repair")
			r.run(time.Minute)
			if r.lit || r.of("repair") != nil {
				t.Errorf("it shines on: %t, %+v\n%s", r.lit, r.of("repair"), r.story())
			}
		})
	}
}

// Each call may be the last one of a process, before it has had its effect or after.
func TestTheLightIsRightWhereverTheRunnerDies(t *testing.T) {
	whole := newRack(t, identified)
	story := func(r *rack) {
		r.run(5 * time.Minute)
		r.light("repair", v1alpha1.LightOn, "")
		if !r.lit {
			r.Errorf("it does not shine\n%s", r.story())
		}
		r.end("repair")
		r.run(5 * time.Minute)
		if r.lit || r.of("repair") != nil {
			r.Errorf("it shines on: %t, %+v\n%s", r.lit, r.of("repair"), r.story())
		}
	}
	story(whole)
	for call := 1; call <= whole.calls; call++ {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d, after its effect: %t", call, lost), func(t *testing.T) {
				r := newRack(t, identified)
				r.happens = func(now int) {
					if now == call {
						r.died, r.lost = true, lost
					}
				}
				story(r)
			})
		}
	}
}

func TestWhyALightDoesNotShineIsSaid(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *rack)
		state  v1alpha1.LightState
		says   string
	}{
		"it has none":              {func(r *rack) { r.identifyErr = power.ErrUnsupported }, v1alpha1.LightOff, "not supported"},
		"it is of another machine": {func(r *rack) { r.guid[5]++ }, v1alpha1.LightOff, "another machine"},
		"the login is refused":     {func(r *rack) { r.readErr = power.ErrLogin }, v1alpha1.LightOff, "login refused"},
		"it does not answer":       {func(r *rack) { r.identifyErr = power.ErrNoAnswer }, v1alpha1.LightUnknown, "no answer"},
		"another node says to be":  {func(r *rack) { r.twin = "worker-2" }, v1alpha1.LightOff, "node worker-2 has the systemUUID"},
		"a UUID of many":           {func(r *rack) { r.systemUUID = "03000200-0400-0500-0006-000700080009" }, v1alpha1.LightOff, "systemUUID of node worker-1"},
		"there is no node":         {func(r *rack) { r.nodeGone = true }, v1alpha1.LightOff, "there is no node worker-1"},
		"a dry run":                {func(r *rack) { r.dryRun = true }, v1alpha1.LightOff, "dry run: this runner would switch it on by ipmi://"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, identified)
			test.change(r)
			r.run(time.Minute)
			r.light("repair", test.state, test.says)
			if r.lit {
				t.Errorf("it shines\n%s", r.story())
			}
			writes := len(r.events)
			r.run(time.Hour)
			if len(r.events) > writes+2 { // a process that begins tries it
				t.Errorf("it is said again and again:\n%s", r.story())
			}
			r.end("repair")
			r.identifyErr, r.readErr, r.guid = nil, nil, newRack(t).guid
			r.run(2 * time.Minute)
			if r.of("repair") != nil {
				t.Errorf("it stays: %+v\n%s", r.of("repair").Status, r.story())
			}
		})
	}
}

func TestALightGoesOutWithTheLastThatWantsIt(t *testing.T) {
	r := newRack(t, identified)
	r.run(time.Minute)
	r.start("move", identified)
	r.run(time.Minute)
	r.end("repair")
	r.run(time.Minute)
	r.light("move", v1alpha1.LightOn, "")
	if !r.lit || r.of("repair") != nil {
		t.Errorf("it shines: %t, %+v\n%s", r.lit, r.of("repair"), r.story())
	}
	r.of("move").Spec.Identify = false
	r.run(time.Minute)
	r.light("move", v1alpha1.LightOff, "")
	if r.lit {
		t.Errorf("it shines on\n%s", r.story())
	}
}

func TestALightIsPutOutWhoseNodeIsGone(t *testing.T) {
	r := newRack(t, identified, byPolicy)
	r.run(time.Minute)
	r.nodeGone = true
	r.end("repair") // as the controller does then
	r.run(time.Minute)
	if r.lit || r.of("repair") != nil {
		t.Errorf("it shines on: %t\n%s", r.lit, r.story())
	}
}

func TestANodeOnAnotherMachineHasThatOnesLight(t *testing.T) {
	r := newRack(t, identified)
	r.run(time.Minute)
	r.systemUUID = "00112233-4455-6677-8899-aabbccddeeff"
	r.run(20 * time.Minute)
	r.light("repair", v1alpha1.LightOff, "another machine") // the BMC is still that of the former one
	if r.lit {
		t.Errorf("the former one shines on\n%s", r.story())
	}
}

func TestALightThatCanNotBePutOutIsTriedUntilItIs(t *testing.T) {
	r := newRack(t, identified)
	r.run(time.Minute)
	r.end("repair")
	r.identifyErr = errors.New("lost")
	r.run(4 * time.Minute)
	r.light("repair", v1alpha1.LightUnknown, "it could not be put out: lost")
	r.identifyErr = nil
	r.run(time.Minute)
	if r.lit || r.of("repair") != nil {
		t.Errorf("it shines on: %t\n%s", r.lit, r.story())
	}
}
