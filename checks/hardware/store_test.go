package hardware_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nodemend/nodemend/checks/hardware"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// Each of these many writers adds this many failures.
const (
	processes  = 3
	goroutines = 4
	additions  = 10
)

// lost returns the verdict and the state after one more module has lost data.
func lost(state verdict.State, module uint8) (verdict.Verdict, verdict.State) {
	e := ipmi.Event{
		ID: uint16(module) + 1, RecordType: 2, Time: start, Timestamp: uint32(start.Unix()),
		SensorType: 0x0c, SensorNumber: module, EventType: ipmi.SensorSpecific, Offset: 1, Asserted: true,
	}
	return verdict.Judge(nil, state, verdict.Input{
		Now: start, BootID: "boot", Chassis: ipmi.Chassis{PowerOn: true},
		Log: ipmi.EventLog{Events: []ipmi.Event{e}, Total: 1},
	})
}

// addFailures adds those of one process.
func addFailures(store hardware.Store, process int) error {
	var all sync.WaitGroup
	errs := make(chan error, goroutines*additions)
	for g := range goroutines {
		all.Go(func() {
			for i := range additions {
				module := uint8((process*goroutines+g)*additions + i)
				errs <- store.Update(func(s verdict.State) verdict.State { _, s = lost(s, module); return s })
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Variables of the environment by which a test makes another process of itself.
const (
	stateVariable   = "NODEMEND_TEST_HARDWARE_STATE"
	processVariable = "NODEMEND_TEST_HARDWARE_PROCESS"
)

func TestWhatSeveralProcessesWriteIsAllKept(t *testing.T) {
	if path := os.Getenv(stateVariable); path != "" {
		process, err := strconv.Atoi(os.Getenv(processVariable))
		if err == nil {
			err = addFailures(hardware.Store{Path: path}, process)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	store := hardware.Store{Path: filepath.Join(t.TempDir(), "new", "state")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for process := range processes {
		all.Go(func() {
			c := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$")
			c.Env = append(os.Environ(), stateVariable+"="+store.Path, fmt.Sprintf("%s=%d", processVariable, process))
			if output, err := c.CombinedOutput(); err != nil {
				t.Errorf("process %d: %v: %s", process, err, output)
			}
		})
	}
	all.Wait()
	state, err := store.Load()
	if err != nil {
		t.Fatal(err)
	}
	const want = processes * goroutines * additions
	if got, _ := lost(state, 0); len(got.Failures) != want {
		t.Errorf("%d failures are remembered, want %d", len(got.Failures), want)
	}
	files, err := os.ReadDir(filepath.Dir(store.Path))
	if err != nil || len(files) != 2 {
		t.Errorf("beside the file and its lock there is something: %v, %v", files, err)
	}
}

func TestAnUpdateDoesNotReplaceWhatItCanNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	const damaged = `{"version":`
	if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	err := hardware.Store{Path: path}.Update(func(s verdict.State) verdict.State { return s })
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != damaged {
		t.Errorf("the file is %q, %v", got, err)
	}
}
