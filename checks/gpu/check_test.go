package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/checks"
)

// host is one whose /sys and /proc are played, and what nvidia-smi says there.
type host struct {
	*testing.T
	path  string
	clock *testclock.FakeClock
	// rows are what nvidia-smi tells, by address and field.
	rows map[string]map[string]string
	// says is the rest of what it says.
	says string
	// instead is its answer, if not nil.
	instead *answer
	// questions are how often it was asked, and versions of which drivers.
	questions int
	versions  []string
}

func newHost(t *testing.T) *host {
	h := &host{T: t, path: t.TempDir(), clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), rows: map[string]map[string]string{}}
	h.set("bus/pci/devices/0000:00:01.0", "vendor", "0x1af4", "class", "0x018000")
	h.set("module/nvidia", "version", "580.159.04")
	return h
}

func (h *host) must(errs ...error) {
	h.Helper()
	if err := errors.Join(errs...); err != nil {
		h.Fatal(err)
	}
}

// set writes files of a folder: names and what they hold.
func (h *host) set(folder string, files ...string) {
	h.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(h.path, folder, files[i])
		h.must(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(files[i+1]+"\n"), 0o600))
	}
}

func device(address string) string { return "bus/pci/devices/" + address }

// gpu adds a GPU. Of its UUID the last digit is given.
func (h *host) gpu(address string, uuid int) {
	h.Helper()
	h.set(device(address), "vendor", "0x10de", "class", "0x030200", "config", "\xde\x10\x35\x23...")
	h.bind(address, "nvidia")
	h.set("driver/nvidia/gpus/"+address, "information", fmt.Sprintf("Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\nGPU UUID: \t GPU-%d\nGPU Excluded:\t No", uuid))
	h.rows["0000"+address] = map[string]string{
		fieldAddress: "0000" + address, fieldName: "NVIDIA H200", fieldUUID: fmt.Sprintf("GPU-%d", uuid), fieldSerial: fmt.Sprintf("165000000000%d", uuid),
		fieldRecovery: "None", fieldErrors: "0", fieldRetirement: "[N/A]", fieldPending: "No", fieldFailed: "No", fieldHot: "Not Active", fieldPower: "Not Active",
	}
}

// bind gives a device to a driver; "": to none.
func (h *host) bind(address, driver string) {
	h.Helper()
	link := filepath.Join(h.path, device(address), "driver")
	_ = os.Remove(link) // it may have none
	if driver != "" {
		h.must(os.Symlink("../../../bus/pci/drivers/"+driver, link))
	}
}

// vanish takes a device off its bus.
func (h *host) vanish(address string) {
	h.Helper()
	h.must(os.RemoveAll(filepath.Join(h.path, device(address))))
	delete(h.rows, "0000"+address)
}

// tell lets nvidia-smi tell something else of a GPU.
func (h *host) tell(address, field, value string) { h.rows["0000"+address][field] = value }

func (h *host) ask(_ context.Context, version string) answer {
	h.questions++
	h.versions = append(h.versions, version)
	if h.instead != nil {
		return *h.instead
	}
	var out strings.Builder
	for _, row := range h.rows {
		var cells []string
		for _, field := range fields() {
			cells = append(cells, row[field])
		}
		fmt.Fprintln(&out, strings.Join(cells, ", "))
	}
	return parse(out.String()+h.says, fields())
}

func (h *host) options() Options {
	return Options{
		Health: true, HealthInterval: 5 * time.Minute, MaxWait: 2 * time.Minute, MaxSlowdown: 15 * time.Minute,
		StateFile: filepath.Join(h.path, "state", "gpu.json"), Timeout: 45 * time.Second, Sys: h.path, Proc: h.path, Clock: h.clock, Ask: h.ask,
	}
}

func (h *host) start(o Options) *Check {
	h.Helper()
	c, err := New(o)
	h.must(err)
	return c
}

// check is one of a detector that has just started.
func (h *host) check() *Check { return h.start(h.options()) }

// finds runs the check.
func (h *host) finds(c *Check, status checks.Status, reason, message string) {
	h.Helper()
	got := c.Run(h.Context())
	if got.Status != status || got.Reason != reason || got.Message != message {
		h.Errorf("got  %s %s: %s\nwant %s %s: %s", got.Status, got.Reason, got.Message, status, reason, message)
	}
}

