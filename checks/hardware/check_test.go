package hardware_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/hardware"
	"github.com/nodemend/nodemend/internal/repairnote"
	"github.com/nodemend/nodemend/internal/smbios"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/ipmi/verdict"
	"github.com/nodemend/nodemend/test/bmc"
)

// newCheck returns a check of d that keeps what it remembers at path.
func newCheck(t *testing.T, d *double, path string, change ...func(*hardware.Options)) *hardware.Check {
	t.Helper()
	options := hardware.Options{
		Open: d.open, Store: hardware.Store{Path: path}, BootID: "boot", Timeout: time.Minute,
		Clock: clocktesting.NewFakePassiveClock(start),
	}
	for _, c := range change {
		c(&options)
	}
	check := hardware.New(options)
	t.Cleanup(check.Close)
	return check
}

func expect(t *testing.T, got checks.Result, status checks.Status, reason string, says ...string) {
	t.Helper()
	step{name: "the check", status: status, reason: reason, says: says}.judge(t, "device", got)
}

// logging returns a context whose log is written to the builder.
func logging(t *testing.T) (context.Context, *strings.Builder) {
	var log strings.Builder
	logger := funcr.New(func(_, args string) { log.WriteString(args + "\n") }, funcr.Options{})
	return logr.NewContext(t.Context(), logger), &log
}

func TestAFailureComesWithANoteForTheTechnician(t *testing.T) {
	d := newDouble(t)
	machine := smbios.Machine{
		Manufacturer: "Dell Inc.", Product: "PowerEdge R740", Serial: "ABC1234", BIOS: "2.21.1",
		Modules:    []ipmi.Module{{Locator: "A1", Serial: "4711", Bytes: 32 << 30}},
		Processors: []smbios.Part{{Locator: "CPU1", Serial: "S-1"}},
		Supplies:   []smbios.Part{{Locator: "PSU.Slot.1", Manufacturer: "DELL", PartNumber: "0CMPG", Serial: "CN17"}},
	}
	check := newCheck(t, d, filepath.Join(t.TempDir(), "state"), func(o *hardware.Options) { o.Machine = machine })
	healthy := check.Run(t.Context())
	expect(t, healthy, checks.False, verdict.ReasonHealthy)
	if _, lines := repairnote.Split(healthy.Message); lines != nil {
		t.Errorf("of a healthy server: %q", lines)
	}
	d.loseData(true)
	d.must(d.Assert(supply, 1, true))
	failed := check.Run(t.Context())
	said, lines := repairnote.Split(failed.Message)
	if strings.Contains(said, "serial") || !strings.HasPrefix(said, "DIMM_A1: uncorrectable ECC (SEL 0x01") {
		t.Errorf("everybody is told %q", said)
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"server: Dell Inc. PowerEdge R740, serial ABC1234, BIOS 2.21.1\n",
		"BMC: node-bmc firmware ", ", manufacturer ",
		"DIMM_A1: uncorrectable ECC, since 2026-", ", SEL 0x01, record 0100", "\nslot A1: 32 GiB, serial 4711\n",
		"\nPSU1: failure detected, since ", "\nthere is PowerSupply: PSU.Slot.1: DELL 0CMPG, serial CN17",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "CPU1") {
		t.Errorf("a processor that is well:\n%s", text)
	}
	if again := check.Run(t.Context()); again.Message != failed.Message {
		t.Errorf("got %q, then %q", failed.Message, again.Message)
	}
}

func TestASourceThatCanNotBeOpenedIsTriedAgain(t *testing.T) {
	d := newDouble(t)
	missing := true
	check := newCheck(t, d, filepath.Join(t.TempDir(), "state"), func(o *hardware.Options) {
		o.Open = func() (ipmi.Source, error) {
			if missing {
				return nil, errors.New("no BMC found: load the kernel module")
			}
			return d.open()
		}
	})
	expect(t, check.Run(t.Context()), checks.Unknown, hardware.ReasonNoBMC, "load the kernel module")
	missing = false
	expect(t, check.Run(t.Context()), checks.False, verdict.ReasonHealthy)
}

func TestABMCThatHangsIsUnknownAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDouble(t)
		opened := 0
		check := newCheck(t, d, filepath.Join(t.TempDir(), "state"), func(o *hardware.Options) {
			o.Open = func() (ipmi.Source, error) { opened++; return d.open() }
		})
		expect(t, check.Run(t.Context()), checks.False, verdict.ReasonHealthy)

		release := d.transport.Hang()
		began := time.Now()
		expect(t, check.Run(t.Context()), checks.Unknown, verdict.ReasonUnreachable)
		if took := time.Since(began); took >= time.Minute {
			t.Errorf("the run took %s, not less than its timeout", took)
		}
		release()
		expect(t, check.Run(t.Context()), checks.False, verdict.ReasonHealthy)
		if opened != 2 {
			t.Errorf("the source was opened %d times, want a second one after nothing could be read", opened)
		}
		check.Close()
		synctest.Wait()
	})
}

// slow is a transport that takes two seconds for a command.
type slow struct{ device.Transport }

func (s slow) SendRecv(ctx context.Context, netfn, cmd uint8, data []byte) ([]byte, error) {
	<-clock.RealClock{}.After(2 * time.Second) // in a bubble
	return s.Transport.SendRecv(ctx, netfn, cmd, data)
}

func TestASlowBMCIsJudgedAfterAFewRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDouble(t)
		for range 60 { // of somebody else
			d.Log(bmc.Event{Generator: 0x41, Type: 0x12, Data: [3]uint8{1, 0xff, 0xff}})
		}
		d.loseData(true)
		d.loseData(false)
		path := filepath.Join(t.TempDir(), "state")
		check := newCheck(t, d, path, func(o *hardware.Options) {
			o.Open = func() (ipmi.Source, error) {
				return device.New("double", slow{d.Transport()}, clock.RealClock{}), nil
			}
			o.Timeout = 2 * time.Minute
		})
		runs := 0
		for got := (checks.Result{}); got.Status != checks.True; runs++ {
			if runs == 10 {
				t.Fatalf("after %d runs: %+v", runs, got)
			}
			got = check.Run(t.Context())
			<-clock.RealClock{}.After(time.Minute)
		}
		expect(t, check.Run(t.Context()), checks.True, "MemoryFailure", dataLost)
		d.must(hardware.Store{Path: path}.Update(func(s verdict.State) verdict.State {
			return s.Acknowledge(verdict.All, "known", "alice", start)
		}))
		expect(t, check.Run(t.Context()), checks.False, verdict.ReasonHealthy)
		check.Close()
	})
}

func TestAPartThatCanNotBeReadIsUnknownAndKeepsTheSource(t *testing.T) {
	d := newDouble(t)
	opened := 0
	check := newCheck(t, d, filepath.Join(t.TempDir(), "state"), func(o *hardware.Options) {
		o.Open = func() (ipmi.Source, error) { opened++; return d.open() }
	})
	d.Fail(bmc.GetSELInfo, uint8(ipmi.UnspecifiedError), -1)
	expect(t, check.Run(t.Context()), checks.Unknown, verdict.ReasonLogUnreadable, "completion code 0xff")
	d.SetHook(nil)
	expect(t, check.Run(t.Context()), checks.False, verdict.ReasonHealthy)
	if opened != 1 {
		t.Errorf("the source was opened %d times", opened)
	}
}

func TestAnInterruptedRunTellsNothingAndForgetsNothing(t *testing.T) {
	d := newDouble(t)
	path := filepath.Join(t.TempDir(), "state")
	check := newCheck(t, d, path)
	d.loseData(true)
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	expect(t, check.Run(interrupted), checks.Unknown, hardware.ReasonInterrupted)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has left a file: %v", err)
	}
	expect(t, check.Run(t.Context()), checks.True, "MemoryFailure", dataLost)
}

