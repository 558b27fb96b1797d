package hardware_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/hardware"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// server is one whose parts can be broken: a fan "FAN1", a temperature "CPU0 Temp", a
// power supply "PSU1 Status", a memory module "DIMM_A1". What has an event is in its SEL.
type server interface {
	stopFan(bool)
	heat(bool)
	failSupply(bool)
	pullSupply(bool)
	// loseFeed takes the input from the supply.
	loseFeed(bool)
	// loseData is an uncorrectable memory error in the module.
	loseData(bool)
	clearSEL()
	setClock(time.Time)
	// start starts the server anew, switched off in between or not.
	start(switchedOff bool)
	// log adds a record of a sensor type without a sensor to the SEL.
	log(sensorType, offset uint8)
}

// step is an event, and what the check has to say after it.
type step struct {
	name   string
	do     func(*scene)
	status checks.Status
	reason string
	says   []string // parts of the message
	not    string   // no part of it
}

const (
	fanStopped   = "FAN1: 0 RPM, at or below lower non-recoverable (SEL 0x"
	dataLost     = "DIMM_A1: uncorrectable ECC (SEL 0x"
	acknowledged = "acknowledged by alice: "
	noFailure    = "no hardware failure: "
)

// script is the life of a server, as docs/checks.md says it is reported.
func script() []step {
	const memory = "MemoryFailure"
	healthy := func(name string, do func(*scene), says ...string) step {
		return step{name, do, checks.False, verdict.ReasonHealthy, append([]string{noFailure}, says...), ""}
	}
	failed := func(name string, do func(*scene), reason string, says ...string) step {
		return step{name, do, checks.True, reason, says, acknowledged}
	}
	return []step{
		healthy("all is well", func(*scene) {}, "10 of 10 sensors available, 0 SEL records"),
		failed("a fan stops", func(s *scene) { s.stopFan(true) }, "FanFailure", fanStopped),
		failed("it still stands", func(*scene) {}, "FanFailure", fanStopped),
		healthy("it turns again", func(s *scene) { s.stopFan(false) }),
		failed("a power supply fails", func(s *scene) { s.failSupply(true) }, "PowerSupplyFailure", "PSU1: failure detected (SEL 0x"),
		healthy("it is repaired", func(s *scene) { s.failSupply(false) }),
		healthy("its feed is off", func(s *scene) { s.loseFeed(true) }, "warning: PSU1: power supply AC lost (SEL 0x"),
		healthy("it fails without its feed", func(s *scene) { s.failSupply(true) }, "warning: PSU1: failure detected, as it has no input (SEL 0x"),
		failed("its feed is back, and it has still failed", func(s *scene) { s.loseFeed(false) }, "PowerSupplyFailure", "PSU1: failure detected (SEL 0x"),
		healthy("it is repaired again", func(s *scene) { s.failSupply(false) }),
		failed("a processor gets hot", func(s *scene) { s.heat(true) }, "TemperatureFailure", "CPU0 Temp: 98 degrees C, at or above upper critical (SEL 0x"),
		healthy("it cools down", func(s *scene) { s.heat(false) }),

		failed("a module loses data", func(s *scene) { s.loseData(true) }, memory, dataLost),
		failed("the BMC says that it is over", func(s *scene) { s.loseData(false) }, memory, dataLost),
		failed("nothing happens", func(*scene) {}, memory, dataLost),
		failed("a fan stops, too", func(s *scene) { s.stopFan(true) }, verdict.ReasonMultiple, dataLost, fanStopped),
		failed("only the fan turns again", func(s *scene) { s.stopFan(false) }, memory, dataLost),
		failed("a warm reboot", func(s *scene) { s.boot(false) }, memory, dataLost),
		failed("after the warm reboot", func(*scene) {}, memory, dataLost),
		healthy("it is acknowledged", (*scene).acknowledge, acknowledged+dataLost),
		healthy("and stays so", func(*scene) {}, acknowledged+dataLost),
		healthy("over a warm reboot", func(s *scene) { s.boot(false) }, acknowledged+dataLost),

		failed("the module loses more", func(s *scene) { s.loseData(true); s.loseData(false) }, memory, dataLost),
		healthy("the SEL is cleared", func(s *scene) { s.clearSEL() }, "0 SEL records"),
		failed("and more, after that", func(s *scene) { s.loseData(true); s.loseData(false) }, memory, dataLost),
		healthy("the SEL is cleared, and has other records before it is read", func(s *scene) { s.clearSEL(); s.heat(true); s.heat(false) }),
		failed("and more", func(s *scene) { s.loseData(true); s.loseData(false) }, memory, dataLost),
		failed("it was switched off and on", func(s *scene) { s.boot(true) }, memory, dataLost),
		healthy("its cords were drawn", (*scene).unplug),
		healthy("nothing happens after that", func(*scene) {}),
		failed("data is lost in the same boot", func(s *scene) { s.loseData(true); s.loseData(false) }, memory, dataLost),
		healthy("its cords were drawn again", (*scene).unplug),

		failed("a power supply vanishes", func(s *scene) { s.pullSupply(true) }, "PowerSupplyFailure", "PSU1: absent"),
		failed("it is still away, after an outage", (*scene).unplug, "PowerSupplyFailure", "PSU1: absent"),
		failed("and after the SEL was cleared", func(s *scene) { s.clearSEL() }, "PowerSupplyFailure", "PSU1: absent"),
		healthy("it is not meant to come back", (*scene).acknowledge, acknowledged+"PSU1: absent"),
		healthy("it comes back", func(s *scene) { s.pullSupply(false) }, "10 of 10 sensors"),
		failed("and vanishes again", func(s *scene) { s.pullSupply(true) }, "PowerSupplyFailure", "PSU1: absent"),
	}
}

