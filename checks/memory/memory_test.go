package memory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/checks"
)

// host is one whose /sys and /proc are played.
type host struct {
	*testing.T
	path  string
	clock *testclock.FakeClock
	boot  string
	// exclude and lookOnly are options.
	exclude  []string
	lookOnly bool
}

func newHost(t *testing.T) *host {
	h := &host{T: t, path: t.TempDir(), clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), boot: "first"}
	h.offline(0)
	h.set("mc0", "seconds_since_reset", 100*24*3600, "ce_noinfo_count", 0, "ue_noinfo_count", 0, "mc_name", "Skylake Socket#0 IMC#0")
	h.set("mc0/dimm0", "dimm_label", "DIMM_A1", "dimm_location", "channel 0 slot 0 ", "dimm_ce_count", 0, "dimm_ue_count", 0)
	h.set("mc0/dimm3", "dimm_label", "mc#0csrow#3channel#0", "dimm_location", "csrow 3 channel 0 ", "dimm_ce_count", 0, "dimm_ue_count", 0)
	return h
}

func (h *host) write(name string, content any) {
	h.Helper()
	path := filepath.Join(h.path, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, fmt.Appendln(nil, content), 0o600)); err != nil {
		h.Fatal(err)
	}
}

// set writes files of a folder of EDAC: names and what they hold.
func (h *host) set(folder string, files ...any) {
	h.Helper()
	for i := 0; i < len(files); i += 2 {
		h.write("devices/system/edac/mc/"+folder+"/"+files[i].(string), files[i+1])
	}
}

// offline sets how many pages are out of use.
func (h *host) offline(pages int) {
	h.Helper()
	h.write("meminfo", fmt.Sprintf("MemTotal:       16384 kB\nHardwareCorrupted: %d kB", pages*os.Getpagesize()/1024))
}

// count sets the counters of the first module.
func (h *host) count(corrected, uncorrected int) {
	h.Helper()
	h.set("mc0/dimm0", "dimm_ce_count", corrected, "dimm_ue_count", uncorrected)
}

func (h *host) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *host) options() Options {
	return Options{
		Exclude: h.exclude, MaxCorrected: 1000, MaxOffline: 100, StateFile: filepath.Join(h.path, "state", "memory.json"), LookOnly: h.lookOnly,
		BootID: h.boot, Timeout: time.Minute, Sys: h.path, Proc: h.path, Clock: h.clock,
	}
}

// check is one of a detector that has just started.
func (h *host) check() *Check {
	h.Helper()
	c, err := New(h.options())
	h.must(err)
	return c
}

// finds runs the check.
func (h *host) finds(c *Check, status checks.Status, reason string, words ...string) {
	h.Helper()
	got := c.Run(h.Context())
	if got.Status != status || got.Reason != reason {
		h.Errorf("got %s %s: %s; want %s %s", got.Status, got.Reason, got.Message, status, reason)
	}
	for _, word := range words {
		if !strings.Contains(got.Message, word) {
			h.Errorf("the message does not have %q: %s", word, got.Message)
		}
	}
}

func TestOnAMachineWhoseErrorsNobodyCountsTheCheckIsOff(t *testing.T) {
	h := newHost(t)
	h.must(os.RemoveAll(h.path + "/devices"))
	_, err := New(h.options())
	if off := (checks.Off{}); !errors.As(err, &off) || !strings.Contains(off.Why, "EDAC") {
		t.Errorf("got %v", err)
	}
}

// Modules of the kernel may be loaded at any time after a boot.
func TestADriverThatComesLaterThanTheDetectorIsAwaited(t *testing.T) {
	h := newHost(t)
	h.finds(h.check(), checks.False, ReasonHealthy)
	h.count(0, 1)
	h.finds(h.check(), checks.True, ReasonUncorrected)
	h.boot = "second"
	edac := filepath.Join(h.path, "devices", "system", "edac")
	h.must(os.Rename(edac, edac+".later"))
	c := h.check()
	h.finds(c, checks.Unknown, ReasonNotSeen, "is gone")
	h.must(os.Rename(edac+".later", edac))
	h.count(0, 0)
	h.finds(c, checks.False, ReasonHealthy)
}