const (
	one, two   = "0000:3b:00.0", "0000:d8:00.0"
	first      = one + " NVIDIA H200 serial 1650000000001"
	second     = two + " NVIDIA H200 serial 1650000000002"
	wellBoth   = first + "; " + second + ": nothing is wrong"
	wellFirst  = first + ": nothing is wrong"
	wellSecond = second + ": nothing is wrong"
)

// both is a host with two GPUs, and a check that has found nothing.
func both(t *testing.T) (*host, *Check) {
	h := newHost(t)
	h.gpu(one, 1)
	h.gpu(two, 2)
	c := h.check()
	h.finds(c, checks.False, ReasonHealthy, wellBoth)
	return h, c
}

func TestOnANodeThatNeverHadAGPUTheCheckIsOff(t *testing.T) {
	h := newHost(t)
	h.set(device("0000:01:00.0"), "vendor", "0x10de", "class", "0x040300") // sound
	h.set(device("0000:02:00.0"), "vendor", "0x1002", "class", "0x030000") // another maker's
	h.set(device("0000:03:00.4"), "vendor", "0x10de", "class", "0x030200") // lent to a virtual machine
	h.must(os.Symlink("../0000:03:00.0", filepath.Join(h.path, device("0000:03:00.4"), "physfn")))
	_, err := New(h.options())
	if off := (checks.Off{}); !errors.As(err, &off) || off.Why != "there is no GPU of NVIDIA" {
		t.Errorf("got %v", err)
	}
	o := h.options()
	o.Sys = filepath.Join(h.path, "nowhere") // no PCI
	if off := (checks.Off{}); !errors.As(errOf(New(o)), &off) {
		t.Error("without a bus it is on")
	}
}

func errOf(_ *Check, err error) error { return err }

func TestAGPUThatIsNotTheDriversIsNotJudged(t *testing.T) {
	h := newHost(t)
	h.gpu(one, 1)
	h.bind(one, "vfio-pci")
	h.set(device(one), "config", "\xff\xff\xff\xff")
	h.gpu(two, 2)
	h.bind(two, "")
	c := h.check()
	h.finds(c, checks.False, ReasonHealthy, "the driver has no GPU of NVIDIA; 2 not looked at")
	if h.questions > 0 {
		t.Error("nvidia-smi was run, which loads the driver")
	}
	h.bind(two, "nvidia")
	h.finds(c, checks.False, ReasonHealthy, wellSecond+"; 1 not looked at")
	h.bind(two, "vfio-pci")
	h.finds(c, checks.False, ReasonHealthy, "the driver has no GPU of NVIDIA; 2 not looked at")
	h.vanish(two)
	h.finds(c, checks.False, ReasonHealthy, "the driver has no GPU of NVIDIA; 1 not looked at")
}

func TestAGPUThatTheDriverWasToldToLeaveOutIsNotJudged(t *testing.T) {
	h, c := both(t)
	h.set("driver/nvidia/gpus/"+two, "information", "GPU Excluded:\t Yes")
	delete(h.rows, "0000"+two)
	h.finds(c, checks.False, ReasonHealthy, wellFirst+"; 1 not looked at")
}

func TestAGPUThatFellOffTheBusIsNamed(t *testing.T) {
	h, c := both(t)
	h.set(device(two), "config", "\xff\xff\xff\xff\xff")
	h.finds(c, checks.True, ReasonFellOff, second+": it answers nothing on its bus (PCI)")
	h.bind(two, "") // the kernel gives it up
	h.finds(h.check(), checks.True, ReasonFellOff, second+": it answers nothing on its bus (PCI)")
	h.set(device(two), "config", "\xde\x10\x35\x23")
	h.bind(two, "nvidia")
	h.finds(c, checks.False, ReasonHealthy, wellBoth)
}

func TestAGPUThatSleepsIsNotWoken(t *testing.T) {
	h, c := both(t)
	h.set(device(two)+"/power", "runtime_status", "suspended")
	h.set(device(two), "config", "\xff\xff\xff\xff\xff")
	h.finds(c, checks.False, ReasonHealthy, wellBoth)
}

