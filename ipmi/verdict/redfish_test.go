package verdict_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/internal/power"
	service "github.com/nodemend/nodemend/internal/power/redfish"
	"github.com/nodemend/nodemend/ipmi/redfish"
	"github.com/nodemend/nodemend/ipmi/verdict"
	double "github.com/nodemend/nodemend/test/redfish"
)

// bmcOfRedfish is a Redfish service, and the memory of who watches it. Every look is one of a
// detector that has just started.
type bmcOfRedfish struct {
	t       testing.TB
	service *double.Service
	options redfish.Options
	now     time.Time
	boot    string
	saved   []byte
	limit   time.Duration
	vendor  vendor
	entries int
}

// vendor has the paths of a mock-up, and what the parts are called in it.
type vendor struct {
	mockup                        string
	system, power, thermal, log   string
	dimm, other, processor, drive string // paths
	dimmName, processorName       string
	driveName, supply, supply2    string
	fan                           string
}

func dell() vendor {
	const system, chassis = "/redfish/v1/Systems/System.Embedded.1", "/redfish/v1/Chassis/System.Embedded.1"
	return vendor{
		mockup: "dell", system: system, power: chassis + "/Power", thermal: chassis + "/Thermal",
		log:  "/redfish/v1/Managers/iDRAC.Embedded.1/LogServices/Sel/Entries",
		dimm: system + "/Memory/DIMM.Socket.A1", other: system + "/Memory/DIMM.Socket.B1", processor: system + "/Processors/CPU.Socket.1",
		drive:    system + "/Storage/RAID.Integrated.1-1/Drives/Disk.Bay.0:Enclosure.Internal.0-1:RAID.Integrated.1-1",
		dimmName: "DIMM A1", processorName: "CPU.Socket.1", driveName: "Physical Disk 0:1:0", supply: "PS1", supply2: "PS2", fan: "System Board Fan1",
	}
}

func hpe() vendor {
	const system, chassis = "/redfish/v1/Systems/1", "/redfish/v1/Chassis/1"
	return vendor{
		mockup: "hpe", system: system, power: chassis + "/Power", thermal: chassis + "/Thermal", log: system + "/LogServices/IML/Entries",
		dimm: system + "/Memory/proc1dimm1", other: system + "/Memory/proc1dimm3", processor: system + "/Processors/1",
		drive: system + "/Storage/DE00A000/Drives/0", dimmName: "PROC 1 DIMM 1", processorName: "Proc 1",
		driveName: "Slot=0:Port=1I:Box=1:Bay=1", supply: "Power supply 0", supply2: "Power supply 1", fan: "Fan 1",
	}
}

func newRedfish(t testing.TB, v vendor) *bmcOfRedfish {
	t.Helper()
	machine, err := power.ParseUUID(double.Machine)
	if err != nil {
		t.Fatal(err)
	}
	s := double.Start(t)
	s.Mockup(v.mockup)
	return &bmcOfRedfish{
		t: t, service: s, vendor: v, now: start, boot: "boot 1", limit: time.Minute, entries: 1,
		options: redfish.Options{
			Machine: machine,
			Service: service.Options{URL: s.URL(), User: double.User, Password: power.Secret{File: s.PasswordFile()}, TLS: service.TLS{CAFile: s.CAFile()}},
		},
	}
}

// look reads the service as the check does, and judges it.
func (b *bmcOfRedfish) look() verdict.Verdict {
	b.t.Helper()
	var state verdict.State
	if b.saved != nil {
		if err := json.Unmarshal(b.saved, &state); err != nil {
			b.t.Fatal(err)
		}
	}
	source, err := redfish.New(b.options)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), b.limit)
	defer cancel()
	in := verdict.Input{Now: b.now, BootID: b.boot, Kind: source.Kind()}
	if !state.KnowsBMC() {
		if id, err := source.DeviceID(ctx); err == nil {
			in.BMC = &id
		}
	}
	in.Log, in.LogError = source.Events(ctx, state.Cursor())
	in.Chassis, in.ChassisError = source.Chassis(ctx)
	in.Sensors, in.SensorsError = source.Sensors(ctx)
	if err := source.Close(); err != nil {
		b.t.Error(err)
	}
	if open, _ := b.service.Sessions(); open > 0 {
		b.t.Errorf("%d sessions are left open", open)
	}
	v, next := verdict.Judge(nil, state, in)
	b.saved, err = json.Marshal(next)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// redfishScenario is a scenario of a service, see scenario.