func TestADamagedFileIsReplacedAndTheSELReadAnew(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "cut": `{"version":1,"cur`, "of another version": `{"version":99}`} {
		t.Run(name, func(t *testing.T) {
			d := newDouble(t)
			path := filepath.Join(t.TempDir(), "state")
			d.must(os.WriteFile(path, []byte(content), 0o600))
			d.loseData(true)
			d.loseData(false)
			ctx, log := logging(t)
			expect(t, newCheck(t, d, path).Run(ctx), checks.True, "MemoryFailure", dataLost)
			if !strings.Contains(log.String(), "can't be used") {
				t.Errorf("the log is %q", log)
			}
			log.Reset()
			expect(t, newCheck(t, d, path).Run(ctx), checks.True, "MemoryFailure", dataLost)
			if log.Len() > 0 {
				t.Errorf("and then it is %q", log)
			}
		})
	}
}

func TestAFileThatIsDamagedWhileTheDetectorRunsIsWrittenAnew(t *testing.T) {
	d := newDouble(t)
	path := filepath.Join(t.TempDir(), "state")
	check := newCheck(t, d, path)
	d.loseData(true)
	d.loseData(false)
	expect(t, check.Run(t.Context()), checks.True, "MemoryFailure", dataLost)
	d.DeleteSEL(1) // so that only the check knows of it
	d.must(os.WriteFile(path, []byte("{"), 0o600))
	expect(t, check.Run(t.Context()), checks.True, "MemoryFailure", dataLost)
	expect(t, newCheck(t, d, path).Run(t.Context()), checks.True, "MemoryFailure", dataLost)
}

func TestWhatCanNotBeSavedIsKeptInMemory(t *testing.T) {
	d := newDouble(t)
	parent := filepath.Join(t.TempDir(), "a file")
	d.must(os.WriteFile(parent, nil, 0o600))
	path := filepath.Join(parent, "state")
	check := newCheck(t, d, path)
	ctx, log := logging(t)
	d.loseData(true)
	expect(t, check.Run(ctx), checks.True, "MemoryFailure", dataLost)
	d.loseData(false)
	expect(t, check.Run(ctx), checks.True, "MemoryFailure", dataLost)
	if !strings.Contains(log.String(), "kept in memory") {
		t.Errorf("the log is %q", log)
	}

	d.must(os.Remove(parent))
	expect(t, check.Run(ctx), checks.True, "MemoryFailure", dataLost)
	d.must(os.Remove(path + ".lock"))
	d.DeleteSEL(1) // so that only the file has it
	expect(t, newCheck(t, d, path).Run(ctx), checks.True, "MemoryFailure", dataLost)
}

func TestAnAcknowledgementIsKeptThoughTheStateCouldNotBeSavedBefore(t *testing.T) {
	d := newDouble(t)
	path := filepath.Join(t.TempDir(), "state")
	check := newCheck(t, d, path)
	d.loseData(true)
	d.loseData(false)
	expect(t, check.Run(t.Context()), checks.True, "MemoryFailure", dataLost)
	lock := func(broken bool) {
		d.must(os.Remove(path + ".lock"))
		if broken {
			d.must(os.Mkdir(path+".lock", 0o700))
		}
	}
	acknowledge := func() {
		d.must(hardware.Store{Path: path}.Update(func(s verdict.State) verdict.State {
			return s.Acknowledge(verdict.All, "known", "alice", start)
		}))
	}
	lock(true)
	expect(t, check.Run(t.Context()), checks.True, "MemoryFailure", dataLost)
	lock(false)
	acknowledge()
	for range 2 {
		expect(t, check.Run(t.Context()), checks.False, verdict.ReasonHealthy, "acknowledged by alice")
	}
	expect(t, newCheck(t, d, path).Run(t.Context()), checks.False, verdict.ReasonHealthy, "acknowledged by alice")

	// What has come meanwhile counts.
	lock(true)
	d.stopFan(true)
	expect(t, check.Run(t.Context()), checks.True, "FanFailure")
	lock(false)
	acknowledge()
	expect(t, check.Run(t.Context()), checks.True, "FanFailure")
}