// manner is how often the check is thrown away and made anew, with nothing left but its
// store.
type manner struct {
	name      string
	restarted bool // before every step
	twice     bool // also after it, and both have to say the same
	rebooted  bool // the server is, warm, after it, and both have to say the same
}

func manners() []manner {
	return []manner{{name: "one detector"}, {name: "restarted before every step", restarted: true}, {name: "read twice", twice: true}, {name: "rebooted after every step", rebooted: true}}
}

// watcher is a check, by one of the sources.
type watcher struct {
	name  string
	open  func() (ipmi.Source, error)
	store hardware.Store
	check *hardware.Check // nil: to be made
}

// scene is a server and who watches it.
type scene struct {
	server
	t        *testing.T
	clock    *clocktesting.FakePassiveClock
	boots    int
	watchers []*watcher
}

// newScene returns one with a watcher for every source.
func newScene(t *testing.T, s server, sources map[string]func() (ipmi.Source, error)) *scene {
	t.Helper()
	scene := &scene{server: s, t: t, clock: clocktesting.NewFakePassiveClock(start)}
	for name, open := range sources {
		store := hardware.Store{Path: filepath.Join(t.TempDir(), "state", "hardware.json")}
		scene.watchers = append(scene.watchers, &watcher{name: name, open: open, store: store})
	}
	t.Cleanup(scene.restart)
	return scene
}

// restart ends the checks.
func (s *scene) restart() {
	for _, w := range s.watchers {
		if w.check != nil {
			w.check.Close()
			w.check = nil
		}
	}
}

// boot starts the server, and with it the detector.
func (s *scene) boot(switchedOff bool) {
	s.restart()
	s.start(switchedOff)
	s.boots++
}

// unplug takes all power from the server for three quarters of an hour, of which its SEL
// tells (IPMI 2.0, table 42-3).
func (s *scene) unplug() {
	const powerUnit, acLost, systemBoot, byPowerUp = 0x09, 4, 0x1d, 0
	s.setClock(s.clock.Now().Add(-45 * time.Minute))
	s.log(powerUnit, acLost)
	s.setClock(s.clock.Now())
	s.log(systemBoot, byPowerUp)
	s.boot(true)
}

func (s *scene) acknowledge() {
	s.t.Helper()
	for _, w := range s.watchers {
		err := w.store.Update(func(state verdict.State) verdict.State {
			return state.Acknowledge(verdict.All, "known", "alice", s.clock.Now())
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *scene) run(w *watcher) checks.Result {
	if w.check == nil {
		w.check = hardware.New(hardware.Options{
			Open: w.open, Store: w.store, BootID: fmt.Sprintf("boot %d", s.boots), Timeout: time.Minute, Clock: s.clock,
		})
	}
	return w.check.Run(s.t.Context())
}

// play runs the script.
func (s *scene) play(m manner) {
	for i, step := range script() {
		if m.restarted {
			s.restart()
		}
		now := start.Add(time.Duration(i) * 5 * time.Minute)
		s.clock.SetTime(now)
		s.setClock(now)
		step.do(s)
		var first checks.Result
		for i, w := range s.watchers {
			got := s.run(w)
			step.judge(s.t, w.name, got)
			if m.twice {
				s.restart()
				if again := s.run(w); again != got {
					s.t.Errorf("%s, by %s: %+v, and then %+v", step.name, w.name, got, again)
				}
			}
			if i == 0 {
				first = got
			}
			if got != first {
				s.t.Errorf("%s: the sources do not agree:\n%+v by %s\n%+v by %s", step.name, first, s.watchers[0].name, got, w.name)
			}
		}
		if !m.rebooted {
			continue
		}
		s.boot(false)
		for _, w := range s.watchers {
			if again := s.run(w); again.Status != first.Status || again.Reason != first.Reason {
				s.t.Errorf("%s, by %s: %+v, and after a warm reboot %+v", step.name, w.name, first, again)
			}
		}
	}
}

func (s step) judge(t *testing.T, source string, got checks.Result) {
	t.Helper()
	if got.Status != s.status || got.Reason != s.reason {
		t.Errorf("%s, by %s: %+v, want %s %s", s.name, source, got, s.status, s.reason)
	}
	for _, text := range s.says {
		if !strings.Contains(got.Message, text) {
			t.Errorf("%s, by %s: message %q, want %q in it", s.name, source, got.Message, text)
		}
	}
	if s.not != "" && strings.Contains(got.Message, s.not) {
		t.Errorf("%s, by %s: message %q, with %q in it", s.name, source, got.Message, s.not)
	}
}

func TestTheLifeOfAServerOverItsDevice(t *testing.T) {
	for _, m := range manners() {
		t.Run(m.name, func(t *testing.T) {
			d := newDouble(t)
			newScene(t, d, map[string]func() (ipmi.Source, error){"device": d.open}).play(m)
		})
	}
}