func TestAModuleWithAnUncorrectedErrorIsNamedUntilTheNodeBoots(t *testing.T) {
	h := newHost(t)
	c := h.check()
	h.finds(c, checks.False, ReasonHealthy, "2 memory modules have no errors")
	h.count(3, 1)
	h.finds(c, checks.True, ReasonUncorrected, "DIMM_A1 (mc0 channel 0 slot 0): uncorrected errors since the node booted: 1")
	h.set("mc0/dimm3", "dimm_ue_count", 2)
	h.clock.Step(30 * day)
	h.finds(c, checks.True, ReasonUncorrected, "DIMM_A1 (mc0 channel 0 slot 0): uncorrected errors since the node booted: 1; mc0 csrow 3 channel 0: uncorrected errors since the node booted: 2")
	h.finds(h.check(), checks.True, ReasonUncorrected, "DIMM_A1") // after a restart of the detector
	h.count(0, 0)                                                 // somebody has set the counters back
	h.finds(c, checks.True, ReasonUncorrected, "DIMM_A1 (mc0 channel 0 slot 0): uncorrected errors since the node booted: 1")
	h.boot = "second"
	h.count(0, 1)
	h.finds(h.check(), checks.True, ReasonUncorrected, "DIMM_A1 (mc0 channel 0 slot 0): uncorrected errors since the node booted: 1") // another one
	h.boot = "third"
	h.count(0, 0)
	h.set("mc0/dimm3", "dimm_ue_count", 0)
	h.finds(h.check(), checks.False, ReasonHealthy, "2 memory modules have no errors")
}

// A driver that is loaded anew has one controller before the other.
func TestAModuleThatALookLacksKeepsItsErrors(t *testing.T) {
	h := newHost(t)
	second := func(corrected, uncorrected int) {
		h.set("mc1", "seconds_since_reset", 60, "ce_noinfo_count", 0, "ue_noinfo_count", 0)
		h.set("mc1/dimm0", "dimm_label", "DIMM_B1", "dimm_location", "channel 0 slot 0 ", "dimm_ce_count", corrected, "dimm_ue_count", uncorrected)
	}
	lacks := func() { h.must(os.RemoveAll(h.path + "/devices/system/edac/mc/mc1")) }
	second(600, 0)
	h.finds(h.check(), checks.False, ReasonHealthy, "600 corrected")
	second(600, 1)
	c := h.check()
	h.finds(c, checks.True, ReasonUncorrected, "DIMM_B1 (mc1 channel 0 slot 0): uncorrected errors since the node booted: 1")
	lacks()
	const lacking = "DIMM_B1 (mc1 channel 0 slot 0), which nobody counts now: uncorrected errors since the node booted: 1"
	h.finds(c, checks.True, ReasonUncorrected, lacking)
	h.finds(h.check(), checks.True, ReasonUncorrected, lacking)
	h.exclude = []string{"DIMM_B1"}
	h.finds(h.check(), checks.False, ReasonHealthy, "2 memory modules have no errors")
	h.exclude = nil
	second(0, 0)
	h.finds(h.check(), checks.True, ReasonUncorrected, "DIMM_B1 (mc1 channel 0 slot 0): uncorrected errors since the node booted: 1")

	lacks()
	h.boot = "second"
	c = h.check()
	h.finds(c, checks.False, ReasonHealthy, "2 memory modules have no errors")
	second(400, 0) // and 600 before the boot
	h.finds(c, checks.True, ReasonCorrected, "DIMM_B1 (mc1 channel 0 slot 0): corrected errors in 24 h: 1000")
	lacks()
	h.finds(c, checks.True, ReasonCorrected, "which nobody counts now: corrected errors in 24 h: 1000")
	h.clock.Step(day + time.Second)
	h.finds(c, checks.False, ReasonHealthy)
	if len(c.known.Modules) != 3 {
		t.Errorf("what has no errors is remembered: %v", c.known.Modules)
	}
}

