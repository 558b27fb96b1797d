package drives

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/checks"
)

// host is one whose /sys is played, and what its drives say.
type host struct {
	*testing.T
	path  string
	clock *testclock.FakeClock
	// says is what drives say, by their names.
	says map[string]health
	// questions counts how often they were asked, beside each other.
	questions map[string]int
	asking    sync.Mutex
}

func newHost(t *testing.T) *host {
	h := &host{
		T: t, path: t.TempDir(), clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		says: map[string]health{}, questions: map[string]int{},
	}
	h.mkdir("block")
	return h
}

func (h *host) must(errs ...error) {
	h.Helper()
	if err := errors.Join(errs...); err != nil {
		h.Fatal(err)
	}
}

func (h *host) mkdir(name string) {
	h.Helper()
	h.must(os.MkdirAll(filepath.Join(h.path, name), 0o700))
}

// set writes files of a folder: names and what they hold.
func (h *host) set(folder string, files ...string) {
	h.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(h.path, folder, files[i])
		h.must(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(files[i+1]+"\n"), 0o600))
	}
}

func (h *host) remove(name string) {
	h.Helper()
	h.must(os.RemoveAll(filepath.Join(h.path, name)))
}

// nvme adds a drive.
func (h *host) nvme(name, serial, place string) {
	h.Helper()
	h.set("class/nvme/"+name, "state", "live", "model", "Model", "serial", serial, "transport", "pcie", "address", place)
	h.mkdir("class/nvme/" + name + "/" + name + "n1")
	h.mkdir("class/nvme/" + name + "/hwmon")
}

// disk adds one that is spoken to by SCSI.
func (h *host) disk(name, vendor, serial, place string) {
	h.Helper()
	h.set(place, "state", "running", "vendor", vendor, "wwid", "naa."+serial, "ioerr_cnt", "0x0", "iodone_cnt", "0x0")
	h.set("block/"+name, "removable", "0")
	h.must(os.Symlink(filepath.Join(h.path, place), filepath.Join(h.path, "block", name, "device")))
}

// sas is where a disk is plugged.
func sas(n int) string {
	return fmt.Sprintf("devices/pci0000:00/0000:00:1f.2/host2/port-2:%d/end_device-2:%d/target2:0:%d/2:0:%d:0", n, n, n, n)
}

// bay lets a controller tell where the end of SAS is plugged.
func (h *host) bay(end string, bay int) {
	h.Helper()
	h.set("class/sas_device/end_device-"+end, "enclosure_identifier", "0x500304801f3a2b00", "bay_identifier", fmt.Sprint(bay))
}

// array adds one that is well.
func (h *host) array(name, level string, disks int) {
	h.Helper()
	h.set("block/"+name+"/md", "level", level, "array_state", "clean", "raid_disks", fmt.Sprint(disks), "sync_action", "idle", "sync_completed", "none")
	if level != "raid0" {
		h.set("block/"+name+"/md", "degraded", "0")
	}
	for n := range disks {
		h.set(fmt.Sprintf("block/%s/md/dev-sd%c1", name, 'a'+n), "state", "in_sync")
	}
}

