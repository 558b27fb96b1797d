package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/hardware"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/boot"
	"github.com/nodemend/nodemend/ipmi/verdict"
	"github.com/nodemend/nodemend/test/bmc"
)

// machine is a server with a BMC, and a detector's configuration that reads it by
// ipmitool.
type machine struct {
	*bmc.BMC
	t           *testing.T
	config      string
	stateFile   string
	missingFile string // a configuration that is not there
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	program, err := exec.LookPath("ipmitool")
	if err != nil {
		t.Skip("needs ipmitool: apt-get install ipmitool")
	}
	dir := t.TempDir()
	m := &machine{BMC: bmc.New(bmc.Config{Name: "node-bmc"}), t: t, stateFile: filepath.Join(dir, "hardware.json"), missingFile: filepath.Join(dir, "missing")}
	m.SetClock(1795240113) // 2026-11-21T05:48:33Z
	m.AddSensor(bmc.Sensor{
		Number: 1, Name: "FAN1", Type: 0x04, EventType: 1, Full: true, Units: [3]uint8{0, 18, 0}, Factors: bmc.Factors{M: 50}, Reading: 120,
		Thresholds: [6]uint8{12, 8, 4}, ThresholdMask: 7,
	})
	m.AddSensor(bmc.Sensor{Number: 3, Name: "PSU1 Status", Type: 0x08, States: 1})
	m.AddSensor(bmc.Sensor{Number: 4, Name: "DIMM_A1", Type: 0x0c, States: 1 << 6})

	socket := filepath.Join(dir, "bmc.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- m.ServeIPMItool(listener) }()
	t.Cleanup(func() {
		_ = listener.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	// In-band, but by a socket: "-I open" comes first.
	fake := m.write(filepath.Join(dir, "ipmitool"), fmt.Sprintf("#!/bin/sh\nshift 2\nIPMI_DUMMY_SOCK='%s' exec '%s' -I dummy \"$@\"\n", socket, program))
	m.config = m.write(filepath.Join(dir, "detector.yaml"), fmt.Sprintf(
		"socket: %s\nstateFile: ''\nchecks: {hardware: {smbios: '', source: ipmitool, ipmitool: {path: %s}, stateFile: %s}}\n",
		filepath.Join(dir, "detector.sock"), fake, m.stateFile))
	return m
}

func (m *machine) write(path, content string) string {
	m.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// run runs a command of nodemend and returns what it has printed, its exit status and
// its error.
func (m *machine) run(args ...string) (output string, status int, text string) {
	m.t.Helper()
	var out strings.Builder
	root := newRootCommand(newTestLog(m.t, io.Discard))
	root.SetArgs(append(slices.Clone(args), "--config="+m.config))
	root.SetOut(&out)
	err := root.ExecuteContext(m.t.Context())
	if err != nil {
		text = err.Error()
	}
	return out.String(), exitStatus(err), text
}

// expect runs a command and wants an exit status and parts of the output or the error.
func (m *machine) expect(status int, says []string, args ...string) string {
	m.t.Helper()
	output, got, text := m.run(args...)
	if got != status {
		m.t.Errorf("%q: exit status %d (%s), want %d", args, got, text, status)
	}
	for _, part := range says {
		if all := output + text; !strings.Contains(all, part) {
			m.t.Errorf("%q has printed\n%s\nwant %q in it", args, all, part)
		}
	}
	return output
}

// loseData logs an uncorrectable error of DIMM_A1, which no sensor shows.
func (m *machine) loseData() {
	m.Log(bmc.Event{Type: 0x0c, Number: 4, Data: [3]uint8{1, 0xff, 0xff}})
	m.Log(bmc.Event{Type: 0x0c, Number: 4, Data: [3]uint8{1, 0xff, 0xff}, Deasserted: true})
}

// see has the detector's check see it, and wants what "nodemend check hardware" says then: 0 for
// healthy, 1 for a failure.
func (m *machine) see(status int) {
	m.t.Helper()
	c, err := config.Load(m.config)
	if err != nil {
		m.t.Fatal(err)
	}
	bootID, err := boot.ID(boot.IDPath)
	if err != nil {
		m.t.Fatal(err)
	}
	check, err := hardware.Kind().New(&checks.Node{Config: c, BootID: bootID, Registerer: prometheus.NewRegistry(), Clock: clock.RealClock{}})
	if err != nil {
		m.t.Fatal(err)
	}
	if closes, ok := check.(interface{ Close() }); ok {
		defer closes.Close()
	}
	want := map[int]checks.Status{0: checks.False, 1: checks.True}[status]
	if got := check.Run(m.t.Context()); got.Status != want {
		m.t.Errorf("the detector says %+v, want %s", got, want)
	}
	m.expect(status, nil, "check", "hardware")
}

func (m *machine) state() string {
	m.t.Helper()
	content, err := os.ReadFile(m.stateFile)
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	return string(content)
}

func TestHardwareStatusShowsAServerInATable(t *testing.T) {
	m := newMachine(t)
	const healthy = `BMC      node-bmc firmware 2.14, read by ipmitool
POWER    on
VERDICT  healthy  no hardware failure: 3 of 3 sensors available, 0 SEL records

SENSOR       TYPE          READING   STATES
FAN1         Fan           6000 RPM  
PSU1 Status  Power Supply  -         Presence detected
DIMM_A1      Memory        -         Presence Detected

SEL  TIME  SENSOR  EVENT  DIRECTION  DATA
`
	if got := m.expect(0, nil, "hardware", "status"); got != healthy {
		t.Errorf("printed\n%s\nwant\n%s", got, healthy)
	}
	m.see(0)
	before := m.state()
	m.loseData()
	m.expect(1, []string{
		"VERDICT  failed  DIMM_A1: uncorrectable ECC (SEL 0x01, 2026-11-21T05:48Z)\n",
		"failure   DIMM_A1    uncorrectable ECC  2026-11-21T05:48:33Z  SEL 0x01  \n",
		"0x01  2026-11-21T05:48:33Z  Memory DIMM_A1  Uncorrectable ECC  Asserted    01ffff\n",
		"0x02  2026-11-21T05:48:33Z  Memory DIMM_A1  Uncorrectable ECC  Deasserted  01ffff\n",
		"the hardware has failed: DIMM_A1: uncorrectable ECC",
	}, "hardware", "status")
	if text := m.state(); text != before {
		t.Errorf("it has written to the state: %s", text)
	}
}

func TestHardwareStatusWritesJSON(t *testing.T) {
	m := newMachine(t)
	var report hardwareReport
	read := func(status int) map[string]any {
		t.Helper()
		output := m.expect(status, nil, "hardware", "status", "-o", "json")
		report = hardwareReport{}
		var fields map[string]any
		for _, into := range []any{&report, &fields} {
			if err := json.Unmarshal([]byte(output), into); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
		}
		return fields
	}
	fields := read(0)
	for _, list := range []string{"events", "sensors"} {
		if _, ok := fields[list].([]any); !ok {
			t.Errorf("%s is %v, no list", list, fields[list])
		}
	}
	if report.Verdict.Status != verdict.Healthy || report.BMC.Name != "node-bmc" || len(report.Sensors) != 3 {
		t.Errorf("%+v", report)
	}
	m.see(0)
	m.loseData()
	m.see(1)
	read(1)
	if v := report.Verdict; v.Status != verdict.Failed || len(v.Failures) != 1 || v.Failures[0].Component != "DIMM_A1" {
		t.Errorf("the verdict is %+v", v)
	}
	// All of the SEL, not only what is new to the detector.
	if e := report.Events; len(e) != 2 || e[0].StateName != "Uncorrectable ECC" || e[0].TypeName != "Memory" || !e[0].Asserted || e[1].Asserted {
		t.Errorf("the events are %+v", e)
	}
}

func TestHardwareStatusThatCanNotTellIsNeitherHealthyNorFailed(t *testing.T) {
	m := newMachine(t)
	m.expect(2, []string{`unknown output "xml"; accepted are table and json`}, "hardware", "status", "-o", "xml")
	m.expect(2, []string{"unknown flag: --fast"}, "hardware", "status", "--fast")
	m.expect(2, []string{`unknown command "stat"`}, "hardware", "stat")
	m.expect(2, []string{`unknown command "now"`}, "hardware", "status", "now")
	m.SetPower(false)
	m.expect(2, []string{"POWER    off", "no verdict: the chassis is powered off"}, "hardware", "status")
	m.SetPower(true)
	m.Fail(bmc.GetSensorReading, 0xff, -1)
	m.expect(2, []string{"VERDICT  cannotTell"}, "hardware", "status")
	m.expect(0, []string{"VERDICT   cannotTell: SensorsUnreadable\nWHY       the sensors can't be read: "}, "hardware", "describe")
	m.SetHook(nil)
	m.write(m.config, "checks: {hardware: {source: ipmitool, ipmitool: {path: /missing/ipmitool}}}\n")
	m.expect(2, []string{"install the package ipmitool"}, "hardware", "status")
	m.write(m.config, "checks: {hardware: {source: device, device: /missing/ipmi0}}\n")
	m.expect(2, []string{"/missing/ipmi0"}, "hardware", "status")
	m.config = m.missingFile
	m.expect(2, []string{m.missingFile}, "hardware", "status")
}

func TestAcknowledgingTakesEffectAndIsShown(t *testing.T) {
	m := newMachine(t)
	ack := func(status int, says string, args ...string) {
		t.Helper()
		m.expect(status, []string{says}, append([]string{"hardware", "ack", "--reason", "exchanged", "--by", "alice"}, args...)...)
	}
	ack(3, "nothing was acknowledged", "--all")
	m.see(0)
	m.loseData()
	m.expect(1, nil, "hardware", "status")
	ack(3, "wait for the detector's next look", "--all") // the detector has not looked
	m.see(1)
	m.TakeCounts()
	before := m.state()
	ack(0, "would acknowledge Memory DIMM_A1: uncorrectable ECC (SEL 0x01, 2026-11-21T05:48Z)\n", "--all", "--dry-run")
	if after := m.state(); after != before {
		t.Errorf("a dry run has written %s", after)
	}
	ack(0, "acknowledged Memory DIMM_A1: uncorrectable ECC (SEL 0x01, 2026-11-21T05:48Z)\nby alice; the detector looks again when it runs the next time", "--all")
	if counts := m.TakeCounts(); len(counts) > 0 {
		t.Errorf("the BMC was asked %v", counts)
	}
	m.see(0)
	m.expect(0, []string{
		"acknowledged by alice: DIMM_A1: uncorrectable ECC (SEL 0x01",
		"2026-11-21T05:48:33Z  SEL 0x01  by alice: exchanged\n",
	}, "hardware", "status")
	ack(3, "nothing was acknowledged", "--all") // it is already

	m.loseData() // 0x03 and 0x04
	m.see(1)
	ack(3, "nothing was acknowledged", "--until", "0x02")
	m.see(1)
	ack(0, "by alice", "--until", "3")
	m.see(0)
}

// shownID returns how the ticket says that a failure is acknowledged.
func (m *machine) shownID(of string) string {
	m.t.Helper()
	_, block, _ := strings.Cut(m.expect(0, nil, "hardware", "describe"), ". "+of+": ")
	_, id, ok := strings.Cut(block, "\nack       --seen ")
	if !ok {
		m.t.Fatalf("%s has no ID", of)
	}
	return strings.Fields(id)[0]
}

func TestOnlyTheFailuresThatAreMeantAreAcknowledged(t *testing.T) {
	m := newMachine(t)
	ack := func(status int, says string, args ...string) {
		t.Helper()
		m.expect(status, []string{says}, append([]string{"hardware", "ack", "--reason", "known", "--by", "alice"}, args...)...)
	}
	m.see(0)
	m.loseData()
	if err := m.Assert(3, 1, true); err != nil {
		t.Fatal(err)
	}
	m.see(1)
	for _, selection := range [][]string{
		{"--kind", "powersupply"}, {"--kind=Fan,PowerSupply"}, {"--component", "PSU1"}, {"--what", "failure detected"},
		{"--seen", m.shownID("PSU1")}, {"--until", "3", "--kind", "PowerSupply"},
	} {
		ack(0, "would acknowledge PowerSupply PSU1: failure detected", append(selection, "--dry-run")...)
		if out := m.expect(0, nil, append([]string{"hardware", "ack", "--reason=x", "--dry-run"}, selection...)...); strings.Contains(out, "DIMM") {
			t.Errorf("%q: %s", selection, out)
		}
	}
	for _, selection := range [][]string{
		{"--kind", "Fan"}, {"--component", "PSU"}, {"--what", "failure"}, {"--until", "2", "--kind", "PowerSupply"}, {"--kind=PowerSupply", "--component=DIMM_A1"},
	} {
		ack(3, "it knows of Memory DIMM_A1: uncorrectable ECC", selection...)
	}
	ack(0, "acknowledged PowerSupply PSU1: failure detected", "--kind", "PowerSupply")
	m.expect(0, []string{"VERDICT   failed: MemoryFailure"}, "hardware", "describe")
}

func TestWhatHasComeSinceTheTicketIsNotAcknowledged(t *testing.T) {
	m := newMachine(t)
	m.see(0)
	m.loseData()
	m.see(1)
	dimm := m.shownID("DIMM_A1")
	if err := m.Assert(3, 1, true); err != nil {
		t.Fatal(err)
	}
	m.see(1)
	if out := m.expect(0, nil, "hardware", "ack", "--reason=known", "--seen", dimm, "--dry-run"); strings.Contains(out, "PSU1") {
		t.Errorf("a failure that nobody has seen: %s", out)
	}
	m.loseData() // once more
	m.see(1)
	before := m.state()
	m.expect(3, []string{"the failure " + dimm + " is over, has come again", "it knows of Memory DIMM_A1: uncorrectable ECC"},
		"hardware", "ack", "--reason=known", "--seen", dimm+","+m.shownID("PSU1"))
	if after := m.state(); after != before {
		t.Errorf("it was acknowledged in part: %s", after)
	}
}

func TestAcknowledgingWithMistakesChangesNothing(t *testing.T) {
	m := newMachine(t)
	m.see(0)
	m.loseData()
	m.see(1)
	before := m.state()
	for want, args := range map[string][]string{
		"no reason given":           {"--all"},
		"no reason given; say":      {"--reason", "  ", "--all"},
		"say which failures are":    {"--reason", "x"},
		"--all means all failures":  {"--reason", "x", "--all", "--kind", "Memory"},
		"--until=0x is not":         {"--reason", "x", "--until", "0x"},
		"--until has no value":      {"--reason", "x", "--until="},
		`unknown command "now" for`: {"--reason", "x", "now"},
		"unknown flag: --most":      {"--reason", "x", "--most"},
	} {
		m.expect(2, []string{want}, append([]string{"hardware", "ack"}, args...)...)
	}
	if after := m.state(); after != before {
		t.Errorf("the state was %s, and is %s", before, after)
	}
	m.write(m.stateFile, "{")
	m.expect(1, []string{m.stateFile}, "hardware", "ack", "--reason", "x", "--all")
	if after := m.state(); after != "{" {
		t.Errorf("a damaged state has become %s", after)
	}
}

func TestRecordsAreNamedInHexadecimal(t *testing.T) {
	for text, want := range map[string]uint16{"0x1a": 0x1a, "1a": 0x1a, "0X1A": 0x1a, "10": 0x10, "fffe": 0xfffe} {
		if got, err := parseRecord(text); err != nil || got != want {
			t.Errorf("parseRecord(%q) = %#x, %v, want %#x", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "0x0", "0xffff", "0x10000", "-1", "+1", "1h", "0x", "0x0x1", "1 2"} {
		if got, err := parseRecord(text); err == nil || !strings.Contains(err.Error(), "such as 0x1a") {
			t.Errorf("parseRecord(%q) = %#x, %v", text, got, err)
		}
	}
}

func TestHardwareRulesPrintsWhatTheConfigurationAccepts(t *testing.T) {
	m := newMachine(t)
	printed := m.expect(0, []string{"- name: memory-uncorrectable-ecc\n"}, "hardware", "rules")
	var rules verdict.Rules
	if err := yaml.Unmarshal([]byte(printed), &rules); err != nil {
		t.Fatal(err)
	}
	for i := range rules {
		rules[i].Name += "-of-mine"
	}
	if mistakes := rules.Validate(); len(rules) != len(verdict.DefaultRules()) || len(mistakes) > 0 {
		t.Errorf("%d rules, %v", len(rules), mistakes)
	}
	m.expect(2, []string{`unknown command "all"`}, "hardware", "rules", "all")
}