func TestAGPUThatIsGoneIsMissedUntilItIsBackOrExcluded(t *testing.T) {
	const missing = second + ": it is not there any more; if it was taken out, exclude it"
	h, c := both(t)
	h.vanish(two)
	h.finds(c, checks.True, ReasonMissing, missing)
	h.finds(h.check(), checks.True, ReasonMissing, missing) // after a boot
	h.vanish(one)
	h.finds(h.check(), checks.True, ReasonMissing, first+": it is not there any more; if it was taken out, exclude it; "+missing)
	for _, pattern := range []string{"*0002", "GPU-2", two} {
		o := h.options()
		o.StateFile = filepath.Join(h.path, "other")
		data, err := os.ReadFile(h.options().StateFile)
		h.must(err, os.WriteFile(o.StateFile, data, 0o600))
		o.Exclude = []string{"*0001", pattern}
		h.finds(h.start(o), checks.False, ReasonHealthy, "the driver has no GPU of NVIDIA")
	}
	h.gpu(one, 1)
	h.gpu(two, 2)
	h.finds(h.check(), checks.False, ReasonHealthy, wellBoth)
}

func TestAGPUThatWasMovedOrExchangedIsNotMissed(t *testing.T) {
	const three = "0000:5e:00.0"
	third := func(n int) string { return fmt.Sprintf("%s NVIDIA H200 serial 165000000000%d", three, n) }
	for name, tc := range map[string]struct {
		change func(h *host)
		want   string
	}{
		"another one in its place": {func(h *host) { h.gpu(two, 3) }, first + "; " + two + " NVIDIA H200 serial 1650000000003: nothing is wrong"},
		"another one elsewhere":    {func(h *host) { h.vanish(two); h.gpu(three, 3) }, first + "; " + third(3) + ": nothing is wrong"},
		"the same one elsewhere":   {func(h *host) { h.vanish(two); h.gpu(three, 2) }, first + "; " + third(2) + ": nothing is wrong"},
		"they have changed places": {
			func(h *host) { h.gpu(one, 2); h.gpu(two, 1) },
			one + " NVIDIA H200 serial 1650000000002; " + two + " NVIDIA H200 serial 1650000000001: nothing is wrong",
		},
		"one more": {func(h *host) { h.gpu(three, 3) }, first + "; " + third(3) + "; " + second + ": nothing is wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := both(t)
			tc.change(h)
			c := h.check()
			h.finds(c, checks.False, ReasonHealthy, tc.want)
			h.finds(c, checks.False, ReasonHealthy, tc.want)
		})
	}
}

func TestOneOfTwoThatWasMovedWhereTheOtherWasLeavesTheOtherMissed(t *testing.T) {
	h, _ := both(t)
	h.vanish(two)
	h.gpu(one, 2)
	c := h.check()
	for range 2 {
		h.finds(c, checks.True, ReasonMissing, first+": it is not there any more; if it was taken out, exclude it")
	}
}

func TestAGPUThatIsNotLookedAtIsInNobodysPlace(t *testing.T) {
	const (
		three   = "0000:5e:00.0"
		missing = second + ": it is not there any more; if it was taken out, exclude it"
	)
	for name, tc := range map[string]struct {
		other  func(h *host)
		status checks.Status
		reason string
		want   string
	}{
		"lent":     {func(h *host) { h.bind(three, "vfio-pci") }, checks.True, ReasonMissing, missing},
		"left out": {func(h *host) { h.set("driver/nvidia/gpus/"+three, "information", "GPU Excluded: Yes") }, checks.True, ReasonMissing, missing},
		"excluded": {func(h *host) { h.tell(three, fieldSerial, "unwanted") }, checks.True, ReasonMissing, missing},
		"without a driver": {
			func(h *host) { h.bind(three, "") }, checks.Unknown, ReasonNoDriver,
			second + ": it is not there any more, unless it is one that no driver has; load the driver, or exclude it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := both(t)
			h.gpu(three, 3)
			tc.other(h)
			o := h.options()
			o.Exclude = []string{"unwanted"}
			h.finds(h.start(o), checks.False, ReasonHealthy, wellBoth+"; 1 not looked at")
			h.vanish(two)
			c := h.start(o)
			for range 2 {
				h.finds(c, tc.status, tc.reason, tc.want)
			}
		})
	}
}

// A driver tells no UUID before somebody has used the GPU, and nvidia-smi may be missing.
func TestAGPUWithoutAUUIDIsKnownByItsAddress(t *testing.T) {
	h, _ := both(t)
	h.set("driver/nvidia/gpus/"+two, "information", "Model: \t NVIDIA H200\nGPU UUID: \t GPU-????????-????-????-????-????????????")
	h.instead = &answer{err: errors.New("nothing works")}
	h.finds(h.check(), checks.Unknown, ReasonNotSeen, "nvidia-smi can't be run: nothing works, asked about "+first+"; "+second)
	h.instead = nil
	h.finds(h.check(), checks.False, ReasonHealthy, wellBoth)
}