func (h *host) options() Options {
	return Options{
		Health: true, HealthInterval: 10 * time.Minute, MaxWait: 2 * time.Minute, MaxMediaErrors: 3, MaxErrors: 1, MaxUsed: 0,
		StateFile: filepath.Join(h.path, "state", "drives.json"), Timeout: 30 * time.Second, Sys: h.path, Clock: h.clock,
		Ask: func(d drive) health {
			h.asking.Lock()
			defer h.asking.Unlock()
			h.questions[d.name]++
			return h.says[d.name]
		},
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

func TestOnANodeWithoutDrivesTheCheckIsOff(t *testing.T) {
	h := newHost(t)
	h.mkdir("block/vda")
	h.disk("sda", "QEMU", "1", "devices/pci0000:00/0000:00:01.2/usb1/1-1/1-1:1.0/host0/target0:0:0/0:0:0:0")
	h.disk("sdb", "ISCSI", "2", "devices/platform/host3/session1/target3:0:0/3:0:0:0")
	h.disk("sdc", "FC", "3", "devices/pci0000:00/0000:00:02.0/host4/rport-4:0-0/target4:0:0/4:0:0:0")
	h.disk("sdd", "Cards", "4", sas(4))
	h.set("block/sdd", "removable", "1")
	h.set("class/nvme/nvme0", "state", "live", "transport", "tcp")
	h.nvme("nvme1", "vol1", "0000:01:00.0")
	h.set("class/nvme/nvme1", "model", "Amazon Elastic Block Store              ")
	h.set("block/md127/md", "level", "", "array_state", "inactive", "metadata_version", "external:imsm")
	h.disk("sde", "Msft", "6", "devices/LNXSYSTM:00/VMBUS:00/f8b3/host0/target0:0:0/0:0:0:0")
	h.disk("sdf", "Google", "7", "devices/pci0000:00/0000:00:03.0/virtio0/host0/target0:0:1/0:0:1:0")
	h.disk("sdg", "HC", "8", "devices/pci0000:00/0000:00:05.0/virtio3/host0/target0:0:0/0:0:0:1") // Hetzner's
	h.nvme("nvme2", "vol2", "0000:02:00.0")
	h.set("class/nvme/nvme2", "model", "Alibaba Cloud Elastic Block Storage     ")
	h.set("block/md126/md", "level", "", "array_state", "clear")
	_, err := New(h.options())
	if off := (checks.Off{}); !errors.As(err, &off) {
		t.Errorf("got %v", err)
	}
}

func TestDrivesThatAreWellAreTold(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "1", "0000:01:00.0")
	h.disk("sda", "ATA", "2", "devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0")
	h.disk("sdb", "SEAGATE", "3", sas(1))
	h.disk("sdc", "SEAGATE", "4", sas(2))
	h.array("md0", "raid1", 2)
	h.says["nvme0n1"] = health{notes: []string{"spare 100 %"}, used: 12, counted: true, media: 7}
	h.says["sda"] = health{asleep: true}
	h.says["sdb"] = health{none: true}
	h.finds(h.check(), checks.False, ReasonHealthy,
		"nvme0n1 (spare 100 %, 12 % used, 7 media errors in its life), sda (asleep), sdb (tells nothing of its health), sdc, md0 (raid1): nothing is wrong")
}

func TestADriveThatTheKernelHasGivenUpHasFailed(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "1", "0000:01:00.0")
	h.disk("sda", "SEAGATE", "2", sas(1))
	c := h.check()
	h.finds(c, checks.False, ReasonHealthy, "nvme0n1, sda: nothing is wrong")
	h.set("class/nvme/nvme0", "state", "resetting")
	h.finds(c, checks.Unknown, ReasonNotReady, "nvme0n1: the kernel can't use it at present (resetting)")
	h.set("class/nvme/nvme0", "state", "dead")
	h.set(sas(1), "state", "offline")
	h.finds(c, checks.True, ReasonFailed, "nvme0n1: the kernel has given it up (dead); sda: the kernel has given it up (offline)")
	h.set(sas(1), "state", "running")
	h.set("class/nvme/nvme0", "state", "live")
	h.finds(c, checks.False, ReasonHealthy, "nvme0n1, sda: nothing is wrong")
}

func TestSeveralDrivesAreNamedTheGravestFirst(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "1", "0000:01:00.0")
	h.nvme("nvme1", "2", "0000:02:00.0")
	h.says["nvme1n1"] = health{counted: true}
	c := h.check()
	h.finds(c, checks.False, ReasonHealthy, "nvme0n1, nvme1n1: nothing is wrong")
	h.clock.Step(10 * time.Minute)
	h.says["nvme0n1"] = health{findings: []finding{{Reason: ReasonHot, Text: "90 °C, which its maker does not allow"}}}
	h.says["nvme1n1"] = health{counted: true, media: 3, findings: []finding{{Reason: ReasonSpare, Text: "spare 4 %, and at least 10 % should be left"}}}
	h.finds(c, checks.True, ReasonMedia,
		"nvme1n1: 3 media errors in 24 h; nvme1n1: spare 4 %, and at least 10 % should be left; nvme0n1: 90 °C, which its maker does not allow")
}