func TestErrorsFromBeforeTheFirstLookAreHistory(t *testing.T) {
	h := newHost(t)
	h.count(5000, 1)
	c := h.check()
	h.finds(c, checks.False, ReasonHealthy, "none of 2 memory modules has too many errors (DIMM_A1 (mc0 channel 0 slot 0): 5000 corrected, 1 not)")
	h.finds(h.check(), checks.False, ReasonHealthy)
	h.count(5000, 2)
	h.finds(h.check(), checks.True, ReasonUncorrected, ": 1") // while the detector was down
	h.count(5999, 0)                                          // the driver was loaded anew
	h.finds(c, checks.True, ReasonCorrected, ": 5999")
}

func TestOnAFirstLookWhatWasCountedWithinADayCounts(t *testing.T) {
	for _, test := range []struct{ corrected, uncorrected int }{{1000, 0}, {0, 1}} {
		h := newHost(t)
		h.set("mc0", "seconds_since_reset", 24*3600)
		h.count(test.corrected, test.uncorrected)
		want := ReasonCorrected
		if test.uncorrected > 0 {
			want = ReasonUncorrected
		}
		h.finds(h.check(), checks.True, want, "DIMM_A1")
	}
}

func TestCorrectedErrorsOfADayAreCountedOverRestartsAndReboots(t *testing.T) {
	h := newHost(t)
	h.finds(h.check(), checks.False, ReasonHealthy)
	h.count(600, 0)
	h.finds(h.check(), checks.False, ReasonHealthy, ": 600 corrected, 0 not")
	h.clock.Step(12 * time.Hour)
	h.boot = "second"
	h.count(399, 0)
	h.finds(h.check(), checks.False, ReasonHealthy, ": 399 corrected, 0 not")
	h.count(400, 0)
	h.finds(h.check(), checks.True, ReasonCorrected, "DIMM_A1 (mc0 channel 0 slot 0): corrected errors in 24 h: 1000")
	h.clock.Step(12 * time.Hour)
	h.finds(h.check(), checks.True, ReasonCorrected)
	h.clock.Step(time.Second)
	h.finds(h.check(), checks.False, ReasonHealthy)
}

func TestABootLetsTheKernelCountFromZero(t *testing.T) {
	h := newHost(t)
	h.finds(h.check(), checks.False, ReasonHealthy)
	h.count(500, 0)
	h.finds(h.check(), checks.False, ReasonHealthy)
	h.boot = "second"
	h.count(501, 0)
	h.finds(h.check(), checks.True, ReasonCorrected, ": 1001")
}

func TestErrorsOfUnknownModulesAreToldOfTheirController(t *testing.T) {
	h := newHost(t)
	c := h.check()
	h.finds(c, checks.False, ReasonHealthy)
	h.set("mc0", "ue_noinfo_count", 1)
	h.finds(c, checks.True, ReasonUncorrected, "mc0, unknown module: uncorrected errors since the node booted: 1")
}

func TestPagesThatAreOutOfUseAreTold(t *testing.T) {
	h := newHost(t)
	c := h.check()
	h.offline(99)
	h.finds(c, checks.False, ReasonHealthy, "(pages out of use: 99)")
	h.offline(100)
	h.finds(c, checks.True, ReasonOffline, "pages out of use for errors: 100")
	h.write("devices/system/node/node0/memory_failure/failed", 1)
	h.write("devices/system/node/node0/memory_failure/ignored", 1)
	h.finds(c, checks.True, ReasonNotOffline, "pages with an uncorrected error that could not be put out of use: 2; pages out of use for errors: 100")
}

