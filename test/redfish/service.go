// Package redfish is a Redfish service of the tests, over TLS: the part of the schema that
// switches power, as the DMTF's public mock-ups have it (DSP2043), with the faults of real
// services.
package redfish

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// User and Password are those that the service accepts.
const (
	User     = "operator"
	Password = `pass"word\é`
)

// System is a machine of the service.
type System struct {
	UUID  string
	Power string
	// Indicator is whether its light shines; nil: it has none.
	Indicator *bool
	// LED is what its IndicatorLED says, as of services before LocationIndicatorActive; empty: it has
	// none.
	LED string
	// LEDs are what that can be set to; none: anything.
	LEDs []string
	// Chassis has what a system has of lights, and how many systems; nil: the system has none.
	Chassis *Chassis
	// Resets are the types of reset that it offers; none: it does not say.
	Resets []string
	// Lag is how many readings come after a reset before it has an effect.
	Lag int
	// Machine is what is switched, and has the power or not, instead of Power, at once; nil: nothing.
	Machine VirtualMachine

	pending string
}

// VirtualMachine is one that a service switches.
type VirtualMachine interface {
	PowerOff(ctx context.Context) error
	PowerOn(ctx context.Context) error
	HasPower() bool
}

// Chassis is that of a system.
type Chassis struct {
	Indicator *bool
	LED       string
	Systems   int
}

// Service has systems by their number, from 1.
type Service struct {
	t      testing.TB       // of those that Start has started
	server *httptest.Server // the same

	mutex    sync.Mutex
	systems  []*System
	sessions map[string]bool
	instead  http.HandlerFunc
	calls    []string
	opened   int
	// mockup are the resources of a mock-up by their paths; nil: the systems are all.
	mockup   map[string]any
	expands  bool
	requests int
}

// Start starts a service. It ends with the test.
func Start(t testing.TB, systems ...*System) *Service {
	t.Helper()
	s := New(systems...)
	s.t = t
	s.server = httptest.NewTLSServer(s)
	t.Cleanup(s.server.Close)
	return s
}

// New returns a service that its caller serves: its methods that need a test, or an address, are
// not for it.
func New(systems ...*System) *Service {
	return &Service{systems: systems, sessions: map[string]bool{}}
}

// URL returns its address.
func (s *Service) URL() string { return s.server.URL }

// CAFile writes the service's certificate, which has signed itself, to a file.
func (s *Service) CAFile() string {
	s.t.Helper()
	return s.file("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})))
}

// Certificate returns the service's certificate, in DER.
func (s *Service) Certificate() []byte { return s.server.Certificate().Raw }

// PasswordFile writes the password to a file.
func (s *Service) PasswordFile() string { s.t.Helper(); return s.file("password", Password+"\n") }

func (s *Service) file(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// Instead makes a handler answer, which returns to the service what it does not want by
// Pass. Nil: the service itself.
func (s *Service) Instead(handler http.HandlerFunc) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.instead = handler
}

// Pass answers as the service does.
func (s *Service) Pass(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.answer(w, r)
}

// Sessions returns how many are open, and how many were opened.
func (s *Service) Sessions() (open, opened int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.sessions), s.opened
}

// Power returns that of a system.
func (s *Service) Power(number int) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.systems[number-1].Power
}

// Calls returns the requests since the last call that change something.
func (s *Service) Calls() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	instead := s.instead
	s.mutex.Unlock()
	if instead != nil {
		instead(w, r)
		return
	}
	s.Pass(w, r)
}

const (
	root     = "/redfish/v1"
	sessions = root + "/SessionService/Sessions"
	systems  = root + "/Systems"
	chassis  = root + "/Chassis"
	reset    = "/Actions/ComputerSystem.Reset"
)

type object map[string]any

func link(path string) object { return object{"@odata.id": path} }

