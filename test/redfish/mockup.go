package redfish

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Mock-ups of services, much shortened, in the shape of public ones: dmtf is that of DSP2043
// (public-rackmount1), dell that of an iDRAC9 as Dell's "iDRAC9 Redfish API Guide" and
// github.com/dell/iDRAC-Redfish-Scripting show it, hpe that of an iLO 5 as HPE's "iLO 5 Redfish
// API reference" (hewlettpackard.github.io/ilo-rest-api-docs) does.
//
//go:embed mockups
var mockups embed.FS

// Machine is the UUID of the system of every mock-up.
const Machine = "4c4c4544-0032-3810-8052-b4c04f4a5731"

// Mockup makes the service that of a mock-up: dell, hpe or dmtf. Only dell answers the members of
// a collection with it.
func (s *Service) Mockup(name string) {
	s.t.Helper()
	data, err := mockups.ReadFile("mockups/" + name + ".json")
	if err != nil {
		s.t.Fatal(err)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.mockup, s.expands = nil, name == "dell"
	if err := json.Unmarshal(data, &s.mockup); err != nil {
		s.t.Fatal(err)
	}
}

// Put makes a value a resource of the mock-up, or removes it if it is nil.
func (s *Service) Put(path string, value any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if value == nil {
		delete(s.mockup, path)
		return
	}
	s.mockup[path] = value
}

// Change changes a property of a resource, such as "PowerSupplies.0.Status.Health".
func (s *Service) Change(path, property string, value any) {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	at, has := s.mockup[path]
	if !has {
		s.t.Fatalf("the mock-up has no %s", path)
	}
	names := strings.Split(property, ".")
	for _, name := range names[:len(names)-1] {
		switch of := at.(type) {
		case map[string]any:
			at = of[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(of) {
				s.t.Fatalf("%s has no %s", path, property)
			}
			at = of[i]
		}
	}
	of, ok := at.(map[string]any)
	if !ok {
		s.t.Fatalf("%s has no %s", path, property)
	}
	of[names[len(names)-1]] = value
}

// Members changes the members of a collection.
func (s *Service) Members(path string, change func([]any) []any) {
	s.t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	of, ok := s.mockup[path].(map[string]any)
	members, isList := of["Members"].([]any)
	if !ok || !isList {
		s.t.Fatalf("the mock-up has no collection %s", path)
	}
	of["Members"] = change(members)
}

// Requests returns how many there were since the last call.
func (s *Service) Requests() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	n := s.requests
	s.requests = 0
	return n
}

// Restart forgets all sessions, as a BMC does.
func (s *Service) Restart() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	clear(s.sessions)
}

// serveMockup answers a resource; of a collection with its members, if the service can and is
// asked to.
func (s *Service) serveMockup(w http.ResponseWriter, r *http.Request, path string) {
	resource, has := s.mockup[path]
	if !has {
		refuse(w, http.StatusNotFound, "ResourceMissingAtURI", fmt.Sprintf("The resource at the URI %s was not found.", path))
		return
	}
	collection, _ := resource.(map[string]any)
	members, isCollection := collection["Members"].([]any)
	if !strings.Contains(r.URL.RawQuery, "expand") || !isCollection || !s.expands {
		replyAny(w, resource)
		return
	}
	whole := make(map[string]any, len(collection))
	for name, value := range collection {
		whole[name] = value
	}
	var expanded []any
	for _, member := range members {
		if reference, ok := member.(map[string]any); ok && len(reference) == 1 {
			to, _ := reference["@odata.id"].(string)
			if found, has := s.mockup[strings.TrimSuffix(to, "/")]; has {
				member = found
			}
		}
		expanded = append(expanded, member)
	}
	whole["Members"] = expanded
	replyAny(w, whole)
}

func replyAny(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