func TestWhatIsRememberedCountsWhereItCanOnlyBeRead(t *testing.T) {
	d := newDouble(t)
	path := filepath.Join(t.TempDir(), "state")
	d.loseData(true)
	expect(t, newCheck(t, d, path).Run(t.Context()), checks.True, "MemoryFailure", dataLost)
	d.loseData(false)
	// No lock, as on a file system that was mounted read-only after an error.
	d.must(os.Remove(path + ".lock"))
	d.must(os.Mkdir(path+".lock", 0o700))
	restarted := newCheck(t, d, path)
	for range 2 {
		expect(t, restarted.Run(t.Context()), checks.True, "MemoryFailure", dataLost)
	}
}

func TestTheMetricsSayWhatWasFound(t *testing.T) {
	d := newDouble(t)
	path := filepath.Join(t.TempDir(), "state")
	registry := prometheus.NewPedanticRegistry()
	metrics, err := hardware.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	check := newCheck(t, d, path, func(o *hardware.Options) { o.Metrics = metrics })
	d.loseData(true)
	expect(t, check.Run(t.Context()), checks.True, "MemoryFailure")
	d.must(hardware.Store{Path: path}.Update(func(s verdict.State) verdict.State {
		return s.Acknowledge(verdict.All, "known", "alice", start)
	}))
	d.stopFan(true)
	d.SetFault(bmc.Intrusion, true)
	d.Fail(bmc.GetSELInfo, uint8(ipmi.UnspecifiedError), 1)
	expect(t, check.Run(t.Context()), checks.True, "FanFailure")
	want := `
# HELP nodemend_hardware_bmc_errors_total Reads of the BMC that have failed, by what was read: sel, chassis or sensors.
# TYPE nodemend_hardware_bmc_errors_total counter
nodemend_hardware_bmc_errors_total{part="sel"} 1
# HELP nodemend_hardware_failures What is wrong with the hardware by the kind of component and by severity: failure, warning, acknowledged, or history.
# TYPE nodemend_hardware_failures gauge
nodemend_hardware_failures{kind="Chassis",severity="warning"} 1
nodemend_hardware_failures{kind="Fan",severity="failure"} 1
nodemend_hardware_failures{kind="Memory",severity="acknowledged"} 1
# HELP nodemend_hardware_sel_records Records in the System Event Log.
# TYPE nodemend_hardware_sel_records gauge
nodemend_hardware_sel_records 1
# HELP nodemend_hardware_sel_records_read_total Records of the System Event Log that were read.
# TYPE nodemend_hardware_sel_records_read_total counter
nodemend_hardware_sel_records_read_total 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// A named pipe stands for a file whose disk hangs: to open it takes until somebody writes.
func TestADiskThatHangsKeepsNoVerdictBack(t *testing.T) {
	d := newDouble(t)
	path := filepath.Join(t.TempDir(), "state")
	hang := func() {
		_ = os.Remove(path)
		d.must(unix.Mkfifo(path, 0o600))
		t.Cleanup(func() { // whoever waits goes on
			if answers, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
				_ = answers.Close()
			}
		})
	}
	hang()
	check := newCheck(t, d, path)
	expect(t, check.Run(t.Context()), checks.Unknown, hardware.ReasonForgotten, "does not answer within 2s")

	path = filepath.Join(t.TempDir(), "state")
	check = newCheck(t, d, path)
	before := check.Run(t.Context())
	hang()
	for range 2 {
		if got := check.Run(t.Context()); got != before {
			t.Errorf("got %+v, want as before: %+v", got, before)
		}
	}
}