func (s *Service) answer(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	s.requests++
	switch {
	case path == root && r.Method == http.MethodGet:
		reply(w, http.StatusOK, object{
			"@odata.id": root, "@odata.type": "#ServiceRoot.v1_16_0.ServiceRoot", "Id": "RootService", "Name": "Root Service",
			"RedfishVersion": "1.18.0", "ProtocolFeaturesSupported": object{"ExpandQuery": object{"NoLinks": s.expands, "Levels": s.expands}}, "Systems": link(systems), "Links": object{"Sessions": link(sessions)},
		})
	case path == sessions && r.Method == http.MethodPost:
		s.login(w, r)
	case !s.sessions[r.Header.Get("X-Auth-Token")]:
		refuse(w, http.StatusUnauthorized, "NoValidSession", "There is no valid session established with the implementation.")
	case strings.HasPrefix(path, sessions+"/") && r.Method == http.MethodDelete:
		delete(s.sessions, strings.TrimPrefix(path, sessions+"/"))
		w.WriteHeader(http.StatusNoContent)
	case s.mockup != nil && r.Method == http.MethodGet:
		s.serveMockup(w, r, path)
	case path == systems && r.Method == http.MethodGet:
		members := []object{}
		for i := range s.systems {
			members = append(members, link(fmt.Sprintf("%s/%d", systems, i+1)))
		}
		reply(w, http.StatusOK, object{
			"@odata.id": systems, "@odata.type": "#ComputerSystemCollection.ComputerSystemCollection", "Name": "Computer System Collection",
			"Members": members, "Members@odata.count": len(members),
		})
	default:
		for i, system := range s.systems {
			at := fmt.Sprintf("%s/%d", systems, i+1)
			if path == at || path == at+reset {
				s.system(w, r, system, at, path)
				return
			}
			if path == fmt.Sprintf("%s/%d", chassis, i+1) && system.Chassis != nil {
				s.chassis(w, r, system.Chassis, path)
				return
			}
		}
		refuse(w, http.StatusNotFound, "ResourceMissingAtURI", "The resource at the URI "+path+" was not found.")
	}
}

func (s *Service) login(w http.ResponseWriter, r *http.Request) {
	var credentials struct{ UserName, Password string }
	if err := json.NewDecoder(r.Body).Decode(&credentials); err != nil || credentials.UserName != User || credentials.Password != Password {
		// Some services repeat what they were sent.
		refuse(w, http.StatusUnauthorized, "ResourceAtUriUnauthorized", fmt.Sprintf("%q with %q was refused", credentials.UserName, credentials.Password))
		return
	}
	s.opened++
	token := fmt.Sprintf("token-%d", s.opened)
	s.sessions[token] = true
	w.Header().Set("X-Auth-Token", token)
	w.Header().Set("Location", sessions+"/"+token)
	reply(w, http.StatusCreated, object{
		"@odata.id": sessions + "/" + token, "@odata.type": "#Session.v1_7_0.Session", "Id": token, "Name": "User Session", "UserName": User,
	})
}

func (s *Service) system(w http.ResponseWriter, r *http.Request, system *System, at, path string) {
	var sent struct {
		ResetType               string
		LocationIndicatorActive *bool
		IndicatorLED            string
	}
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			refuse(w, http.StatusBadRequest, "MalformedJSON", err.Error())
			return
		}
	}
	switch {
	case r.Method == http.MethodGet && path == at:
		reply(w, http.StatusOK, system.read(at))
	case r.Method == http.MethodPatch && path == at && system.Indicator != nil && sent.LocationIndicatorActive != nil:
		*system.Indicator = *sent.LocationIndicatorActive
		reply(w, http.StatusOK, system.read(at))
	case r.Method == http.MethodPatch && path == at && system.LED != "" && sent.IndicatorLED != "":
		if len(system.LEDs) > 0 && !slices.Contains(system.LEDs, sent.IndicatorLED) {
			refuse(w, http.StatusBadRequest, "PropertyValueNotInList", "The value is not in the list of acceptable values.")
			return
		}
		system.LED = sent.IndicatorLED
		reply(w, http.StatusOK, system.read(at))
	case r.Method == http.MethodPost && path == at+reset:
		s.calls = append(s.calls, sent.ResetType+" "+at)
		power := map[string]string{"ForceOff": "Off", "GracefulShutdown": "Off", "On": "On", "ForceOn": "On"}[sent.ResetType]
		if power == "" || power == system.power() {
			refuse(w, http.StatusConflict, "ResourceCannotBeChanged", "The power state is that already.")
			return
		}
		if err := system.turn(r.Context(), power); err != nil {
			refuse(w, http.StatusInternalServerError, "InternalError", err.Error())
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusMethodNotAllowed, "OperationNotAllowed", r.Method)
	}
}