func TestAGPUThatHadADriverAndHasNoneIsUnknown(t *testing.T) {
	h, c := both(t)
	h.bind(two, "")
	h.finds(c, checks.Unknown, ReasonNoDriver, second+": no driver has it any more; if that is to be so, exclude it")
	h.finds(h.check(), checks.Unknown, ReasonNoDriver, second+": no driver has it any more; if that is to be so, exclude it")
	o := h.options()
	o.Exclude = []string{two}
	h.finds(h.start(o), checks.False, ReasonHealthy, wellFirst+"; 1 not looked at")
}

func TestWhatTheDriverSaysOfAGPUIsJudged(t *testing.T) {
	for _, tc := range []struct {
		field, value string
		status       checks.Status
		reason, text string
	}{
		{fieldRecovery, "Reset", checks.True, ReasonReset, "its driver asks for a recovery: Reset"},
		{fieldRecovery, "GPU Reset", checks.True, ReasonReset, "its driver asks for a recovery: GPU Reset"},
		{fieldRecovery, "Drain and Reset", checks.True, ReasonReset, "its driver asks for a recovery: Drain and Reset"},
		{fieldRecovery, "Reboot", checks.True, ReasonReboot, "its driver asks for a recovery: Reboot"},
		{fieldRecovery, "Node Reboot", checks.True, ReasonReboot, "its driver asks for a recovery: Node Reboot"},
		{fieldRecovery, "Drain P2P", checks.True, ReasonRecovery, "its driver asks for a recovery: Drain P2P"},
		{fieldRecovery, "Turn Around", checks.Unknown, ReasonNotSeen, "its driver asks for a recovery that is not known here: Turn Around"},
		{fieldRecovery, "[Unknown Error]", checks.Unknown, ReasonNotSeen, "its driver asks for a recovery that is not known here: [Unknown Error]"},
		{fieldRecovery, "[N/A]", checks.False, ReasonHealthy, ""},
		{fieldRecovery, "N/A", checks.False, ReasonHealthy, ""},
		{fieldRecovery, "[Not Supported]", checks.False, ReasonHealthy, ""},
		{fieldPower, "[GPU requires reset]", checks.True, ReasonReset, "its driver says: GPU requires reset"},
		{fieldErrors, "[GPU is lost]", checks.True, ReasonFellOff, "its driver says: GPU is lost"},
		{fieldErrors, "ERR!", checks.False, ReasonHealthy, ""},
		{fieldFailed, "Yes", checks.True, ReasonRemappingFailed, "rows of its memory that are broken could not be replaced: it is to be exchanged"},
		{fieldFailed, "[N/A]", checks.False, ReasonHealthy, ""}, // with MIG
		{fieldFailed, "ERR!", checks.Unknown, ReasonNotSeen, "remapped_rows.failure is ERR!"},
		{fieldPending, "Yes", checks.True, ReasonRemappingPending, "rows of its memory are replaced when it is reset, or the node boots"},
		{fieldRetirement, "Yes", checks.True, ReasonRemappingPending, "pages of its memory are put out of use when it is reset, or the node boots"},
	} {
		t.Run(tc.field+" "+tc.value, func(t *testing.T) {
			h, c := both(t)
			h.tell(two, tc.field, tc.value)
			h.clock.Step(5 * time.Minute)
			message := second + ": " + tc.text
			if tc.status == checks.False {
				message = wellBoth
			}
			h.finds(c, tc.status, tc.reason, message)
			h.finds(h.check(), tc.status, tc.reason, message) // after a restart of the detector
			h.gpu(two, 2)
			h.clock.Step(time.Minute)
			h.finds(c, checks.False, ReasonHealthy, wellBoth)
		})
	}
}

func TestSeveralFaultsAreNamedTheGravestFirst(t *testing.T) {
	h, c := both(t)
	h.tell(one, fieldPending, "Yes")
	h.tell(two, fieldRecovery, "Reboot")
	h.clock.Step(5 * time.Minute)
	h.finds(c, checks.True, ReasonReboot, second+": its driver asks for a recovery: Reboot; "+first+": rows of its memory are replaced when it is reset, or the node boots")
}

func TestErrorsThatTheDriverHasDealtWithAreTold(t *testing.T) {
	h, c := both(t)
	h.tell(two, fieldErrors, "7")
	h.clock.Step(5 * time.Minute)
	h.finds(c, checks.False, ReasonHealthy, wellBoth+"; "+two+": uncorrected memory errors since it was reset: 7")
}