func TestMediaErrorsAreThoseOfADayAndKnownOverARestart(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "1", "0000:01:00.0")
	h.says["nvme0n1"] = health{counted: true, media: 500}
	const well = "nvme0n1 (%d media errors in its life): nothing is wrong"
	h.finds(h.check(), checks.False, ReasonHealthy, fmt.Sprintf(well, 500)) // of years ago
	h.says["nvme0n1"] = health{counted: true, media: 502}
	h.finds(h.check(), checks.False, ReasonHealthy, fmt.Sprintf(well, 502))
	h.clock.Step(12 * time.Hour)
	h.says["nvme0n1"] = health{counted: true, media: 503}
	c := h.check()
	h.finds(c, checks.True, ReasonMedia, "nvme0n1: 3 media errors in 24 h")
	h.finds(h.check(), checks.True, ReasonMedia, "nvme0n1: 3 media errors in 24 h")
	h.says["nvme0n1"] = health{}
	h.finds(h.check(), checks.True, ReasonMedia, "nvme0n1: 3 media errors in 24 h") // it does not tell at present
	h.says["nvme0n1"] = health{counted: true, media: 503}
	h.finds(h.check(), checks.True, ReasonMedia, "nvme0n1: 3 media errors in 24 h")
	h.clock.Step(12*time.Hour + time.Second)
	h.finds(c, checks.False, ReasonHealthy, fmt.Sprintf(well, 503))
	h.nvme("nvme0", "another", "0000:01:00.0")
	h.says["nvme0n1"] = health{counted: true, media: 900}
	h.finds(h.check(), checks.False, ReasonHealthy, fmt.Sprintf(well, 900)) // in its place
}

func TestHowMuchIsUsedCountsOnlyIfAsked(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "1", "0000:01:00.0")
	h.says["nvme0n1"] = health{used: 101}
	h.finds(h.check(), checks.False, ReasonHealthy, "nvme0n1 (101 % used): nothing is wrong")
	o := h.options()
	o.MaxUsed = 100
	h.finds(h.start(o), checks.True, ReasonWorn, "nvme0n1: 101 % of its life is used")
}

func TestRequestsThatFailAreCountedBetweenRuns(t *testing.T) {
	h := newHost(t)
	h.disk("sda", "SEAGATE", "1", sas(1))
	h.set(sas(1), "ioerr_cnt", "0x1000", "iodone_cnt", "0x2000") // long ago
	c := h.check()
	h.finds(c, checks.False, ReasonHealthy, "sda: nothing is wrong")
	h.set(sas(1), "ioerr_cnt", "0x1013", "iodone_cnt", "0x2013") // 19 are few
	h.finds(c, checks.False, ReasonHealthy, "sda: nothing is wrong")
	h.set(sas(1), "ioerr_cnt", "0x1027", "iodone_cnt", "0x27e4") // 20 of 2001
	h.finds(c, checks.False, ReasonHealthy, "sda: nothing is wrong")
	h.set(sas(1), "ioerr_cnt", "0x103b", "iodone_cnt", "0x2fb4")
	h.finds(c, checks.True, ReasonErrors, "sda: 20 of 2000 requests have failed")
	h.set(sas(1), "ioerr_cnt", "0x0", "iodone_cnt", "0x3000") // another host, the same disk
	h.finds(c, checks.False, ReasonHealthy, "sda: nothing is wrong")
}