type redfishScenario struct {
	name, why string
	vendor    vendor
	moments   []redfishMoment
}

type redfishMoment struct {
	does func(*bmcOfRedfish)
	want string
	says string // in the message, too
}

func playRedfish(t *testing.T, scenarios []redfishScenario) {
	t.Helper()
	if listed != nil {
		for _, s := range scenarios {
			*listed = append(*listed, scenario{name: s.name + " (" + s.vendor.mockup + ")", why: s.why})
		}
		return
	}
	for _, s := range scenarios {
		t.Run(s.name+", "+s.vendor.mockup, func(t *testing.T) {
			b := newRedfish(t, s.vendor)
			for i, m := range s.moments {
				if m.does != nil {
					m.does(b)
				}
				for range 2 {
					v := b.look()
					if got := outline(v); got != m.want {
						t.Errorf("moment %d, as %s:\ngot  %.400s\nwant %s\n%s", i+1, s.why, got, m.want, v.Message)
					}
					if !strings.Contains(v.Message, m.says) {
						t.Errorf("moment %d: the message is %q, want %q in it", i+1, v.Message, m.says)
					}
				}
			}
		})
	}
}

func (b *bmcOfRedfish) health(path, value string) { b.service.Change(path, "Status.Health", value) }

func (b *bmcOfRedfish) supply(i int, property string, value any) {
	b.service.Change(b.vendor.power, fmt.Sprintf("PowerSupplies.%d.%s", i, property), value)
}

// add logs an entry, now or at another time.
func (b *bmcOfRedfish) add(at time.Time, properties map[string]any) {
	b.entries++
	entry := map[string]any{"@odata.id": fmt.Sprintf("%s/%d", b.vendor.log, b.entries), "Id": fmt.Sprint(b.entries), "Created": at.Format(time.RFC3339), "EntryType": "SEL"}
	for name, value := range properties {
		entry[name] = value
	}
	b.service.Members(b.vendor.log, func(all []any) []any { return append([]any{entry}, all...) })
}

func dataLost() map[string]any {
	return map[string]any{"SensorType": "Memory", "EntryCode": "Assert", "Severity": "Critical", "Message": "Multi-bit memory errors detected on a memory device at location(s) DIMM_A1.", "MessageId": "MEM0001"}
}

func (b *bmcOfRedfish) acknowledge() {
	var state verdict.State
	if err := json.Unmarshal(b.saved, &state); err != nil {
		b.t.Fatal(err)
	}
	saved, err := json.Marshal(state.Acknowledge(verdict.All, "known", "alice", b.now))
	if err != nil {
		b.t.Fatal(err)
	}
	b.saved = saved
}

func (b *bmcOfRedfish) reboots() { b.now, b.boot = b.now.Add(5*time.Minute), b.boot+"'" }

// refuses makes the service answer a path with a status.
func (b *bmcOfRedfish) refuses(path string, status int) {
	b.service.Instead(func(w http.ResponseWriter, r *http.Request) {
		if strings.TrimSuffix(r.URL.Path, "/") == path {
			w.WriteHeader(status)
			return
		}
		b.service.Pass(w, r)
	})
}