func TestAGPUOfWhichTheDriverCanNotTellIsJudgedByWhatItSays(t *testing.T) {
	for says, want := range map[string]struct {
		status       checks.Status
		reason, text string
	}{
		"Unable to determine the device handle for GPU 0000:D8:00.0: GPU is lost.  Reboot the system to recover this GPU": {
			checks.True, ReasonFellOff, second + ": its driver says: GPU is lost.  Reboot the system to recover this GPU",
		},
		"Unable to determine the device handle for GPU0000:D8:00.0: Unknown Error":    {checks.True, ReasonNotAnswering, second + ": its driver says: Unknown Error"},
		"Unable to determine the device handle for GPU1: 0000:D8:00.0: Unknown Error": {checks.True, ReasonNotAnswering, second + ": its driver says: Unknown Error"},
		"Unable to determine the device handle for GPU1: 0000:D8:00.0: GPU requires reset": {
			checks.True, ReasonReset, second + ": its driver says: GPU requires reset",
		},
		"Unable to determine the device handle for GPU1: Unknown Error": {
			checks.Unknown, ReasonNotSeen, second + ": nvidia-smi does not tell of it. Unable to determine the device handle for GPU1: Unknown Error",
		},
		"": {checks.Unknown, ReasonNotSeen, second + ": nvidia-smi does not tell of it."},
	} {
		t.Run(says, func(t *testing.T) {
			h, c := both(t)
			row := h.rows["0000"+two]
			delete(h.rows, "0000"+two)
			h.says = says
			h.clock.Step(5 * time.Minute)
			h.finds(c, want.status, want.reason, want.text)
			h.finds(h.check(), want.status, want.reason, want.text)
			h.says, h.rows["0000"+two] = "", row
			h.finds(c, checks.False, ReasonHealthy, wellBoth)
		})
	}
}