func TestADriveThatWasNotWellAndIsGoneIsMissingUntilItOrAnotherIsThere(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "1", "0000:01:00.0")
	h.disk("sda", "SEAGATE", "2", sas(1))
	h.disk("sdb", "SEAGATE", "3", sas(2))
	h.bay("2:1", 11)
	h.bay("2:2", 12)
	c := h.check()
	h.says["sda"] = health{findings: []finding{{Reason: ReasonFailing, Text: "it says that it will fail soon"}}}
	h.finds(c, checks.True, ReasonFailing, "sda: it says that it will fail soon")
	h.remove("block/sda")
	h.remove("block/sdb") // was well
	const missing = "sda (naa.2) is gone, of which was known: it says that it will fail soon"
	h.finds(c, checks.True, ReasonMissing, missing)
	h.finds(h.check(), checks.True, ReasonMissing, missing)
	h.disk("sda", "SEAGATE", "4", sas(2)) // in another place
	delete(h.says, "sda")
	h.finds(h.check(), checks.True, ReasonMissing, missing)
	o := h.options()
	o.Exclude, o.StateFile = []string{"sda"}, filepath.Join(h.path, "copy.json")
	state, err := os.ReadFile(h.options().StateFile)
	h.must(err, os.WriteFile(o.StateFile, state, 0o600))
	h.finds(h.start(o), checks.False, ReasonHealthy, "nvme0n1: nothing is wrong")
	h.disk("sdc", "SEAGATE", "5", strings.ReplaceAll(sas(3), "2:", "7:")) // in its place, after a boot
	h.bay("7:3", 11)
	h.finds(c, checks.False, ReasonHealthy, "nvme0n1, sda, sdc: nothing is wrong")
}

func TestTheOnlyDriveThatIsGoneIsMissingAlsoAfterARestart(t *testing.T) {
	h := newHost(t)
	h.disk("sda", "SEAGATE", "1", sas(1))
	h.says["sda"] = health{findings: []finding{{Reason: ReasonFailing, Text: "it says that it will fail soon"}}}
	h.finds(h.check(), checks.True, ReasonFailing, "sda: it says that it will fail soon")
	h.remove("block/sda")
	c := h.check()
	h.finds(c, checks.True, ReasonMissing, "sda (naa.1) is gone, of which was known: it says that it will fail soon")
	h.disk("sda", "SEAGATE", "2", sas(1))
	delete(h.says, "sda")
	h.finds(c, checks.False, ReasonHealthy, "sda: nothing is wrong")
}

// SAS numbers devices as they come, so those that were behind it have other numbers after a boot.
func TestANeighbourIsNotInThePlaceOfADriveThatIsMissing(t *testing.T) {
	h := newHost(t)
	h.disk("sda", "SEAGATE", "1", sas(1))
	h.disk("sdb", "SEAGATE", "2", sas(2))
	h.disk("sdc", "SEAGATE", "3", sas(3))
	h.says["sda"] = health{findings: []finding{{Reason: ReasonFailing, Text: "it says that it will fail soon"}}}
	h.says["sdb"] = h.says["sda"]
	h.finds(h.check(), checks.True, ReasonFailing, "sda: it says that it will fail soon; sdb: it says that it will fail soon")
	for _, name := range []string{"sda", "sdb", "sdc"} {
		h.remove("block/" + name)
		delete(h.says, name)
	}
	h.disk("sda", "SEAGATE", "3", sas(1))
	const missing = "%s is gone, of which was known: it says that it will fail soon"
	h.finds(h.check(), checks.True, ReasonMissing, fmt.Sprintf(missing+"; "+missing, "sda (naa.1)", "sdb (naa.2)"))
	h.disk("sdb", "SEAGATE", "4", sas(4)) // one for one
	h.finds(h.check(), checks.True, ReasonMissing, fmt.Sprintf(missing, "sdb (naa.2)"))
	h.disk("sdd", "SEAGATE", "5", sas(5))
	h.finds(h.check(), checks.False, ReasonHealthy, "sda, sdb, sdd: nothing is wrong")
}