// Redfish tells the health of parts, which are judged by the same rules.
func TestPartsAreJudgedByRedfish(t *testing.T) {
	well := redfishMoment{nil, healthy, "no hardware failure"}
	var scenarios []redfishScenario
	for _, v := range []vendor{dell(), hpe()} {
		lost := "failed | MemoryFailure | " + v.dimmName + " health Critical"
		scenarios = append(scenarios, []redfishScenario{
			{"all is well", "nothing is to be done", v, []redfishMoment{well}},
			{"a module is critical", "it loses data", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.health(v.dimm, "Critical") }, lost, v.dimmName},
			}},
			{"a module is critical on the first day", "what fails now counts", v, []redfishMoment{
				{func(b *bmcOfRedfish) { b.health(v.dimm, "Critical") }, lost, ""},
			}},
			{"a critical module is called well after a boot", "a DIMM does not mend itself: the BMC has forgotten", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.health(v.dimm, "Critical") }, lost, ""},
				{func(b *bmcOfRedfish) { b.reboots(); b.health(v.dimm, "OK") }, lost, ""},
			}},
			{"a critical module is exchanged", "another serial number, and well", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.health(v.dimm, "Critical") }, lost, ""},
				{func(b *bmcOfRedfish) { b.reboots(); b.service.Change(v.dimm, "SerialNumber", "NEW4711") }, lost, ""},
				{func(b *bmcOfRedfish) { b.health(v.dimm, "OK") }, lost, ""}, // it was critical with that number
				{func(b *bmcOfRedfish) { b.service.Change(v.dimm, "SerialNumber", "NEW4712") }, healthy, ""},
			}},
			{"a critical module goes to another slot", "it is still in", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.health(v.dimm, "Critical") }, lost, ""},
				{func(b *bmcOfRedfish) {
					b.reboots()
					b.health(v.dimm, "OK")
					old := map[string]string{"dell": "0351A4B0", "hpe": "26312341"}[v.mockup]
					b.service.Change(v.dimm, "SerialNumber", "NEW4711")
					b.service.Change(v.other, "SerialNumber", old)
				}, lost, ""},
			}},
			{"a critical module is acknowledged", "a person knows", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.health(v.dimm, "Critical") }, lost, ""},
				{func(b *bmcOfRedfish) { b.acknowledge() }, healthy + " | (" + v.dimmName + " health Critical)", ""},
				{func(b *bmcOfRedfish) { b.health(v.dimm, "OK") }, healthy + " | (" + v.dimmName + " health Critical)", ""},
			}},
			{"a critical module, and the log is cleared", "that repairs nothing", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.health(v.dimm, "Critical") }, lost, ""},
				{func(b *bmcOfRedfish) {
					b.health(v.dimm, "OK")
					b.now = b.now.Add(time.Minute)
					b.service.Members(v.log, func([]any) []any { return []any{} })
					b.entries = 0
					b.add(b.now, map[string]any{"Severity": "OK", "Message": "The SEL was cleared."})
				}, lost, ""},
			}},
			{"a processor is critical", "its results can't be trusted", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.health(v.processor, "Critical") }, "failed | ProcessorFailure | " + v.processorName + " health Critical", ""},
				{func(b *bmcOfRedfish) { b.health(v.processor, "OK") }, "failed | ProcessorFailure | " + v.processorName + " health Critical", ""},
			}},
			{"a feed is lost beside a good supply", "work on it must not empty a rack", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.supply(0, "Status.Health", "Critical"); b.supply(0, "LineInputVoltage", 0) },
					healthy + " | warning " + v.supply + " failure detected | warning " + v.supply + " power supply AC lost", "has no input"},
				{func(b *bmcOfRedfish) { b.supply(0, "Status.Health", "OK"); b.supply(0, "LineInputVoltage", 230) }, healthy, ""},
			}},
			{"a feed is lost, and the other supply fails", "nothing carries it any more", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) {
					b.supply(0, "Status.Health", "Critical")
					b.supply(0, "LineInputVoltage", 0)
					b.supply(1, "Status.Health", "Critical")
				}, "failed | PowerSupplyFailure | " + v.supply + " failure detected | " + v.supply2 + " failure detected | warning " + v.supply + " power supply AC lost", ""},
			}},
			{"a supply has failed", "replace it before the next one fails", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.supply(1, "Status.Health", "Critical") }, "failed | PowerSupplyFailure | " + v.supply2 + " failure detected", ""},
				{func(b *bmcOfRedfish) { b.supply(1, "Status.Health", "OK") }, healthy, ""},
			}},
			{"a fan has failed", "the others make up for it only for a while", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.service.Change(v.thermal, "Fans.0.Status.Health", "Critical") }, "failed | FanFailure | " + v.fan + " health Critical", ""},
				{func(b *bmcOfRedfish) { b.service.Change(v.thermal, "Fans.0.Status.Health", "OK") }, healthy, ""},
			}},
			{"a drive will fail", "data of pods is lost unless it is moved before", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) {
					b.service.Change(v.drive, "FailurePredicted", true)
					b.health(v.drive, "Warning")
				},
					"failed | DriveFailure | " + v.driveName + " predictive failure | warning " + v.driveName + " health Warning", ""},
				{func(b *bmcOfRedfish) { b.service.Change(v.drive, "FailurePredicted", false); b.health(v.drive, "OK") }, healthy, ""},
			}},
			{"only the whole is critical", "it does not tell the part", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.service.Change(v.system, "Status.HealthRollup", "Critical") }, healthy + " | warning System health Critical", ""},
			}},
		}...)
	}
	playRedfish(t, scenarios)
}

