// Package openstack plays a cloud: Keystone, Nova and Magnum over HTTPS, as far as Nodemend asks them.
// It is strict: what Nodemend is not known to send fails the test.
package openstack

import (
	"cmp"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	// Secret of the application credential "fence".
	Secret = "played-s3cret"
	token  = "played-token"
)

// metadataKey is what Nova accepts (nova/api/validation/parameter_types.py).
var metadataKey = regexp.MustCompile(`^[a-zA-Z0-9-_:. ]{1,255}$`)

// Server is one of Nova's.
type Server struct {
	ID, Name, Status, VMState, TaskState string
	Power                                int
	Metadata                             map[string]string
	Addresses                            []string
}

// Active returns a server that runs.
func Active(id, name string, addresses ...string) *Server {
	return &Server{ID: id, Name: name, Status: "ACTIVE", VMState: "active", Power: 1, Metadata: map[string]string{}, Addresses: addresses}
}

// Stopped has the server be stopped.
func (s *Server) Stopped() { s.Status, s.VMState, s.TaskState, s.Power = "SHUTOFF", "stopped", "", 4 }

// Started has the server run.
func (s *Server) Started() { s.Status, s.VMState, s.TaskState, s.Power = "ACTIVE", "active", "", 1 }

// Group is a node group of Magnum.
type Group struct {
	UUID, Name, Role, Status string
	Count                    int
	Addresses                []string
}

// Cluster is one of Magnum.
type Cluster struct {
	UUID, Status string
	Groups       []*Group
}

// Resize is a request that was accepted.
type Resize struct {
	NodeCount     int      `json:"node_count"`
	NodesToRemove []string `json:"nodes_to_remove"`
	NodeGroup     string   `json:"nodegroup"`
}

// Cloud is a whole one. Lock it to look at its fields, or to change them.
type Cloud struct {
	mutex   sync.Mutex
	Servers map[string]*Server
	Cluster *Cluster
	// Before is called for each request but the login, unlocked; a status other than 0 is the answer.
	Before func(request string) int
	// Lost is called likewise; true: the request has its effect, and the answer is lost.
	Lost func(request string) bool
	// Sleepy has an action of Nova do nothing, although it was accepted.
	Sleepy bool
	// Compute is the URL of another Nova that is in the catalogue, and Token the one that Keystone
	// gives for it; "": those that are played.
	Compute, Token string
	// Container is the URL of another Magnum that is in the catalogue; "": the one that is played.
	Container string
	// Resized are the requests that Magnum has accepted.
	Resized []Resize

	t     testing.TB
	http  *httptest.Server
	dir   string
	calls []string
}

// Start starts a cloud with these servers.
func Start(t testing.TB, servers ...*Server) *Cloud {
	t.Helper()
	c := &Cloud{t: t, Servers: map[string]*Server{}, dir: t.TempDir()}
	for _, s := range servers {
		c.Servers[s.ID] = s
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /identity/v3/auth/tokens", c.login)
	c.handle(mux, "GET /compute/v2.1/servers/{id}", c.show)
	c.handle(mux, "GET /compute/v2.1/servers/detail", c.list)
	c.handle(mux, "POST /compute/v2.1/servers/{id}/action", c.action)
	c.handle(mux, "PUT /compute/v2.1/servers/{id}/metadata/{key}", c.mark)
	c.handle(mux, "DELETE /compute/v2.1/servers/{id}/metadata/{key}", c.unmark)
	c.handle(mux, "GET /container-infra/v1/clusters/{cluster}", c.cluster)
	c.handle(mux, "GET /container-infra/v1/clusters/{cluster}/nodegroups", c.groups)
	c.handle(mux, "GET /container-infra/v1/clusters/{cluster}/nodegroups/{group}", c.group)
	c.handle(mux, "POST /container-infra/v1/clusters/{cluster}/actions/resize", c.resize)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("an unknown request: %s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusTeapot)
	})
	c.http = httptest.NewTLSServer(mux)
	t.Cleanup(c.http.Close)
	c.write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.http.Certificate().Raw})))
	c.Credential(Secret)
	return c
}

// Credential writes the clouds.yaml with a secret.
func (c *Cloud) Credential(secret string) {
	c.write("clouds.yaml", fmt.Sprintf(`clouds:
  openstack:
    auth: {auth_url: %s/identity, application_credential_id: fence, application_credential_secret: %s}
    auth_type: v3applicationcredential
    region_name: One
    cacert: %s
`, c.http.URL, secret, filepath.Join(c.dir, "ca.crt")))
}

// File is the clouds.yaml.
func (c *Cloud) File() string { return filepath.Join(c.dir, "clouds.yaml") }

// URL is that of Keystone.
func (c *Cloud) URL() string { return c.http.URL + "/identity" }

// Lock keeps requests waiting, as long as what they ask for is looked at, or changed.
func (c *Cloud) Lock() { c.mutex.Lock() }

// Unlock lets them go on.
func (c *Cloud) Unlock() { c.mutex.Unlock() }