// power returns On or Off.
func (s *System) power() string {
	if s.Machine == nil {
		return s.Power
	}
	if s.Machine.HasPower() {
		return "On"
	}
	return "Off"
}

// turn switches the power.
func (s *System) turn(ctx context.Context, power string) error {
	switch {
	case s.Machine == nil:
		if s.pending = power; s.Lag == 0 {
			s.Power = power
		}
		return nil
	case power == "Off":
		return s.Machine.PowerOff(ctx)
	default:
		return s.Machine.PowerOn(ctx)
	}
}

// chassis answers for that of a system.
func (s *Service) chassis(w http.ResponseWriter, r *http.Request, of *Chassis, at string) {
	if r.Method == http.MethodPatch {
		var sent struct {
			LocationIndicatorActive *bool
			IndicatorLED            string
		}
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			refuse(w, http.StatusBadRequest, "MalformedJSON", err.Error())
			return
		}
		if of.Indicator != nil && sent.LocationIndicatorActive != nil {
			*of.Indicator = *sent.LocationIndicatorActive
		}
		if of.LED != "" && sent.IndicatorLED != "" {
			of.LED = sent.IndicatorLED
		}
	}
	o := object{"@odata.id": at, "@odata.type": "#Chassis.v1_14_0.Chassis", "Id": filepath.Base(at), "Name": "Chassis", "ChassisType": "RackMount"}
	has := []object{}
	for i := range of.Systems {
		has = append(has, link(fmt.Sprintf("%s/%d", systems, i+1)))
	}
	o["Links"] = object{"ComputerSystems": has}
	if of.Indicator != nil {
		o["LocationIndicatorActive"] = *of.Indicator
	}
	if of.LED != "" {
		o["IndicatorLED"] = of.LED
	}
	reply(w, http.StatusOK, o)
}

func (s *System) read(at string) object {
	if s.pending != "" {
		s.Lag--
		if s.Lag < 0 {
			s.Power, s.pending = s.pending, ""
		}
	}
	action := object{"target": at + reset}
	if len(s.Resets) > 0 {
		action["ResetType@Redfish.AllowableValues"] = s.Resets
	}
	o := object{
		"@odata.id": at, "@odata.type": "#ComputerSystem.v1_22_0.ComputerSystem", "Id": filepath.Base(at), "Name": "Web Front End node",
		"SystemType": "Physical", "PowerState": s.power(), "Actions": object{"#ComputerSystem.Reset": action},
	}
	if s.UUID != "" {
		o["UUID"] = s.UUID
	}
	if s.Indicator != nil {
		o["LocationIndicatorActive"] = *s.Indicator
	}
	if s.LED != "" {
		o["IndicatorLED"] = s.LED
	}
	if s.Chassis != nil {
		o["Links"] = object{"Chassis": []object{link(chassis + "/" + filepath.Base(at))}}
	}
	return o
}

func reply(w http.ResponseWriter, status int, body object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

// refuse answers an error as DSP0266 has it, section 8.6.
func refuse(w http.ResponseWriter, status int, id, message string) {
	reply(w, status, object{"error": object{
		"code": "Base.1.18.GeneralError", "message": message,
		"@Message.ExtendedInfo": []object{{"MessageId": "Base.1.18." + id, "Message": message, "MessageSeverity": "Critical"}},
	}})
}