// What Redfish does not tell, or not as the schema has it, is neither healthy nor failed.
func TestWhatRedfishDoesNotTellIsNotKnown(t *testing.T) {
	v := dell()
	well := redfishMoment{nil, healthy, ""}
	gone := "cannotTell | ComponentMissing"
	for _, status := range []int{404, 500} {
		playRedfish(t, []redfishScenario{
			{fmt.Sprintf("a module answers HTTP %d from the first day", status), "it costs that module only, and is said", hpe(), []redfishMoment{
				{func(b *bmcOfRedfish) { b.refuses(hpe().dimm, status) }, healthy, fmt.Sprintf("the service answers HTTP %d", status)},
			}},
			{fmt.Sprintf("a module answers HTTP %d later", status), "it was well: now nobody knows", hpe(), []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.refuses(hpe().dimm, status) }, gone, fmt.Sprintf("HTTP %d", status)},
				{func(b *bmcOfRedfish) { b.supply(0, "Status.Health", "Critical") }, "failed | PowerSupplyFailure | Power supply 0 failure detected", ""},
				{func(b *bmcOfRedfish) { b.service.Instead(nil); b.supply(0, "Status.Health", "OK") }, healthy, ""},
			}},
			{fmt.Sprintf("all modules answer HTTP %d", status), "the rest is read, and no health is made of it", hpe(), []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.refuses(hpe().system+"/Memory", status) },
					map[int]string{404: gone, 500: "cannotTell | SensorsUnreadable"}[status], "Memory"},
			}},
		})
	}
	for _, status := range []int{404, 501} {
		for _, list := range []string{v.system + "/Storage", v.system + "/Memory", v.thermal, v.power} {
			playRedfish(t, []redfishScenario{
				{fmt.Sprintf("%s answers HTTP %d from the first day", list[len("/redfish/v1/"):], status), "the service leads to what it does not have: that is said, and costs nothing else", v, []redfishMoment{
					{func(b *bmcOfRedfish) { b.refuses(list, status) }, healthy, fmt.Sprintf("%s: the service answers HTTP %d", list[len("/redfish/v1/"):], status)},
					{func(b *bmcOfRedfish) { b.health(v.processor, "Critical") }, "failed | ProcessorFailure | " + v.processorName + " health Critical", ""},
				}},
				{fmt.Sprintf("%s answers HTTP %d later", list[len("/redfish/v1/"):], status), "it was there: now nobody knows", v, []redfishMoment{
					well, {func(b *bmcOfRedfish) { b.refuses(list, status) }, gone, ""}, {nil, gone, ""},
					{func(b *bmcOfRedfish) { b.service.Instead(nil) }, healthy, ""},
				}},
			})
		}
	}
	for _, status := range []int{404, 500} {
		const failed = "failed | PowerSupplyFailure | PS2 "
		unknown := map[int]string{404: gone, 500: "cannotTell | SensorsUnreadable"}[status] + " | PS2 "
		refuses, answers := func(b *bmcOfRedfish) { b.refuses(v.power, status) }, func(b *bmcOfRedfish) { b.service.Instead(nil) }
		playRedfish(t, []redfishScenario{
			{fmt.Sprintf("the list of a failed supply answers HTTP %d", status), "nobody has seen since whether it still fails", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.supply(1, "Status.Health", "Critical") }, failed + "failure detected", ""},
				{refuses, unknown + "failure detected?", "known before: PS2: failure detected"},
				{answers, failed + "failure detected", ""},
				{func(b *bmcOfRedfish) { b.supply(1, "Status.Health", "OK") }, healthy, ""},
			}},
			{fmt.Sprintf("the list of an absent supply answers HTTP %d", status), "it may be back", v, []redfishMoment{
				well, {func(b *bmcOfRedfish) { b.supply(1, "Status.State", "Absent") }, gone, ""},
				{func(b *bmcOfRedfish) { b.now = b.now.Add(3 * time.Minute) }, failed + "absent", ""},
				{refuses, unknown + "absent?", ""},
				{answers, failed + "absent", ""},
			}},
		})
	}
	// chassis gives the system that many, each with a fan of its own.
	chassis := func(b *bmcOfRedfish, count int) {
		links := []any{}
		for i := range count {
			path := fmt.Sprintf("/redfish/v1/Chassis/GPU_%d", i)
			b.service.Put(path, map[string]any{"@odata.id": path, "Thermal": map[string]any{"@odata.id": path + "/Thermal"}})
			b.service.Put(path+"/Thermal", map[string]any{"Fans": []any{
				map[string]any{"Name": fmt.Sprintf("Fan %d", i), "Status": map[string]any{"State": "Enabled", "Health": "OK"}},
			}})
			links = append(links, map[string]any{"@odata.id": path})
		}
		b.service.Change(v.system, "Links.Chassis", links)
	}
	playRedfish(t, []redfishScenario{
		{"a server with nine chassis", "each GPU and each tray may be one", v, []redfishMoment{
			{func(b *bmcOfRedfish) { chassis(b, 9) }, healthy, ""},
			{func(b *bmcOfRedfish) {
				b.service.Change("/redfish/v1/Chassis/GPU_8/Thermal", "Fans.0.Status.Health", "Critical")
			}, "failed | FanFailure | Fan 8 health Critical", ""},
		}},
		{"a server with more chassis than are read", "no health is made of what is not read", v, []redfishMoment{
			{func(b *bmcOfRedfish) { chassis(b, 32) }, healthy, ""},
			{func(b *bmcOfRedfish) { chassis(b, 33) }, "cannotTell | SensorsUnreadable", "more than 32"},
		}},
	})
	long := func(b *bmcOfRedfish) {
		members := []any{}
		for i := range 1000 {
			members = append(members, map[string]any{"@odata.id": fmt.Sprintf("%s/Memory/%d", v.system, i), "Name": fmt.Sprint("DIMM ", i), "Status": map[string]any{"Health": "OK"}})
		}
		b.service.Members(v.system+"/Memory", func([]any) []any { return members })
	}
	playRedfish(t, []redfishScenario{
		{"a module has no health", "it costs that module only, and is said", v, []redfishMoment{
			{func(b *bmcOfRedfish) { b.service.Change(v.dimm, "Status", map[string]any{"State": "Enabled"}) }, healthy, "DIMM A1: it does not tell its health"},
		}},
		{"a module's health becomes null", "it was well: now nobody knows", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.service.Change(v.dimm, "Status.Health", nil) }, gone, "DIMM A1"},
		}},
		{"a critical module's health becomes null", "it is as it was", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.health(v.dimm, "Critical") }, "failed | MemoryFailure | DIMM A1 health Critical", ""},
			{func(b *bmcOfRedfish) { b.service.Change(v.dimm, "Status.Health", nil) }, "failed | MemoryFailure | DIMM A1 health Critical", ""},
		}},
		{"a failed supply's health becomes null", "nobody sees it any more", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.supply(1, "Status.Health", "Critical") }, "failed | PowerSupplyFailure | PS2 failure detected", ""},
			{func(b *bmcOfRedfish) { b.supply(1, "Status.Health", nil) }, "cannotTell | ComponentMissing | PS2 failure detected?", ""},
		}},
		{"no part has a health", "nothing is known", v, []redfishMoment{
			{func(b *bmcOfRedfish) {
				for _, path := range []string{v.dimm, v.other, v.system + "/Memory/DIMM.Socket.A2", v.processor, v.system + "/Processors/CPU.Socket.2", v.drive} {
					b.service.Change(path, "Status.Health", nil)
				}
				b.service.Put(v.power, map[string]any{})
				b.service.Put(v.thermal, map[string]any{})
			}, "cannotTell | SensorsUnreadable", "do not tell their health"},
		}},
		{"a health of its own", "it is none that the schema has", v, []redfishMoment{
			{func(b *bmcOfRedfish) { b.health(v.dimm, "Splendid") }, healthy, `its health is "Splendid"`},
		}},
		{"wrong types", "they cost that module only", v, []redfishMoment{
			{func(b *bmcOfRedfish) { b.service.Change(v.dimm, "Status.Health", 7) }, healthy, "not as the schema has it"},
			{func(b *bmcOfRedfish) { b.service.Change(v.dimm, "Status", []any{"OK"}) }, healthy, "not as the schema has it"},
			{func(b *bmcOfRedfish) {
				b.service.Change(v.dimm, "Status", map[string]any{"Health": "OK"})
				b.service.Change(v.dimm, "SerialNumber", 4711)
				b.service.Change(v.dimm, "Manufacturer", map[string]any{})
			}, healthy, ""},
		}},
		{"the list of modules is none", "no health is made of it", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.service.Put(v.system+"/Memory", map[string]any{"Members": "none"}) }, "cannotTell | SensorsUnreadable", "Memory"},
		}},
		{"a list of 1,000 members", "not all of it is read", v, []redfishMoment{
			well, {long, "cannotTell | SensorsUnreadable", "more than 256 members"},
		}},
		{"a list shrinks", "what was there is not read any more", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.service.Members(v.system+"/Memory", func(all []any) []any { return all[1:] }) }, gone, "DIMM A1"},
		}},
		{"a module is called absent", "it was there", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.service.Change(v.dimm, "Status", map[string]any{"State": "Absent"}) }, "failed | MemoryFailure | DIMM A1 absent", ""},
		}},
		{"the system is off", "nothing is known of a server that is off", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.service.Change(v.system, "PowerState", "Off") }, "cannotTell | ChassisPoweredOff", ""},
		}},
	})
}

