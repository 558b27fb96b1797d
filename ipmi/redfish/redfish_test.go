package redfish

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/internal/power"
	service "github.com/nodemend/nodemend/internal/power/redfish"
	"github.com/nodemend/nodemend/ipmi"
	double "github.com/nodemend/nodemend/test/redfish"
)

func sourceOf(t testing.TB, s *double.Service) *Source {
	t.Helper()
	machine, err := power.ParseUUID(double.Machine)
	if err != nil {
		t.Fatal(err)
	}
	source, err := New(Options{
		Machine: machine,
		Service: service.Options{URL: s.URL(), User: double.User, Password: power.Secret{File: s.PasswordFile()}, TLS: service.TLS{CAFile: s.CAFile()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// read reads all, as the check does.
func read(t testing.TB, s *Source) ([]ipmi.Sensor, ipmi.EventLog) {
	t.Helper()
	log, err := s.Events(t.Context(), ipmi.Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Chassis(t.Context()); err != nil {
		t.Fatal(err)
	}
	sensors, err := s.Sensors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Rest()
	return sensors, log
}

func TestAPollTakesFewRequestsAndOneSession(t *testing.T) {
	for name, most := range map[string]int{"dell": 22, "hpe": 30, "dmtf": 25} {
		t.Run(name, func(t *testing.T) {
			s := double.Start(t)
			s.Mockup(name)
			source := sourceOf(t, s)
			read(t, source)
			first := s.Requests()
			sensors, _ := read(t, source)
			if again := s.Requests(); again > first || first > most {
				t.Errorf("the first poll took %d requests, another one %d, want at most %d", first, again, most)
			} else {
				t.Logf("%d sensors, %d requests, then %d", len(sensors), first, again)
			}
			if open, opened := s.Sessions(); open != 0 || opened != 2 {
				t.Errorf("%d of %d sessions are open", open, opened)
			}
			if err := source.Close(); err != nil {
				t.Error(err)
			}
			if _, err := source.Sensors(t.Context()); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("closed: %v", err)
			}
		})
	}
}

func TestAServiceIsNotReadForEver(t *testing.T) {
	s := double.Start(t)
	s.Mockup("hpe")
	const entries = "/redfish/v1/Systems/1/LogServices/IML/Entries"
	s.Put(entries, map[string]any{"Members": []any{}, "Members@odata.nextLink": entries})
	if _, err := sourceOf(t, s).Events(t.Context(), ipmi.Cursor{}); !errors.Is(err, service.ErrTooMuch) {
		t.Errorf("pages in a circle: %v", err)
	}
	s.Put(entries, map[string]any{"Members": []any{}})
	links := []any{}
	for i := range 900 {
		links = append(links, map[string]any{"@odata.id": fmt.Sprintf("%s/%d", entries, i)})
		s.Put(fmt.Sprintf("%s/%d", entries, i), map[string]any{"Id": i})
	}
	s.Members(entries, func([]any) []any { return links })
	if _, err := sourceOf(t, s).Events(t.Context(), ipmi.Cursor{}); !errors.Is(err, service.ErrTooMuch) {
		t.Errorf("one request for each of 900 entries: %v", err)
	}
	s.Put(entries, strings.Repeat("a", 5<<20))
	if _, err := sourceOf(t, s).Events(t.Context(), ipmi.Cursor{}); !errors.Is(err, service.ErrTooMuch) {
		t.Errorf("5 MiB: %v", err)
	}
	s.Put(entries, map[string]any{"Members": []any{map[string]any{"@odata.id": "https://elsewhere.example/"}}})
	if _, err := sourceOf(t, s).Events(t.Context(), ipmi.Cursor{}); err == nil || !strings.Contains(err.Error(), "none of its paths") {
		t.Errorf("a link elsewhere: %v", err)
	}
}

func TestAPasswordThatIsRefusedIsTriedOnceAPoll(t *testing.T) {
	s := double.Start(t)
	s.Mockup("dell")
	source := sourceOf(t, s)
	source.options.Service.User = "nobody"
	s.Requests()
	for range 3 {
		if _, err := source.Sensors(t.Context()); !errors.Is(err, power.ErrLogin) || strings.Contains(err.Error(), double.Password) {
			t.Errorf("got %v", err)
		}
	}
	if n := s.Requests(); n != 2 { // the root, and the login
		t.Errorf("it took %d requests", n)
	}
}

func TestAPasswordThatOthersMayReadIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := New(Options{Service: service.Options{URL: "https://bmc", Password: power.Secret{File: path}}})
	if err == nil || !strings.Contains(err.Error(), "0644") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}

func TestTheLogIsPutInOrder(t *testing.T) {
	at := func(seconds ...int) (all []ipmi.Event) {
		for _, s := range seconds {
			all = append(all, ipmi.Event{Timestamp: uint32(s), Time: time.Unix(int64(s), 0)})
		}
		return all
	}
	after := ipmi.Cursor{ID: 7, Timestamp: 20, Read: true, Records: 2}
	for name, tc := range map[string]struct {
		all   []ipmi.Event
		ids   []string
		after ipmi.Cursor
		want  string // the IDs of what follows
		again bool
	}{
		"numbers, the newest first":         {at(30, 20, 10), []string{"8", "7", "6"}, after, "8", false},
		"numbers, read for the first time":  {at(30, 20, 10), []string{"8", "7", "6"}, ipmi.Cursor{}, "6 7 8", false},
		"numbers from the newest":           {at(30, 20, 10), []string{"1", "2", "3"}, after, "8", false},
		"texts":                             {at(10, 20, 30), []string{"a", "b", "c"}, after, "8", false},
		"texts, of which old ones are gone": {at(20, 30, 40), []string{"b", "c", "d"}, after, "8 9", false},
		"texts, for the first time":         {at(10, 20), []string{"a", "b"}, ipmi.Cursor{}, "1 2", false},
		"the cursor is gone":                {at(30, 40), []string{"1", "2"}, after, "1 2", true},
		"two of a second":                   {at(10, 20, 20), []string{"a", "b", "c"}, after, "8", false},
		"none":                              {nil, nil, after, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			own := order(tc.all, tc.ids)
			log := following(tc.all, own, false, tc.after)
			var ids []string
			for _, e := range log.Events {
				ids = append(ids, fmt.Sprint(e.ID))
			}
			if got := strings.Join(ids, " "); got != tc.want || log.Restarted != tc.again || log.Total != len(tc.all) {
				t.Errorf("got %q, restarted %t, want %q", got, log.Restarted, tc.want)
			}
		})
	}
	if counted(0) != 0xfffe || counted(0xffff) != 1 || counted(math.MinInt32) == 0 {
		t.Error("an ID that is none")
	}
}

// FuzzResource wants that no answer of a service is taken for more than it says.
func FuzzResource(f *testing.F) {
	for _, seed := range []string{
		`{"@odata.id":"/redfish/v1/Systems/1/Memory/1","Name":"DIMM A1","SerialNumber":4711,"Status":{"State":"Enabled","Health":"Critical"}}`,
		`{"Name":"PS1","LineInputStatus":"LossOfInput","LineInputVoltage":0,"Status":{"State":"UnavailableOffline","Health":null}}`,
		`{"FailurePredicted":true,"PhysicalLocation":[{"Info":"Bay 1"}],"Status":{"State":"Absent"}}`,
		`{"Id":"7","Created":"2026-11-21T05:48:33Z","Severity":"Critical","SensorType":"Memory","Message":"lost","Links":{"OriginOfCondition":{"@odata.id":"/redfish/v1/Systems/1/Memory/1"}}}`,
		`{"Status":7}`, `null`, `[]`, `{"Members":[1]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, k := range []kind{kindMemory, kindDrive, kindSupply, kindFan, kindTemperature} {
			p := &parts{paths: map[string]bool{}}
			p.add(k, []raw{{path: "/redfish/v1/part", data: data}})
			var r resource
			bad := json.Unmarshal(data, &r) != nil
			for _, s := range p.sensors {
				if s.Path != "/redfish/v1/part" || len(s.Said) > 300 || bad && s.Available || !s.Available && s.States != 0 {
					t.Errorf("of %q: %+v", data, s)
				}
				if s.EventType == severities && s.Available && !strings.Contains(string(data), "Health") && !strings.Contains(strings.ToLower(string(data)), "health") {
					t.Errorf("a health of %q: %+v", data, s)
				}
			}
		}
		var e entry
		if json.Unmarshal(data, &e) == nil {
			if event := e.event(); event.Message == "" || len(event.Message) > maxMessage || event.Path != "" && !isPath(event.Path) {
				t.Errorf("of %q: %+v", data, event)
			}
		}
		held("/redfish/v1/Thermal#Fans", []json.RawMessage{data})
	})
}

// grow makes a mock-up that of a big server: 32 modules, 24 drives and 500 entries in the log.
func grow(s *double.Service) {
	const system = "/redfish/v1/Systems/System.Embedded.1"
	well := map[string]any{"State": "Enabled", "Health": "OK"}
	modules, drives := []any{}, []any{}
	for i := range 32 {
		path := fmt.Sprintf("%s/Memory/DIMM.Socket.%d", system, i)
		s.Put(path, map[string]any{"@odata.id": path, "Name": fmt.Sprint("DIMM ", i), "SerialNumber": fmt.Sprintf("S%06d", i), "Status": well})
		modules = append(modules, map[string]any{"@odata.id": path})
	}
	for i := range 24 {
		path := fmt.Sprintf("%s/Storage/RAID/Drives/%d", system, i)
		s.Put(path, map[string]any{"@odata.id": path, "Name": fmt.Sprint("Drive ", i), "SerialNumber": fmt.Sprintf("D%06d", i), "Status": well})
		drives = append(drives, map[string]any{"@odata.id": path})
	}
	s.Members(system+"/Memory", func([]any) []any { return modules })
	s.Members(system+"/Storage", func([]any) []any {
		return []any{map[string]any{"@odata.id": system + "/Storage/RAID", "Drives": drives}}
	})
	s.Members("/redfish/v1/Managers/iDRAC.Embedded.1/LogServices/Sel/Entries", func([]any) []any {
		entries := []any{}
		for i := range 500 {
			entries = append(entries, map[string]any{
				"@odata.id": fmt.Sprint("/redfish/v1/Managers/iDRAC.Embedded.1/LogServices/Sel/Entries/", i+1), "Id": fmt.Sprint(i + 1), "EntryType": "SEL", "Severity": "OK",
				"Created": time.Date(2026, 1, 1, 0, i, 0, 0, time.UTC).Format(time.RFC3339), "Message": "The system inlet temperature is within range.", "SensorType": "Temperature",
			})
		}
		return entries
	})
}

func BenchmarkPoll(b *testing.B) {
	for _, name := range []string{"dell", "hpe", "big"} {
		b.Run(name, func(b *testing.B) {
			s := double.Start(b)
			s.Mockup(strings.Replace(name, "big", "dell", 1))
			if name == "big" {
				grow(s)
			}
			source := sourceOf(b, s)
			read(b, source)
			s.Requests()
			b.ReportAllocs()
			for b.Loop() {
				read(b, source)
			}
			b.ReportMetric(float64(s.Requests())/float64(b.N), "requests/op")
		})
	}
}