// Before the kernel gives a drive up it resets it, and a drive that dies may answer late or not at all.
func TestADriveThatWasNotWellIsSoUntilItHasToldOtherwise(t *testing.T) {
	for name, last := range map[string]func(h *host){
		"the kernel resets it":           func(h *host) { h.set(sas(1), "state", "blocked") },
		"the kernel has given it up":     func(h *host) { h.set(sas(1), "state", "offline") },
		"it can't be asked":              func(h *host) { h.says["sda"] = health{err: unix.EIO} },
		"it tells nothing":               func(h *host) { h.says["sda"] = health{none: true} },
		"the kernel has put it to sleep": func(h *host) { h.set(sas(1)+"/power", "runtime_status", "suspended") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.disk("sda", "SEAGATE", "1", sas(1))
			h.disk("sdb", "SEAGATE", "2", sas(2))
			h.says["sda"] = health{findings: []finding{{Reason: ReasonFailing, Text: "it says that it will fail soon"}}}
			c := h.check()
			h.finds(c, checks.True, ReasonFailing, "sda: it says that it will fail soon")
			last(h)
			if got := c.Run(t.Context()); got.Status == checks.False {
				t.Errorf("got %+v", got)
			}
			h.remove("block/sda")
			h.finds(c, checks.True, ReasonMissing, "sda (naa.1) is gone, of which was known: it says that it will fail soon")
		})
	}
}

// The kernel says the same of a command that has timed out.
func TestADriveThatHasToldIsNotOneThatCannot(t *testing.T) {
	h := newHost(t)
	h.disk("sda", "ATA", "1", sas(1))
	h.finds(h.check(), checks.False, ReasonHealthy, "sda: nothing is wrong")
	h.says["sda"] = health{none: true}
	h.finds(h.check(), checks.Unknown, ReasonNotSeen, "sda: does not tell any more how it is; if that was switched off, exclude it")
}

func TestADamagedStateFileProvesNoHealth(t *testing.T) {
	h := newHost(t)
	h.disk("sda", "SEAGATE", "1", sas(1))
	h.set("state", "drives.json", "{")
	h.finds(h.check(), checks.Unknown, ReasonNotSeen, "what was seen before is not known: "+h.options().StateFile+
		": unexpected end of JSON input; if that does not end, remove the file: then all is as at the first look")
}

// The machine was off meanwhile, so no run has seen that it was gone.
func TestADriveThatWasExchangedIsNotMissing(t *testing.T) {
	h := newHost(t)
	h.disk("sda", "SEAGATE", "2", sas(1))
	h.says["sda"] = health{findings: []finding{{Reason: ReasonFailing, Text: "it says that it will fail soon"}}}
	h.finds(h.check(), checks.True, ReasonFailing, "sda: it says that it will fail soon")
	h.remove("block/sda")
	h.disk("sda", "SEAGATE", "3", sas(1))
	delete(h.says, "sda")
	c := h.check()
	for range 2 {
		h.finds(c, checks.False, ReasonHealthy, "sda: nothing is wrong")
	}
}

func TestADriveThatTellsNothingAnyMoreIsNotWell(t *testing.T) {
	h := newHost(t)
	h.disk("sda", "SEAGATE", "2", sas(1))
	c := h.check()
	h.says["sda"] = health{findings: []finding{{Reason: ReasonFailing, Text: "it says that it will fail soon"}}}
	h.finds(c, checks.True, ReasonFailing, "sda: it says that it will fail soon")
	h.says["sda"] = health{none: true}
	h.finds(c, checks.True, ReasonFailing, "sda: it says that it will fail soon")
}

func TestADriveThatIsBackAndWellIsWell(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "1", "0000:01:00.0")
	h.nvme("nvme1", "2", "0000:02:00.0")
	c := h.check()
	h.set("class/nvme/nvme0", "state", "resetting")
	for range 2 {
		h.finds(c, checks.Unknown, ReasonNotReady, "nvme0n1: the kernel can't use it at present (resetting)")
	}
	h.remove("class/nvme/nvme0")
	h.finds(c, checks.True, ReasonMissing, "nvme0n1 (Model 1) is gone, of which was known: the kernel can't use it at present (resetting)")
	h.nvme("nvme0", "1", "0000:01:00.0")
	h.finds(c, checks.False, ReasonHealthy, "nvme0n1, nvme1n1: nothing is wrong")
}