// A service that is another one, or does not answer, tells nothing of this machine.
func TestAServiceThatIsNotTheOneTellsNothing(t *testing.T) {
	v := dell()
	well := redfishMoment{nil, healthy, ""}
	const unreachable = "cannotTell | BMCUnreachable"
	playRedfish(t, []redfishScenario{
		{"it is another machine's", "its parts are not this server's", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) {
				b.service.Change(v.system, "UUID", "4c4c4544-0044-4a10-8031-c4c04f4b4832")
				b.health(v.dimm, "Critical")
			}, unreachable, "4c4c4544-0044-4a10-8031-c4c04f4b4832"},
		}},
		{"it has no UUID", "it may be another machine's", v, []redfishMoment{
			{func(b *bmcOfRedfish) { b.service.Change(v.system, "UUID", nil) }, unreachable, "UUID"},
		}},
		{"it has no UUID, and its address is trusted", "a person is sure", v, []redfishMoment{
			{func(b *bmcOfRedfish) {
				b.service.Change(v.system, "UUID", nil)
				b.options.Machine = power.UUID{}
			}, healthy, ""},
		}},
		{"its certificate is of nobody who is trusted", "it may be anybody", v, []redfishMoment{
			{func(b *bmcOfRedfish) { b.options.Service.TLS = service.TLS{} }, unreachable, "the certificate of the service is not accepted"},
		}},
		{"its certificate has another fingerprint", "it may be anybody", v, []redfishMoment{
			{func(b *bmcOfRedfish) { b.options.Service.TLS = service.TLS{Fingerprint: strings.Repeat("00", 32)} }, unreachable, "its fingerprint is"},
		}},
		{"its password is another one", "people have to see to that", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.options.Service.User = "nobody" }, unreachable, "does not accept user and password"},
		}},
		{"it hangs", "a slow BMC is no failure", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) {
				b.limit = 300 * time.Millisecond
				b.service.Instead(func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					<-r.Context().Done()
					panic(http.ErrAbortHandler) //nolint:forbidigo // else it answers, which may still arrive
				})
			}, unreachable, "no answer"},
			{func(b *bmcOfRedfish) { b.limit = time.Minute; b.service.Instead(nil) }, healthy, ""},
		}},
		{"it loses its sessions in the middle", "the detector logs in once more", v, []redfishMoment{
			{func(b *bmcOfRedfish) {
				b.service.Instead(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == v.system+"/Processors" && r.Header.Get("X-Auth-Token") == "token-1" {
						b.service.Restart()
					}
					b.service.Pass(w, r)
				})
			}, healthy, ""},
		}},
		{"it loses all its sessions", "it is not asked for ever", v, []redfishMoment{
			{func(b *bmcOfRedfish) {
				b.service.Instead(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodGet {
						r.Header.Del("X-Auth-Token")
					}
					b.service.Pass(w, r)
				})
			}, unreachable, "401"},
		}},
		{"it restarts in the middle", "what was read counts, the rest is not known", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) {
				b.supply(0, "Status.Health", "Critical")
				b.service.Instead(func(w http.ResponseWriter, r *http.Request) {
					if strings.Contains(r.URL.Path, "/Storage") {
						panic(http.ErrAbortHandler) //nolint:forbidigo // which ends the connection
					}
					b.service.Pass(w, r)
				})
			}, "failed | PowerSupplyFailure | PS1 failure detected", "the sensors can't be read"},
			{func(b *bmcOfRedfish) { b.supply(0, "Status.Health", "OK") }, "cannotTell | SensorsUnreadable", ""},
			{func(b *bmcOfRedfish) { b.service.Instead(nil) }, healthy, ""},
		}},
	})
}