// Calls are all requests that change anything, in their order.
func (c *Cloud) Calls() []string {
	c.Lock()
	defer c.Unlock()
	return slices.Clone(c.calls)
}

func (c *Cloud) write(name, text string) {
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}

// refuse answers as OpenStack does, and repeats what it was told.
func refuse(w http.ResponseWriter, status int, message string) {
	answer(w, status, map[string]any{"error": map[string]any{"code": status, "message": message + " " + Secret}})
}

// decode reads a body that has no other fields than these.
func (c *Cloud) decode(r *http.Request, into any) {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		c.t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
}

func (c *Cloud) login(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Auth struct {
			Identity struct {
				Methods    []string `json:"methods"`
				Credential struct {
					ID     string `json:"id"`
					Secret string `json:"secret"`
				} `json:"application_credential"`
			} `json:"identity"`
		} `json:"auth"`
	}
	c.decode(r, &body)
	if of := body.Auth.Identity; !slices.Equal(of.Methods, []string{"application_credential"}) || of.Credential.ID != "fence" || of.Credential.Secret != Secret {
		refuse(w, http.StatusUnauthorized, "The request you have made requires authentication.")
		return
	}
	service := func(kind, path string) map[string]any {
		return map[string]any{"type": kind, "name": kind, "id": kind, "endpoints": []any{
			map[string]any{"id": "other", "interface": "public", "region": "Two", "region_id": "Two", "url": "https://192.0.2.1/"},
			map[string]any{"id": "this", "interface": "public", "region": "One", "region_id": "One", "url": c.http.URL + path},
		}}
	}
	compute := service("compute", "/compute/v2.1")
	if c.Compute != "" {
		compute["endpoints"] = []any{map[string]any{"id": "this", "interface": "public", "region": "One", "region_id": "One", "url": c.Compute}}
	}
	container := service("container-infra", "/container-infra/v1")
	if c.Container != "" {
		container["endpoints"] = []any{map[string]any{"id": "this", "interface": "public", "region": "One", "region_id": "One", "url": c.Container}}
	}
	w.Header().Set("X-Subject-Token", cmp.Or(c.Token, token))
	answer(w, http.StatusCreated, map[string]any{"token": map[string]any{
		"methods": []string{"application_credential"}, "expires_at": "2100-01-01T00:00:00.000000Z", "issued_at": "2026-01-01T00:00:00.000000Z",
		"project": map[string]any{"id": "p", "name": "p"}, "user": map[string]any{"id": "u", "name": "u"},
		"catalog": []any{compute, container},
	}})
}

// handle serves requests with the token, under the lock.
func (c *Cloud) handle(mux *http.ServeMux, pattern string, f http.HandlerFunc) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Auth-Token") != token {
			refuse(w, http.StatusUnauthorized, "no token")
			return
		}
		if strings.HasPrefix(r.URL.Path, "/container-infra/") && r.Header.Get("OpenStack-API-Version") != "container-infra 1.10" {
			c.t.Errorf("%s %s: OpenStack-API-Version is %q", r.Method, r.URL, r.Header.Get("OpenStack-API-Version"))
		}
		request := r.Method + " " + r.URL.Path
		c.Lock()
		before, lost := c.Before, c.Lost
		c.Unlock()
		if before != nil {
			if status := before(request); status != 0 {
				refuse(w, status, "as the test wants it")
				return
			}
		}
		if lost != nil && lost(request) {
			defer refuse(w, http.StatusBadGateway, "the answer is lost")
			w = httptest.NewRecorder()
		}
		c.Lock()
		defer c.Unlock()
		if id := r.PathValue("id"); id != "" && c.Servers[id] == nil {
			refuse(w, http.StatusNotFound, "Instance could not be found.")
			return
		}
		if id := r.PathValue("cluster"); id != "" && (c.Cluster == nil || c.Cluster.UUID != id) {
			refuse(w, http.StatusNotFound, "Cluster could not be found.")
			return
		}
		f(w, r)
	})
}

func (c *Cloud) show(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusOK, map[string]any{"server": c.Servers[r.PathValue("id")].told()})
}

// perPage is how many servers a page has, as a cloud's configuration says.
const perPage = 2

func (c *Cloud) list(w http.ResponseWriter, r *http.Request) {
	ids := slices.Sorted(maps.Keys(c.Servers))
	if after := r.URL.Query().Get("marker"); after != "" {
		ids = ids[slices.Index(ids, after)+1:]
	}
	page := map[string]any{}
	if len(ids) > perPage {
		ids = ids[:perPage]
		page["servers_links"] = []any{map[string]any{"rel": "next", "href": c.http.URL + r.URL.Path + "?marker=" + ids[perPage-1]}}
	}
	told := []any{}
	for _, id := range ids {
		told = append(told, c.Servers[id].told())
	}
	page["servers"] = told
	answer(w, http.StatusOK, page)
}