func TestADriveThatTheKernelCanNotUseForLongHangs(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "1", "0000:01:00.0")
	c := h.check()
	h.set("class/nvme/nvme0", "state", "resetting")
	h.finds(c, checks.Unknown, ReasonNotReady, "nvme0n1: the kernel can't use it at present (resetting)")
	h.clock.Step(2 * time.Minute)
	h.finds(c, checks.True, ReasonHung, "nvme0n1: the kernel can't use it for 2m0s (resetting)")
	h.set("class/nvme/nvme0", "state", "live")
	h.finds(c, checks.False, ReasonHealthy, "nvme0n1: nothing is wrong")
	h.set("class/nvme/nvme0", "state", "connecting")
	h.finds(c, checks.Unknown, ReasonNotReady, "nvme0n1: the kernel can't use it at present (connecting)")
}

// Another boot may give its name to another one.
func TestADriveCanBeExcludedByItsSerialNumber(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "S4X1", "0000:01:00.0")
	h.nvme("nvme1", "S4X2", "0000:02:00.0")
	h.set("class/nvme/nvme0", "state", "dead")
	o := h.options()
	o.Exclude = []string{"*S4X1"}
	h.finds(h.start(o), checks.False, ReasonHealthy, "nvme1n1: nothing is wrong")
}

func TestADriveThatIsTakenOutIsNotMissedForItsLastMoment(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "1", "0000:01:00.0")
	h.nvme("nvme1", "2", "0000:02:00.0")
	c := h.check()
	h.finds(c, checks.False, ReasonHealthy, "nvme0n1, nvme1n1: nothing is wrong")
	h.set("class/nvme/nvme0", "state", "dead")
	h.finds(c, checks.True, ReasonFailed, "nvme0n1: the kernel has given it up (dead)")
	h.remove("class/nvme/nvme0")
	h.finds(c, checks.False, ReasonHealthy, "nvme1n1: nothing is wrong")
}

func TestADiskThatSleepsIsStillWhatItSaidBefore(t *testing.T) {
	h := newHost(t)
	h.disk("sda", "ATA", "1", sas(1))
	h.says["sda"] = health{findings: []finding{{Reason: ReasonFailing, Text: "it says that it will fail soon"}}}
	c := h.check()
	h.finds(c, checks.True, ReasonFailing, "sda: it says that it will fail soon")
	h.says["sda"] = health{findings: []finding{{Reason: ReasonFailing, Text: "it says that it will fail soon"}, {Reason: ReasonHot, Text: "hot"}}}
	h.finds(c, checks.True, ReasonFailing, "sda: it says that it will fail soon; sda: hot")
	h.says["sda"] = health{asleep: true}
	h.finds(c, checks.True, ReasonFailing, "sda: it says that it will fail soon; sda: hot")
	h.finds(h.check(), checks.True, ReasonFailing, "sda: it says that it will fail soon")
}

func TestADiskThatTheKernelHasPutToSleepIsNotOpened(t *testing.T) {
	h := newHost(t)
	h.disk("sda", "ATA", "1", sas(1))
	h.set(sas(1)+"/power", "runtime_status", "suspended")
	h.finds(h.check(), checks.False, ReasonHealthy, "sda (asleep): nothing is wrong")
	if h.questions["sda"] > 0 {
		t.Error("it was asked")
	}
}

func TestADriveIsAskedOnceInTheIntervalUnlessItIsNotWell(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "1", "0000:01:00.0")
	c := h.check()
	run := func(step time.Duration, want int) {
		t.Helper()
		h.clock.Step(step)
		c.Run(t.Context())
		if got := h.questions["nvme0n1"]; got != want {
			t.Errorf("asked %d times, want %d", got, want)
		}
	}
	run(0, 1)
	run(5*time.Minute, 1)
	run(5*time.Minute, 2)
	h.says["nvme0n1"] = health{err: unix.EIO}
	run(10*time.Minute, 3)
	run(time.Minute, 4)
}

func TestADriveThatCanNotBeAskedIsNotHealthy(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "1", "0000:01:00.0")
	h.says["nvme0n1"] = health{err: &os.PathError{Op: "open", Path: "/dev/nvme0", Err: unix.EACCES}}
	h.finds(h.check(), checks.Unknown, ReasonNotSeen,
		"nvme0n1: open /dev/nvme0: permission denied: it takes root with CAP_SYS_ADMIN and CAP_SYS_RAWIO, and access to the device; or set health: false")
	o := h.options()
	o.Health = false
	h.finds(h.start(o), checks.False, ReasonHealthy, "nvme0n1: nothing is wrong")
	o = h.options()
	o.Ask, o.Dev = nil, t.TempDir()
	h.finds(h.start(o), checks.Unknown, ReasonNotSeen,
		"nvme0n1: open "+o.Dev+"/nvme0: no such file or directory: mount the host's /dev, or set health: false")
}

func TestADriveThatHangsHangsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.nvme("nvme0", "1", "0000:01:00.0")
		h.nvme("nvme1", "2", "0000:02:00.0")
		o := h.options()
		kernel := make(chan health)
		o.Clock = clock.RealClock{}
		o.Ask = func(d drive) health {
			if d.name == "nvme0n1" {
				return <-kernel
			}
			return health{findings: []finding{{Reason: ReasonHot, Text: "hot"}}}
		}
		c := h.start(o)
		h.finds(c, checks.True, ReasonHot, "nvme1n1: hot; nvme0n1: has not told for 15s yet how it is")
		time.Sleep(90 * time.Second)
		h.finds(c, checks.True, ReasonHung, "nvme0n1: has not told for 2m0s how it is; nvme1n1: hot")
		kernel <- health{}
		h.finds(c, checks.True, ReasonHot, "nvme1n1: hot")
	})
}

// Some controllers carry the question out once nothing else is to be done.
func TestABusyDriveThatAnswersLateDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.disk("sda", "ATA", "1", sas(1))
		o := h.options()
		kernel := make(chan health)
		o.Clock = clock.RealClock{}
		o.Ask = func(drive) health { return <-kernel }
		c := h.start(o)
		h.finds(c, checks.Unknown, ReasonSlow, "sda: has not told for 15s yet how it is")
		h.set(sas(1), "iodone_cnt", "0x10")
		time.Sleep(90 * time.Second)
		h.finds(c, checks.Unknown, ReasonSlow, "sda: has not told for 2m0s yet how it is")
		h.set(sas(1), "iodone_cnt", "0x10", "ioerr_cnt", "0x10") // all have failed
		h.finds(c, checks.True, ReasonHung, "sda: has not told for 2m15s how it is")
		kernel <- health{}
		h.finds(c, checks.False, ReasonHealthy, "sda: nothing is wrong")
	})
}

func TestArraysThatHaveLostDisksAreNamed(t *testing.T) {
	const one = "1 of 3 disks is missing"
	for name, test := range map[string]struct {
		level  string
		files  []string
		reason string // none: it is well
		text   string
	}{
		"one is missing":              {"raid5", []string{"degraded", "1"}, ReasonDegraded, one},
		"one has failed":              {"raid5", []string{"degraded", "1", "dev-sdb1/state", "faulty,write_error"}, ReasonDegraded, one + ", sdb1 has failed"},
		"another one is filled":       {"raid5", []string{"degraded", "1", "sync_action", "recover", "sync_completed", "25 / 100"}, ReasonDegraded, one + ", another one is filled: 25 %"},
		"another one waits":           {"raid5", []string{"degraded", "1", "sync_action", "recover", "sync_completed", "delayed"}, ReasonDegraded, one + ", another one waits to be filled"},
		"two are missing":             {"raid5", []string{"degraded", "2"}, ReasonArrayFailed, "2 of 3 disks are missing"},
		"two are missing of raid6":    {"raid6", []string{"degraded", "2"}, ReasonDegraded, "2 of 3 disks are missing"},
		"two are missing of raid1":    {"raid1", []string{"degraded", "2"}, ReasonDegraded, "2 of 3 disks are missing"},
		"all are missing of raid1":    {"raid1", []string{"degraded", "3"}, ReasonArrayFailed, "3 of 3 disks are missing"},
		"a spare has taken the place": {"raid1", []string{"dev-sdd1/state", "faulty"}, ReasonDegraded, "sdd1 has failed, and a spare has taken its place"},
		"one is missing of raid0":     {"raid0", []string{"array_state", "broken"}, ReasonArrayFailed, "it has lost a disk that it can't do without"},
		"it was not started":          {"raid5", []string{"array_state", "inactive"}, ReasonNotStarted, "it is not started, mostly since disks are missing"},
		"it is checked":               {"raid5", []string{"sync_action", "check", "sync_completed", "25 / 100", "array_state", "active"}, "", ""},
		"it grows":                    {"raid5", []string{"raid_disks", "4 (3)", "sync_action", "reshape", "sync_completed", "delayed"}, "", ""},
		"people let nobody write":     {"raid5", []string{"array_state", "readonly"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.array("md0", test.level, 3)
			c := h.check()
			h.finds(c, checks.False, ReasonHealthy, "md0 ("+test.level+"): nothing is wrong")
			h.set("block/md0/md", test.files...)
			if test.reason == "" {
				h.finds(c, checks.False, ReasonHealthy, "md0 ("+test.level+"): nothing is wrong")
			} else {
				h.finds(c, checks.True, test.reason, "md0 ("+test.level+"): "+test.text)
			}
		})
	}
}