// The log of Redfish tells what has happened to parts that it names.
func TestTheLogOfRedfishIsRead(t *testing.T) {
	v := dell()
	well := redfishMoment{nil, healthy, ""}
	const what = "Memory logged as Critical: Multi-bit memory errors detected on a memory device at location(s) DIMM_A1."
	const lost = "failed | MemoryFailure | " + what
	of := func(path string) map[string]any {
		return map[string]any{"Severity": "Critical", "Message": "It has failed.", "Links": map[string]any{"OriginOfCondition": map[string]any{"@odata.id": path}}}
	}
	playRedfish(t, []redfishScenario{
		{"data was lost a month before the first look", "the first day takes no server out for history", v, []redfishMoment{
			{func(b *bmcOfRedfish) { b.add(b.now.AddDate(0, -1, 0), dataLost()) }, healthy + " | [" + what + "]", ""},
		}},
		{"data was lost an hour before the first look", "that is of today", v, []redfishMoment{
			{func(b *bmcOfRedfish) { b.add(b.now.Add(-time.Hour), dataLost()) }, lost, ""},
		}},
		{"data is lost", "the log says so", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.now = b.now.Add(time.Minute); b.add(b.now, dataLost()) }, lost, ""},
			{func(b *bmcOfRedfish) { b.reboots() }, lost, ""},
		}},
		{"the log is cleared, and says so", "whoever cleared it has seen to it", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.now = b.now.Add(time.Minute); b.add(b.now, dataLost()) }, lost, ""},
			{func(b *bmcOfRedfish) {
				b.now = b.now.Add(time.Minute)
				b.service.Members(v.log, func([]any) []any { return []any{} })
				b.entries = 0
				b.add(b.now, map[string]any{"Severity": "OK", "Message": "Log cleared."})
			}, healthy, ""},
		}},
		{"the log is empty, and nothing says that it was cleared", "a BMC that restarts shows such", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.now = b.now.Add(time.Minute); b.add(b.now, dataLost()) }, lost, ""},
			{func(b *bmcOfRedfish) { b.service.Members(v.log, func([]any) []any { return []any{} }) }, lost, "does not say that it was cleared"},
		}},
		{"the log numbers its entries anew", "what was there before is not new", v, []redfishMoment{
			{func(b *bmcOfRedfish) {
				b.add(b.now.AddDate(0, -1, 0), dataLost())
				b.add(b.now.Add(-time.Minute), map[string]any{"Severity": "OK"})
			}, healthy + " | [" + what + "]", ""},
			{func(b *bmcOfRedfish) {
				b.service.Members(v.log, func(all []any) []any {
					for i, e := range all {
						e.(map[string]any)["Id"] = fmt.Sprint(i + 50)
					}
					return all
				})
			}, healthy + " | [" + what + "]", ""},
		}},
		{"the log numbers its entries anew, and has lost the newest", "what is older than a day was there before", v, []redfishMoment{
			{func(b *bmcOfRedfish) {
				b.add(b.now.AddDate(0, -1, 0), dataLost())
				b.add(b.now.Add(-time.Minute), map[string]any{"Severity": "OK"})
			}, healthy + " | [" + what + "]", ""},
			{func(b *bmcOfRedfish) {
				b.now = b.now.Add(time.Minute)
				b.service.Members(v.log, func(all []any) []any {
					for i, e := range all {
						e.(map[string]any)["Id"] = fmt.Sprint(60 - i)
					}
					return all[1:]
				})
				b.entries = 60
				b.add(b.now, map[string]any{"Severity": "OK"})
			}, healthy + " | [" + what + "]", ""},
		}},
		{"an entry names a module that is called well", "what a part has lost is lost", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.now = b.now.Add(time.Minute); b.add(b.now, of(v.dimm)) }, "failed | MemoryFailure | DIMM A1 health Critical", ""},
		}},
		{"an entry names a drive that is called well", "what the drive says now is believed", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.now = b.now.Add(time.Minute); b.add(b.now, of(v.drive)) }, healthy, ""},
		}},
		{"an entry of a supply names no part", "the supply itself says what is so", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) {
				b.now = b.now.Add(time.Minute)
				b.add(b.now, map[string]any{"SensorType": "Power Supply / Converter", "Severity": "Critical", "Message": "The power input for power supply 1 is lost."})
			}, healthy, ""},
		}},
		{"the log can't be read", "it may tell of something", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.refuses(v.log, 500) }, "cannotTell | EventLogUnreadable", "HTTP 500"},
		}},
		{"entries of the wrong type", "it may tell of something", v, []redfishMoment{
			well, {func(b *bmcOfRedfish) { b.add(b.now, map[string]any{"Resolved": "no"}) }, "cannotTell | EventLogUnreadable", "an entry of the log"},
		}},
		{"IPMI was the source before", "another source numbers all anew: nothing is missing, and history stays history", v, []redfishMoment{
			{func(b *bmcOfRedfish) {
				before := newBMC(b.t)
				before.log(uncorrectable())
				before.in.Now = b.now
				before.judge()
				b.saved = before.saved
				b.add(b.now.AddDate(0, -1, 0), dataLost())
			}, "failed | MemoryFailure | DIMM_A1 uncorrectable ECC | [" + what + "]", ""},
			{func(b *bmcOfRedfish) { b.acknowledge() }, healthy + " | (DIMM_A1 uncorrectable ECC) | (" + what + ")", ""},
		}},
	})
}

func TestRedfishHasNewerResourcesForSuppliesAndFans(t *testing.T) {
	const bay = "/redfish/v1/Chassis/1U/PowerSubsystem/PowerSupplies/Bay1"
	b := newRedfish(t, vendor{mockup: "dmtf"})
	if got := outline(b.look()); got != healthy {
		t.Fatal(got)
	}
	b.health(bay, "Critical")
	b.service.Change(bay, "LineInputStatus", "LossOfInput")
	if got, want := outline(b.look()), healthy+" | warning PSU 1 failure detected | warning PSU 1 power supply AC lost"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.health("/redfish/v1/Chassis/1U/ThermalSubsystem/Fans/Bay1", "Critical")
	v := b.look()
	if v.Reason != "FanFailure" {
		t.Errorf("got %+v", v)
	}
	f := v.Failures[0]
	if f.Identity == nil || f.Identity.Serial != "1224-00023" || f.Path != "/redfish/v1/Chassis/1U/ThermalSubsystem/Fans/Bay1" || f.Said != `{"State":"Enabled","Health":"Critical"}` {
		t.Errorf("got %+v, %+v", f, f.Identity)
	}
}