func TestADriverThatTellsOfNoGPUIsJudgedByWhetherItEverDid(t *testing.T) {
	asked := ", asked about " + first + "; " + second
	for name, tc := range map[string]struct {
		instead answer
		status  checks.Status
		reason  string
		text    string
	}{
		"none":     {parse("No devices were found\n", fields()), checks.True, ReasonNotAnswering, "nvidia-smi has found no devices" + asked},
		"late":     {answer{late: true}, checks.True, ReasonNotAnswering, "nvidia-smi has not answered within 2m0s, as when a GPU hangs" + asked},
		"mismatch": {parse("Failed to initialize NVML: Driver/library version mismatch\n", fields()), checks.Unknown, ReasonNotSeen, "nvidia-smi says: Failed to initialize NVML: Driver/library version mismatch" + asked},
		"nothing":  {parse("", fields()), checks.Unknown, ReasonNotSeen, "nvidia-smi says: nothing" + asked},
		"gone":     {answer{absent: true}, checks.Unknown, ReasonNotSeen, "nvidia-smi is not there any more" + asked},
		"error":    {answer{err: errors.New("exec format error")}, checks.Unknown, ReasonNotSeen, "nvidia-smi can't be run: exec format error" + asked},
	} {
		t.Run(name, func(t *testing.T) {
			h, c := both(t)
			h.clock.Step(5 * time.Minute)
			h.instead = &tc.instead
			h.finds(c, tc.status, tc.reason, tc.text)
			h.finds(h.check(), tc.status, tc.reason, tc.text)
			h.instead = nil
			h.finds(c, checks.False, ReasonHealthy, wellBoth)

			h = newHost(t) // it never did
			h.gpu(one, 1)
			h.instead = &tc.instead
			if got := h.check().Run(t.Context()); got.Status == checks.True {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestWithoutNvidiaSMITheKernelTells(t *testing.T) {
	h := newHost(t)
	h.gpu(one, 1)
	h.gpu(two, 2)
	h.instead = &answer{absent: true}
	c := h.check()
	h.finds(c, checks.False, ReasonHealthy, one+" NVIDIA H200; "+two+" NVIDIA H200: nothing is wrong; nvidia-smi was not found: only the kernel tells of them")
	h.vanish(two)
	h.finds(c, checks.True, ReasonMissing, two+" NVIDIA H200: it is not there any more; if it was taken out, exclude it")
}

func TestTheDriverIsNotAskedIfThatIsSwitchedOff(t *testing.T) {
	h := newHost(t)
	h.gpu(one, 1)
	o := h.options()
	o.Health = false
	h.finds(h.start(o), checks.False, ReasonHealthy, one+" NVIDIA H200: nothing is wrong")
	if h.questions > 0 {
		t.Error("it was asked")
	}
}

func TestTheDriverIsAskedOnceInTheIntervalUnlessSomethingIsWrongOrNew(t *testing.T) {
	h := newHost(t)
	h.gpu(one, 1)
	c := h.check()
	run := func(step time.Duration, want int) {
		t.Helper()
		h.clock.Step(step)
		c.Run(t.Context())
		if h.questions != want {
			t.Errorf("asked %d times, want %d", h.questions, want)
		}
	}
	run(0, 1)
	run(4*time.Minute, 1)
	run(time.Minute, 2)
	h.gpu(two, 2)
	run(time.Minute, 3)
	run(time.Minute, 3)
	h.tell(two, fieldRecovery, "Reset")
	run(5*time.Minute, 4)
	run(time.Minute, 5)
	h.tell(two, fieldRecovery, "None")
	run(time.Minute, 6)
	run(time.Minute, 6)
	if got := slices.Compact(h.versions); len(got) != 1 || got[0] != "580.159.04" {
		t.Errorf("asked with the versions %q", got)
	}
}

func TestAGPUThatIsSlowForLongIsNamed(t *testing.T) {
	h, c := both(t)
	h.tell(two, fieldHot, "Active")
	for range 3 {
		h.clock.Step(5 * time.Minute)
		h.finds(c, checks.False, ReasonHealthy, wellBoth)
	}
	h.clock.Step(5 * time.Minute)
	h.finds(c, checks.True, ReasonSlowed, second+": it has slowed itself down for 15m0s: it is too hot")
	h.tell(two, fieldHot, "Not Active")
	h.clock.Step(time.Minute)
	h.finds(c, checks.False, ReasonHealthy, wellBoth)
	h.tell(two, fieldPower, "Active")
	h.clock.Step(5 * time.Minute)
	h.finds(c, checks.False, ReasonHealthy, wellBoth)
}

func TestADriverThatDoesNotAnswerIsWaitedForAndHasTheOtherFaultsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.gpu(one, 1)
		h.gpu(two, 2)
		hangs := make(chan struct{})
		var hang, ended atomic.Bool
		var asks sync.Mutex
		o := h.options()
		o.Clock = clock.RealClock{}
		o.Ask = func(ctx context.Context, version string) answer {
			if hang.Load() {
				<-hangs
				if ctx.Err() != nil {
					ended.Store(true)
				}
			}
			asks.Lock()
			defer asks.Unlock()
			return h.ask(ctx, version)
		}
		c := h.start(o)
		run := func(status checks.Status, reason, message string) {
			t.Helper()
			h.finds(c, status, reason, message)
			time.Sleep(time.Minute)
		}
		run(checks.False, ReasonHealthy, wellBoth)
		time.Sleep(5 * time.Minute)
		hang.Store(true)
		for range 2 {
			run(checks.False, ReasonHealthy, wellBoth) // the last answer holds
		}
		silent := "nvidia-smi has not answered for %s and can't be killed, as when a GPU hangs, asked about " + first
		run(checks.True, ReasonNotAnswering, fmt.Sprintf(silent, "3m35s")+"; "+second)
		h.vanish(two)
		run(checks.True, ReasonMissing, second+": it is not there any more; if it was taken out, exclude it; "+fmt.Sprintf(silent, "5m6s"))
		h.gpu(two, 2)
		c = h.start(o) // of a detector that has just started
		run(checks.Unknown, ReasonNotSeen, "nvidia-smi has not answered for 32s yet, asked about "+first+"; "+second)
		hang.Store(false)
		c.Close()
		close(hangs)
		synctest.Wait()
		if !ended.Load() {
			t.Error("nvidia-smi goes on after the end of the check")
		}
		run(checks.False, ReasonHealthy, wellBoth)
	})
}

func TestADamagedStateFileIsNoHealth(t *testing.T) {
	h, _ := both(t)
	h.set("state", "gpu.json", "{")
	got := h.check().Run(t.Context())
	if got.Status != checks.Unknown || !strings.HasPrefix(got.Message, "which GPUs the node had is not known: ") {
		t.Errorf("got %v", got)
	}
}

func TestARunThatIsInterruptedIsNoFault(t *testing.T) {
	h, c := both(t)
	h.vanish(two)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := c.Run(ctx); got.Status != checks.Unknown || got.Reason != ReasonNotSeen {
		t.Errorf("got %v", got)
	}
}