func TestANameThatIsExcludedIsNotLookedAt(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "1", "0000:01:00.0")
	h.nvme("nvme1", "2", "0000:02:00.0")
	h.set("class/nvme/nvme1", "state", "dead")
	o := h.options()
	o.Exclude = []string{"nvme1*"}
	c := h.start(o)
	h.finds(c, checks.False, ReasonHealthy, "nvme0n1: nothing is wrong")
	h.remove("class/nvme/nvme0")
	h.finds(c, checks.Unknown, ReasonNotSeen, "no drive and no array is there any more; if that is to be so, switch the check off, or remove its state file")
}

func TestANodeOfWhichNoDriveIsRememberedNeedsNoCheck(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "1", "0000:01:00.0")
	h.finds(h.check(), checks.False, ReasonHealthy, "nvme0n1: nothing is wrong")
	o := h.options()
	o.Exclude = []string{"nvme*"}
	h.finds(h.start(o), checks.Unknown, ReasonNotSeen, "no drive and no array is there any more; if that is to be so, switch the check off, or remove its state file")
	var off checks.Off
	if _, err := New(o); !errors.As(err, &off) {
		t.Errorf("got %v, want it to be off", err)
	}
}

func TestANamespaceThatHasSeveralWaysHasTheNameOfItsDevice(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme0", "1", "0000:01:00.0")
	h.remove("class/nvme/nvme0/nvme0n1")
	h.mkdir("class/nvme/nvme0/nvme2c0n1")
	h.finds(h.check(), checks.False, ReasonHealthy, "nvme2n1: nothing is wrong")
	h.mkdir("class/nvme/nvme0/nvme2c0n2")
	h.finds(h.check(), checks.False, ReasonHealthy, "nvme0: nothing is wrong")
}

func TestADriveWithTwoWaysToItIsAskedOnEach(t *testing.T) {
	h := newHost(t)
	h.disk("sda", "SEAGATE", "1", sas(1))
	h.disk("sdb", "SEAGATE", "1", sas(2))
	h.says["sdb"] = health{findings: []finding{{Reason: ReasonFailing, Text: "it says that it will fail soon"}}}
	c := h.check()
	for range 2 {
		h.finds(c, checks.True, ReasonFailing, "sdb: it says that it will fail soon")
	}
	if h.questions["sda"] != 1 || h.questions["sdb"] != 2 {
		t.Errorf("asked %v", h.questions)
	}
}

// A panic of a goroutine that nobody guards ends the whole detector.
func TestAPanicOfADrivesAnswerIsOneOfTheCheck(t *testing.T) {
	h := newHost(t)
	h.nvme("nvme1", "vol1", "0000:01:00.0")
	o := h.options()
	o.Ask = func(drive) health { panic("no such mode") } //nolint:forbidigo // as a library does
	c := h.start(o)
	if got := checks.Guarded(t.Context(), Kind(), c); got.Status != checks.Unknown || got.Reason != checks.ReasonCheckPanicked || !strings.Contains(got.Message, "no such mode") {
		t.Errorf("got %+v", got)
	}
}