func TestADriverThatIsGoneOrTellsNonsenseIsNotHealthy(t *testing.T) {
	h := newHost(t)
	c := h.check()
	h.finds(c, checks.False, ReasonHealthy)
	h.set("mc0/dimm0", "dimm_ce_count", "many")
	h.finds(c, checks.Unknown, ReasonNotSeen, "dimm_ce_count", "many")
	if err := os.RemoveAll(h.path + "/devices/system/edac"); err != nil {
		t.Fatal(err)
	}
	h.finds(c, checks.Unknown, ReasonNotSeen, "is gone")
}

func TestADamagedStateFileProvesNoHealth(t *testing.T) {
	h := newHost(t)
	h.count(5000, 1)
	h.write("state/memory.json", "{")
	c := h.check()
	for range 2 {
		h.finds(c, checks.Unknown, ReasonNotSeen, "memory.json", "remove the file")
	}
	if err := os.Remove(h.path + "/state/memory.json"); err != nil {
		t.Fatal(err)
	}
	h.finds(c, checks.False, ReasonHealthy)
	h.count(5000, 2)
	h.finds(c, checks.True, ReasonUncorrected)
}

// People do that to find the module that has the error.
func TestAModuleThatGetsALabelIsStillTheSame(t *testing.T) {
	h := newHost(t)
	h.finds(h.check(), checks.False, ReasonHealthy)
	h.set("mc0/dimm3", "dimm_ue_count", 1)
	c := h.check()
	h.finds(c, checks.True, ReasonUncorrected, "mc0 csrow 3 channel 0: ")
	h.set("mc0/dimm3", "dimm_label", "DIMM_B1")
	h.finds(c, checks.True, ReasonUncorrected, "DIMM_B1 (mc0 csrow 3 channel 0): ")
	h.finds(h.check(), checks.True, ReasonUncorrected, "DIMM_B1 (mc0 csrow 3 channel 0): ")
}

func TestErrorsOfAModuleThatIsExcludedDoNotCountUntilItIsExcludedNoMore(t *testing.T) {
	for _, pattern := range []string{"DIMM_A1", "DIMM_A*", "mc0 dimm0", "mc0 channel 0 slot 0", "*"} {
		h := newHost(t)
		h.finds(h.check(), checks.False, ReasonHealthy)
		h.exclude = []string{"DIMM_B1", pattern}
		h.count(3, 1)
		c := h.check()
		h.finds(c, checks.False, ReasonHealthy, "DIMM_A1 (mc0 channel 0 slot 0): 3 corrected, 1 not, excluded")
		h.set("mc0/dimm3", "dimm_ue_count", 1)
		if pattern != "*" {
			h.finds(c, checks.True, ReasonUncorrected, "mc0 csrow 3 channel 0: ")
		}
		h.exclude = nil
		h.finds(h.check(), checks.True, ReasonUncorrected, "DIMM_A1 (mc0 channel 0 slot 0): uncorrected errors since the node booted: 1; mc0 csrow 3")
	}
}

func TestAModuleWithoutALabelIsExcludedByItsPlace(t *testing.T) {
	h := newHost(t)
	h.finds(h.check(), checks.False, ReasonHealthy, "2 memory modules")
	h.exclude = []string{"mc0 csrow 3*"}
	h.set("mc0/dimm3", "dimm_ue_count", 1)
	h.finds(h.check(), checks.False, ReasonHealthy, "none of 1 memory modules", "mc0 csrow 3 channel 0: 0 corrected, 1 not, excluded")
}

func TestAPersonsLookChangesNothing(t *testing.T) {
	h := newHost(t)
	h.finds(h.check(), checks.False, ReasonHealthy)
	h.lookOnly = true
	h.boot = "second" // which the detector has not seen yet
	h.count(0, 1)
	h.finds(h.check(), checks.True, ReasonUncorrected, "DIMM_A1")
	h.lookOnly = false
	h.count(0, 2)
	h.finds(h.check(), checks.True, ReasonUncorrected, ": 2")
}