// told is a server as Nova tells of it.
func (s *Server) told() map[string]any {
	var task any
	if s.TaskState != "" {
		task = s.TaskState
	}
	addresses := []any{}
	for _, address := range s.Addresses {
		addresses = append(addresses, map[string]any{"version": 4, "addr": address, "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:01"})
	}
	return map[string]any{
		"id": s.ID, "name": s.Name, "status": s.Status, "OS-EXT-STS:vm_state": s.VMState, "OS-EXT-STS:task_state": task, "OS-EXT-STS:power_state": s.Power,
		"metadata": s.Metadata, "addresses": map[string]any{"net": addresses}, "image": "", "flavor": map[string]any{"id": "1"}, "config_drive": "",
		"OS-SRV-USG:launched_at": "2026-01-01T00:00:00.000000", "OS-SRV-USG:terminated_at": nil, "created": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z",
	}
}

func (c *Cloud) action(w http.ResponseWriter, r *http.Request) {
	s := c.Servers[r.PathValue("id")]
	var body map[string]any
	c.decode(r, &body)
	stop, start := false, false
	for name, value := range body {
		stop, start = stop || name == "os-stop", start || name == "os-start"
		if len(body) != 1 || value != nil || !stop && !start {
			c.t.Errorf("an unknown action: %v", body)
		}
	}
	switch {
	case s.TaskState != "" || stop && s.VMState != "active" || start && s.VMState != "stopped":
		refuse(w, http.StatusConflict, "Cannot do that while it is in vm_state "+s.VMState)
		return
	case stop:
		s.TaskState = "powering-off"
		c.calls = append(c.calls, "os-stop "+s.Name)
		if !c.Sleepy {
			s.Stopped()
		}
	default:
		s.TaskState = "powering-on"
		c.calls = append(c.calls, "os-start "+s.Name)
		if !c.Sleepy {
			s.Started()
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

func (c *Cloud) mark(w http.ResponseWriter, r *http.Request) {
	s, key := c.Servers[r.PathValue("id")], r.PathValue("key")
	var body struct {
		Meta map[string]string `json:"meta"`
	}
	c.decode(r, &body)
	if value, has := body.Meta[key]; !has || len(body.Meta) != 1 || len(value) > 255 || !metadataKey.MatchString(key) {
		refuse(w, http.StatusBadRequest, "Request body and URI mismatch")
		return
	}
	s.Metadata[key] = body.Meta[key]
	c.calls = append(c.calls, "mark "+s.Name)
	answer(w, http.StatusOK, body)
}

func (c *Cloud) unmark(w http.ResponseWriter, r *http.Request) {
	s, key := c.Servers[r.PathValue("id")], r.PathValue("key")
	if _, has := s.Metadata[key]; !has {
		refuse(w, http.StatusNotFound, "Metadata item was not found")
		return
	}
	delete(s.Metadata, key)
	c.calls = append(c.calls, "unmark "+s.Name)
	w.WriteHeader(http.StatusNoContent)
}

func (c *Cloud) cluster(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"uuid": c.Cluster.UUID, "name": "prod", "status": c.Cluster.Status, "stack_id": "s"})
}

func shown(g *Group) map[string]any {
	return map[string]any{"uuid": g.UUID, "name": g.Name, "role": g.Role, "status": g.Status, "node_count": g.Count, "node_addresses": g.Addresses, "min_node_count": 0, "max_node_count": nil}
}

// groups lists them as Magnum does: without addresses.
func (c *Cloud) groups(w http.ResponseWriter, _ *http.Request) {
	all := []any{}
	for _, g := range c.Cluster.Groups {
		all = append(all, map[string]any{"uuid": g.UUID, "name": g.Name, "role": g.Role, "status": g.Status, "node_count": g.Count})
	}
	answer(w, http.StatusOK, map[string]any{"nodegroups": all})
}

func (c *Cloud) find(name string) *Group {
	i := slices.IndexFunc(c.Cluster.Groups, func(g *Group) bool { return g.UUID == name || g.Name == name })
	if i < 0 {
		return nil
	}
	return c.Cluster.Groups[i]
}

func (c *Cloud) group(w http.ResponseWriter, r *http.Request) {
	g := c.find(r.PathValue("group"))
	if g == nil {
		refuse(w, http.StatusNotFound, "Nodegroup could not be found.")
		return
	}
	answer(w, http.StatusOK, shown(g))
}

func (c *Cloud) resize(w http.ResponseWriter, r *http.Request) {
	var body Resize
	c.decode(r, &body)
	g := c.find(body.NodeGroup)
	switch {
	case g == nil:
		refuse(w, http.StatusNotFound, "Nodegroup could not be found.")
		return
	case g.Role == "master":
		refuse(w, http.StatusBadRequest, "Resizing a master nodegroup is not supported")
		return
	} // also while an operation is in progress
	c.Resized = append(c.Resized, body)
	c.calls = append(c.calls, fmt.Sprintf("resize %s to %d without %s", g.Name, body.NodeCount, strings.Join(body.NodesToRemove, ",")))
	answer(w, http.StatusAccepted, map[string]any{"uuid": c.Cluster.UUID})
}
